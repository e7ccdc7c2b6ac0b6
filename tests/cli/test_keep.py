"""``penstock keep`` as a process: what it does and says; a dry run changes nothing."""

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.events import trade

from penstock.storage.lake import open_lake
from penstock.storage.log import open_log

from .conftest import run, started, stopped, wait_until

KEEP = ("keep", "--data-dir", ".")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with trades that were received an hour ago."""
    hour_ago = time.time_ns() - 3_600_000_000_000
    with closing(open_log(f"rocksdb:{tmp_path}").writer("collect-toy")) as writer:
        writer.append([trade(n, received_at_ns=hour_ago + n, at_ns=hour_ago) for n in range(100)])
    return tmp_path


def test_a_dry_run_says_what_is_due_and_changes_nothing(data: Path) -> None:
    before = {str(each) for each in data.rglob("*")}

    result = run(*KEEP, "--dry-run", folder=data)
    as_json = run(*KEEP, "--dry-run", "--json", folder=data)

    assert result.stdout == "seal trades of collect-toy: 100 records\n"
    (line,) = map(json.loads, as_json.stdout.splitlines())
    assert (line["action"], line["table"], line["records"]) == ("seal", "trades", 100)
    assert {str(each) for each in data.rglob("*")} == before


def test_once_does_what_is_due(data: Path) -> None:
    result = run(*KEEP, "--once", "--json", folder=data)

    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert (facts["rows"], facts["problems"]) == (100, [])
    assert [each.rows for each in open_lake(str(data / "lake")).stats()] == [100]
    assert run(*KEEP, "--dry-run", folder=data).stdout == "Nothing is due.\n"
    shown = run("status", "--data-dir", ".", folder=data).stdout
    assert "100 rows sealed; log" in shown


def test_a_keeper_runs_until_it_is_stopped(data: Path) -> None:
    often = {"PENSTOCK_KEEP_SEAL_EVERY": "0.2"}
    with started(*KEEP, folder=data, environment=often) as keeper:
        lake = open_lake(str(data / "lake"))
        wait_until(lambda: sum(each.rows for each in lake.stats()) == 100, keeper)
        code, _, errors = stopped(keeper)
    assert code == 0, errors


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PENSTOCK_KEEP_RETENTION": "trade=7d"}, "keep.retention.trade"),
        ({"PENSTOCK_STORAGE_LOG_URL": "memory:"}, "there is nothing to keep"),
        ({"PENSTOCK_STORAGE_LAKE_URL": "/dev/null/lake"}, "/dev/null/lake"),
    ],
)
def test_what_cannot_work_is_said(data: Path, environment: dict[str, str], said: str) -> None:
    result = run(*KEEP, "--once", folder=data, **environment)

    assert result.returncode != 0
    assert said in result.stderr + result.stdout
    assert not (data / "lake").exists()
