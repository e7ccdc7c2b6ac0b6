"""``penstock demo --full``: every process is killed once, and nothing is missing at the end."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import run

pytestmark = pytest.mark.sample


def test_every_process_is_killed_once_and_nothing_is_missing(tmp_path: Path) -> None:
    words = ("--full", "--exchanges", "binance,upbit", "--seconds", "20", "--json")
    done = run("demo", *words, folder=tmp_path)

    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["processes_killed"] == 10
    assert (found["backup_verified"], found["doctor"]) == (True, 0)
    for name in ("trades_missing", "trades_duplicated", "gaps_unexplained", "book_mismatches"):
        assert found[name] == 0, name
