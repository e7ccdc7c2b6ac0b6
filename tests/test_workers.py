"""``--workers``: as many results as tests, whatever becomes of a worker."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.examples import ROOT

SHARED = """
import os
import pytest

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    yield os.getpid()
    (tmp_path_factory.getbasetemp().parent / f"ended-{os.getpid()}").touch()
"""
PASSES = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_one(number, server, tmp_path):
    print("said by a test that passes")
    (tmp_path / "file").touch()
"""
FAILS = PASSES.replace("    (tmp", "    assert number != 3, f'number {number}'\n    (tmp")
DIES = """
import os

def test_first(): ...
def test_second(): os.kill(os.getpid(), 9)
def test_third(): ...
"""


def _run(folder: Path, files: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    tests = folder / "tests"
    tests.mkdir()
    for name, text in {"conftest.py": SHARED, **files}.items():
        (tests / name).write_text(text)
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "tests.workers", "-p", "no:cacheprovider",
            "-rA", "--basetemp", str(folder / "made"), "--rootdir", str(tests), *words, str(tests),
        ],
        # No plugin is needed, and to load them takes longer than the tests.
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_test_is_run_once_and_each_worker_ends_its_own_fixtures(tmp_path: Path) -> None:
    files = {f"test_{number}.py": PASSES for number in range(8)}

    done = _run(tmp_path, files, "--workers", "3")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nPASSED ") == 40
    assert "40 passed" in done.stdout
    assert 1 <= len([*(tmp_path / "made").glob("ended-*")]) <= 3


def test_a_failure_is_shown_with_what_the_test_said(tmp_path: Path) -> None:
    words = ("--junitxml", str(tmp_path / "results.xml"), "--durations", "5")

    done = _run(tmp_path, {"test_a.py": FAILS, "test_b.py": PASSES}, "--workers", "2", *words)

    assert done.returncode == 1
    assert "1 failed, 9 passed" in done.stdout
    assert "AssertionError: number 3" in done.stdout
    assert "said by a test that passes" in done.stdout
    assert (tmp_path / "results.xml").read_text().count("<testcase ") == 10


def test_a_worker_that_dies_fails_its_test_and_those_that_nobody_ran(tmp_path: Path) -> None:
    done = _run(tmp_path, {"test_a.py": DIES, "test_b.py": PASSES}, "--workers", "2")

    assert done.returncode == 1
    assert "2 failed, 6 passed" in done.stdout
    assert "test_a.py::test_second - worker" in done.stdout
    assert "test_a.py::test_third - no worker" in done.stdout


def test_the_first_failure_ends_all_workers_if_asked_for(tmp_path: Path) -> None:
    slow = "import time\n\n\ndef test_slow(server):\n    time.sleep(100)\n"

    done = _run(tmp_path, {"test_a.py": slow, "test_b.py": FAILS}, "--workers", "2", "-x")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "stopping after 1 failures" in done.stdout
    assert [*(tmp_path / "made").glob("ended-*")]


def test_a_worker_whose_test_hangs_is_killed_and_says_where_it_was(tmp_path: Path) -> None:
    hangs = "import time\n\n\ndef test_hangs():\n    while True: time.sleep(1)\n"
    words = ("--workers", "2", "--longest", "5")

    done = _run(tmp_path, {"test_a.py": hangs, "test_b.py": PASSES}, *words)

    assert done.returncode == 1
    assert "1 failed, 5 passed" in done.stdout
    assert "test_a.py::test_hangs - worker" in done.stdout
    assert 'test_a.py", line 5 in test_hangs' in done.stderr
