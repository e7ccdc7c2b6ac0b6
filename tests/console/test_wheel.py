"""A wheel has the whole console: it is served where there is neither npm nor a source tree."""

import hashlib
import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from tests.console.vendor_script import ROOT
from tests.waiting import PATIENCE_S

from penstock.console import STATIC


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def penstock(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in an environment of the wheel and of the libraries that it needs."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    options = ["--no-index", "--no-compile", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(wheel)], check=True, capture_output=True)
    # Its libraries are those of this environment. Of a folder that is named in a .pth file the
    # .pth files are not read, so an editable installation of penstock there is not found.
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin" / "penstock"


def test_a_wheel_has_the_chart_libraries_with_licences(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        folder = "penstock/console/static/vendor"
        manifest = json.loads(archive.read(f"{folder}/MANIFEST"))
        names = set(archive.namelist())
    for library in manifest.values():
        for name in library["files"]:
            assert f"{folder}/{name}" in names
    assert f"{folder}/NOTICE.txt" in names
    own = {path.relative_to(STATIC) for path in STATIC.rglob("*") if path.is_file()}
    assert {f"penstock/console/static/{path.as_posix()}" for path in own} <= names


def test_an_installed_wheel_serves_the_console_without_node(penstock: Path, tmp_path: Path) -> None:
    environment = {"PATH": str(penstock.parent), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [str(penstock), "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["listening"]
            assert b"<!doctype html>" in _read(f"{address}/").lower()
            manifest = json.loads((STATIC / "vendor" / "MANIFEST").read_text())
            for library in manifest.values():
                for name, one in library["files"].items():
                    body = _read(f"{address}/assets/vendor/{name}")
                    assert hashlib.sha256(body).hexdigest() == one["sha256"]
        finally:
            process.terminate()
    assert process.returncode == 0


def _read(address: str) -> bytes:
    with urlopen(address, timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
        return body
