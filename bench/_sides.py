"""The two sides of a comparison: programs in processes of their own, asked in turn.

A peer lives in an environment of its own, built on first use from a fully pinned list, because
its dependencies are not ours. A side answers each line it reads with one line of JSON, so that
both can be kept running and asked alternately: what else the machine does then hits both alike.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
Answer = dict[str, Any]


class Side:
    """One running program."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name, self._process = name, process

    def ask(self, question: str) -> Answer:
        """Hand over a line and wait for the answer."""
        self.send(question)
        return self.receive()

    def send(self, question: str) -> None:
        """Hand over a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()

    def receive(self) -> Answer:
        """Wait for the next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended while it was waited for")
        answer: Answer = json.loads(line)
        return answer


@contextmanager
def running(name: str, python: Path, module: str, *arguments: str) -> Iterator[Side]:
    """Start a module of this folder under some Python; it ends when its input does."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Side(name, process)


def in_turn(sides: Sequence[Side], turn: int) -> list[Side]:
    """The sides, another one first in each turn."""
    first = turn % len(sides)
    return [*sides[first:], *sides[:first]]


def our_python() -> Path:
    return Path(sys.executable)


def peer_python(name: str, minor: int | None = None) -> Path:
    """The Python of a peer's environment, built if it is not there or its list has changed.

    With the minor version of the Python 3 that a peer needs, where it is not ours.
    """
    pinned = ROOT / "bench" / "environments" / f"{name}.txt"
    folder = ROOT / ".venvs" / f"bench-{name}"
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != pinned.read_text():
        print(f"   building {folder.relative_to(ROOT)} from {pinned.relative_to(ROOT)}", flush=True)
        base = sys.executable if minor is None else find_python(minor)
        build = subprocess.run(
            [ROOT / "scripts" / "make-venv", folder, pinned],
            env={"PYTHON": str(base), **os.environ},
            stdout=sys.stderr,
            check=False,
        )
        if build.returncode:
            raise SystemExit(_why_not_built(name))
        ready.write_text(pinned.read_text())
    return folder / "bin" / "python"


def find_python(minor: int) -> Path | None:
    """A Python 3 of this minor version on the path or among pyenv's, if there is one."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = shutil.which(name)
    candidates = [Path(found)] if found else []
    candidates += sorted(pyenv.glob(f"versions/3.{minor}.*/bin/{name}"))
    for each in candidates:
        # One of pyenv's links may be there, and lead nowhere.
        if subprocess.run([each, "-c", ""], capture_output=True, check=False).returncode == 0:
            return each
    return None


def _why_not_built(name: str) -> str:
    if shutil.which("gcc") is None:
        return (
            f"{name}'s environment could not be built, and there is no gcc: where there is no"
            " wheel for this machine, its order-book must be compiled. On Debian: apt install gcc."
        )
    return f"{name}'s environment could not be built; pip says above why."


def pinned_versions(name: str, packages: Sequence[str]) -> dict[str, str]:
    """The versions a peer's environment is pinned to."""
    lines = (ROOT / "bench" / "environments" / f"{name}.txt").read_text().splitlines()
    pins = dict(line.rstrip(" \\").split("==") for line in lines if "==" in line)
    return {package: pins[package] for package in packages}
