"""Which path runs can be chosen, and is told."""

import os
import subprocess
import sys

import pytest

from penstock import compiled


def version(**environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "--version"],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_the_environment_chooses_python() -> None:
    assert "hot path: Python (PENSTOCK_COMPILED=off)" in version(PENSTOCK_COMPILED="off")


@pytest.mark.skipif(compiled.Reader is None, reason=compiled.WHY_NOT)
def test_the_version_tells_that_the_compiled_path_runs() -> None:
    assert version(PENSTOCK_COMPILED="").endswith("hot path: compiled\n")
