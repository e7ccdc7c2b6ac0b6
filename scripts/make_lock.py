"""Write the hashes of what is pinned into the files that pin it: make_lock.py FILE…

Each file lists `name==version`. The index that pip uses is asked for the hashes of every file of
that version which can be installed on Linux or macOS by CPython 3.11 or newer, so one lock holds on
every machine. To move a pin: change the version and run this again, and make_demo_lock.py after it.
"""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag
from urllib.request import urlopen

from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI

_PLATFORM = re.compile(
    r"any|(many|musl)?linux.*_(x86_64|aarch64)|macosx_.*_(x86_64|arm64|universal2)"
)
_INTERPRETER = re.compile(r"py3|py2\.py3|cp3[0-9]+")
_OLDEST_MINOR = 11
_HEAD = "# Written by scripts/make_lock.py; to move a pin, change its version and run that again.\n"


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _index() -> str:
    configuration = Configuration(isolated=False)
    configuration.load()
    settings = dict(configuration.items())
    names = (":env:.index-url", "install.index-url", "global.index-url")
    return next((settings[name] for name in names if name in settings), PyPI.simple_url).rstrip("/")


def _hashes(index: str, name: str, version: Version) -> Iterator[str]:
    links = _Links()
    with urlopen(f"{index}/{canonicalize_name(name)}/") as answer:  # noqa: S310 (pip's own index)
        links.feed(answer.read().decode())
    for link in links.found:
        address, fragment = urldefrag(link)
        file = unquote(address.rpartition("/")[2])
        if fragment.startswith("sha256=") and _is_wanted(file, version):
            yield fragment.replace("=", ":", 1)


def _is_wanted(file: str, version: Version) -> bool:
    try:
        if file.endswith(".whl"):
            _, found, _, tags = parse_wheel_filename(file)
            return found == version and any(map(_fits, tags))
        return parse_sdist_filename(file)[1] == version
    except (InvalidWheelFilename, InvalidSdistFilename):
        return False


def _fits(tag: Tag) -> bool:
    if not _PLATFORM.fullmatch(tag.platform) or not _INTERPRETER.fullmatch(tag.interpreter):
        return False
    if tag.abi in ("none", "abi3"):
        return True
    return tag.abi == tag.interpreter and int(tag.interpreter[3:]) >= _OLDEST_MINOR


def _locked(index: str, pin: str) -> str:
    name, _, version = pin.partition("==")
    hashes = sorted({*_hashes(index, name, Version(version))})
    if not hashes:
        raise SystemExit(f"The index has no file of {pin}.")
    return " \\\n    ".join([pin, *(f"--hash={each}" for each in hashes)]) + "\n"


def main() -> None:
    """Lock every file named on the command line."""
    index = _index()
    for path in map(Path, sys.argv[1:]):
        pins = re.findall(r"^[A-Za-z0-9][^\s#;]*==[^\s\\]+", path.read_text(), re.MULTILINE)
        with ThreadPoolExecutor(8) as pool:
            locked = [*pool.map(lambda pin: _locked(index, pin), pins)]
        path.write_text(_HEAD + "".join(locked))


if __name__ == "__main__":
    main()
