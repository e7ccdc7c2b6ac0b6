"""Build the wheels that are published: penstock-throttle, and penstock, which depends on it.

No file is in both, so that both can be installed, and either removed. `pip install .` in a checkout
builds one wheel with everything instead: what it would depend on need not be published yet.
See docs/decisions/0009-the-throttle-is-a-distribution-of-its-own.md.

Usage: scripts/make_wheels.py FOLDER
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APART = ROOT / "packaging" / "penstock-throttle.toml"
NEEDED = ("src", "docs", "scripts", "README.md", "LICENSE")


def main(folder: Path) -> None:
    """Build both into a folder."""
    whole = (ROOT / "pyproject.toml").read_text()
    for settings in (APART.read_text(), _without_the_throttle(whole)):
        with tempfile.TemporaryDirectory() as place:
            _build(Path(place), settings, folder.resolve())


def _without_the_throttle(settings: str) -> str:
    """penstock's settings, with a dependency in the place of what is built apart."""
    version = tomllib.loads(settings)["project"]["version"]
    apart = tomllib.loads(APART.read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = ", ".join(f'"{path}"' for path in apart["only-include"])
    for where, added in (
        ("\ndependencies = [\n", f'    "penstock-throttle=={version}",\n'),
        ("\n[tool.hatch.build.targets.wheel]\n", f"exclude = [{left_out}]\n"),
    ):
        assert settings.count(where) == 1, f"{where!r} is not, or not once, in pyproject.toml"
        settings = settings.replace(where, where + added)
    return settings


def _build(place: Path, settings: str, folder: Path) -> None:
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, place / name)
    (place / "pyproject.toml").write_text(settings)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=place, check=True)  # noqa: S603


if __name__ == "__main__":
    main(Path(sys.argv[1]))
