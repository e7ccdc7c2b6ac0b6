"""Planted bugs: patches of one bug each, and the tests that must catch them.

A patch in ``bugs/`` begins with a sentence that says what the bug does, and a line ``tests:`` with
the tests that must fail once it is applied. Each is applied to a copy of the tree, never to the
tree itself.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUGS = Path(__file__).parent / "bugs"

_COPIED = ("src", "tests", "pyproject.toml", "README.md", "docs", "bench", "scripts", "Makefile")
_EXTENSION = "src/penstock/compiled/_hot.abi3.so"
_COMPILED_PARTS = ("+++ b/src/penstock/compiled/", "layouts.py\n", "changing_levels.py\n",
                   "compiled_appending.py\n", "plain_frames.py\n")  # fmt: skip
# Without plugins that one process at a time does not need.
_UNUSED = ("cacheprovider", "xdist")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", *(f"-pno:{name}" for name in _UNUSED))
_FAILED = 1
"""pytest's exit code when tests ran and some failed; others mean that none could be judged."""
_LONGEST_S = 600
"""Tests that take longer are ended: they hang."""


class PatchInvalid(Exception):
    """A patch that says too little, or no longer fits the code."""


@dataclass(frozen=True)
class Bug:
    name: str
    says: str
    tests: tuple[str, ...]
    patch: Path

    @property
    def in_compiled(self) -> bool:
        """Whether only the compiled path has it."""
        return any(part in self.patch.read_text() for part in _COMPILED_PARTS)


@dataclass(frozen=True)
class Verdict:
    caught: bool
    output: str
    """What pytest said."""


def bugs() -> list[Bug]:
    """Every planted bug, by name."""
    return [_read(path) for path in sorted(BUGS.glob("*.patch"))]


def _read(path: Path) -> Bug:
    header = path.read_text().split("\n--- ", 1)[0].splitlines()
    says = [line for line in header if line and not line.startswith("tests:")]
    tests = [word for line in header if line.startswith("tests:") for word in line.split()[1:]]
    if not says or not tests:
        raise PatchInvalid(f"{path.name}: begin with a sentence and a line `tests: FILE::TEST`.")
    return Bug(path.stem, " ".join(says), tuple(tests), path)


def check_fits(bug: Bug, root: Path = ROOT) -> None:
    """Raise unless the patch applies to the code as it is, and the tests it names exist."""
    _git_apply(bug, root, "--check")
    for test in bug.tests:
        file, _, name = test.partition("::")
        path = root / file
        function = name.partition("[")[0]
        # A state machine of hypothesis is a test by assignment.
        marks = (f"def {function}(", f"\n{function} = ")
        if not path.exists() or not any(mark in path.read_text() for mark in marks):
            raise PatchInvalid(f"{bug.name}: there is no test {test}.")


class Copy:
    """A copy of the tree, in which one bug at a time is planted."""

    def __init__(self, folder: Path, original: Path = ROOT) -> None:
        self._root = folder / "tree"
        self._root.mkdir(parents=True)
        for name in _COPIED:
            source = original / name
            if source.is_dir():
                # Without the extension the Python code runs, in which most bugs are planted.
                compiled = shutil.ignore_patterns("__pycache__", "_hot.abi3.so")
                shutil.copytree(source, self._root / name, ignore=compiled)
            elif source.exists():
                shutil.copy2(source, self._root / name)

    def judge(self, bug: Bug) -> Verdict:
        """Plant the bug, run its tests, and take it out again."""
        _git_apply(bug, self._root)
        if bug.in_compiled:
            self._compile()
        try:
            done = self.run(bug.tests)
        except subprocess.TimeoutExpired as error:
            raise PatchInvalid(f"{bug.name}: its tests hang.") from error
        finally:
            (self._root / _EXTENSION).unlink(missing_ok=True)
            _git_apply(bug, self._root, "--reverse")
        if done.returncode not in (0, _FAILED):
            raise PatchInvalid(f"{bug.name}: its tests cannot be run.\n{done.stdout}{done.stderr}")
        return Verdict(done.returncode == _FAILED, done.stdout)

    def _compile(self) -> None:
        script = self._root / "scripts" / "compile_hot.py"
        subprocess.run([sys.executable, str(script)], check=True)

    def run(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run tests on the copy's code, as it is now."""
        environment = dict(os.environ)
        environment |= {"PYTHONPATH": str(self._root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*_PYTEST, "-m", "", *tests],
            cwd=self._root, env=environment, capture_output=True, text=True, check=False,
            timeout=_LONGEST_S,
        )  # fmt: skip


def _git_apply(bug: Bug, root: Path, *options: str) -> None:
    # Above the copy there may be a repository, whose rules are not meant for it.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(
        ["git", "apply", *options, str(bug.patch)],
        cwd=root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PatchInvalid(f"{bug.name}: does not fit the code any more.\n{done.stderr}")
