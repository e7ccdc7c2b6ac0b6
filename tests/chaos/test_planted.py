"""Planted bugs are caught by the tests that are said to catch them."""

import os
import random
from pathlib import Path

import pytest
from tests.planted.planting import Copy, bugs

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))
CHOSEN = 20


@pytest.mark.sample
def test_random_planted_bugs_are_caught(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chosen = random.Random(SEED).sample(bugs(), CHOSEN)
    copy = Copy(tmp_path)

    sound = copy.run(sorted({test for bug in chosen for test in bug.tests}))
    missed = [bug.name for bug in chosen if not copy.judge(bug).caught]

    assert sound.returncode == 0, sound.stdout
    assert not missed
