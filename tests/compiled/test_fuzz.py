"""A sample of `make chaos-compiled`: both paths agree, and no sanitiser says a word."""

import os
import subprocess
import sys

import pytest
from tests.compiled.fuzz import ROOT

from penstock import compiled


@pytest.mark.sample
@pytest.mark.skipif(compiled.Reader is None, reason=compiled.WHY_NOT)
def test_both_paths_agree_under_the_sanitisers() -> None:
    seconds = os.environ.get("PENSTOCK_TEST_SECONDS", "20")
    command = [sys.executable, "-m", "tests.compiled.fuzz", "--seconds", seconds]
    seed = os.environ.get("PENSTOCK_TEST_SEED")
    done = subprocess.run(
        [*command, *(["--seed", seed] if seed else [])],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "no difference" in done.stdout
    if "not sanitised" in done.stdout:
        pytest.skip(done.stdout.splitlines()[0])
