"""What is published: the throttle needs nothing, and both distributions go together."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from penstock import __version__

ROOT = Path(__file__).parent.parent
NOBODY = 65_534

# Run without site-packages: whatever it imports is the standard library's or the wheel's.
USING = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import penstock.throttle
from penstock.throttle import *

assert penstock.throttle.__file__.startswith(sys.argv[1])

async def main():
    limit = Pipeline("1s", SlidingWindow(10, 1.0))
    throttler = BaseThrottler([limit, Pipeline("1m", FixedWindow(100, 60))])
    async with await throttler.acquire(cost=4):
        print(limit.remaining)

asyncio.run(main())
with BlockingThrottler([Pipeline("1s", TokenBucket(5, 5.0))]).acquire():
    print("paid")
"""


def demo_lock() -> str:
    """What the script would write into the lock of the demo."""
    spec = importlib.util.spec_from_file_location(
        "make_demo_lock", ROOT / "scripts" / "make_demo_lock.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    lock: str = script.demo_lock()
    return lock


def test_the_lock_of_the_demo_has_all_it_needs_and_the_same_pins() -> None:
    lock = (ROOT / "constraints-demo.txt").read_text()
    pins = set(re.findall(r"^[\w.-]+==\S+", lock, re.M))

    assert lock == demo_lock(), "run scripts/make_demo_lock.py"
    assert {pin.partition("==")[0] for pin in pins} >= {"aiohttp", "rocksdict", "hatchling"}
    assert pins < set(re.findall(r"^[\w.-]+==\S+", (ROOT / "constraints.txt").read_text(), re.M))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, str(ROOT / "scripts" / "make_wheels.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def files_of(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_the_throttle_is_installed_and_works_without_anything_else(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-compile"]
    target = str(tmp_path / "installed")
    options = ["--disable-pip-version-check", "--target", target]
    subprocess.run([*pip, *options, str(wheels["penstock_throttle"])], check=True)
    used = subprocess.run(
        [sys.executable, "-I", "-S", "-c", USING, target],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (used.stdout, used.stderr) == ("6\npaid\n", "")
    assert metadata_of(wheels["penstock_throttle"]).get_all("Requires-Dist") is None


def test_both_distributions_together_are_the_whole_package_and_no_file_is_in_both(
    wheels: dict[str, Path],
) -> None:
    throttle, rest = files_of(wheels["penstock_throttle"]), files_of(wheels["penstock"])
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "penstock").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert not throttle & rest
    assert throttle | rest == source


def test_penstock_depends_on_the_throttle_of_its_own_version(wheels: dict[str, Path]) -> None:
    throttle, rest = metadata_of(wheels["penstock_throttle"]), metadata_of(wheels["penstock"])

    assert throttle["Version"] == rest["Version"] == __version__
    assert f"penstock-throttle=={__version__}" in rest.get_all("Requires-Dist", [])


class NewEnvironment:
    """A virtual environment with what penstock requires, and without penstock and compilers."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder, self._bin = folder, folder / "bin"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        # A path in such a file is searched, but files like it in there are not read: the penstock
        # that is installed for development is one.
        paths = folder / "lib" / version / "site-packages" / "required.pth"
        paths.write_text(sysconfig.get_path("purelib") + "\n")
        kept = {key: os.environ[key] for key in os.environ if not key.startswith("P")}
        self.environment = kept | {"PATH": str(self._bin), "HOME": str(folder)}
        self.environment.pop("CC", None)

    def install(self, *wheels: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python")]
        command = [*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        subprocess.run([*command, *map(str, wheels)], env=self.environment, check=True)

    def says(self, *command: str) -> str:
        return subprocess.run(
            [self._bin / command[0], *command[1:]],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip


def test_a_wheel_runs_the_compiled_path_where_there_is_no_compiler(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    if "none-any" in wheels["penstock"].name:
        pytest.skip("there is no compiler here, nor ziglang: the wheel is without the extension")
    new = NewEnvironment(tmp_path / "new")
    new.install(*wheels.values())

    assert new.says("penstock", "--version").endswith("hot path: compiled\n")
    where = new.says("python", "-c", "import penstock.compiled._hot as hot; print(hot.__file__)")
    assert where.startswith(str(new.folder))


@pytest.mark.sample
def test_the_source_distribution_is_built_without_root_and_without_a_compiler(
    tmp_path: Path,
) -> None:
    """pip gets what the build requires, a compiler among it, from PyPI."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert not [name for name in archive.getnames() if name.endswith(".so")]
    new = NewEnvironment(tmp_path / "new")
    place = tmp_path / "made"
    place.mkdir()
    user = _without_root(tmp_path)

    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", place, source],
        env=new.environment | pip | {"HOME": str(place), "TMPDIR": str(place)},
        cwd=place, capture_output=True, text=True, check=False, user=user, group=user,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = place.glob("*.whl")
    new.install(wheel)

    assert "manylinux" in wheel.name or sys.platform != "linux"
    assert new.says("penstock", "--version").endswith("hot path: compiled\n")


def _without_root(folder: Path) -> int | None:
    """Who to be instead of root, where the Python that runs lets others run it."""
    if os.geteuid() != 0:
        return None
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, user=NOBODY, group=NOBODY)
    except (OSError, subprocess.CalledProcessError):
        return None
    for path in (folder.parent, folder, folder / "made"):
        path.chmod(0o777)
    return NOBODY
