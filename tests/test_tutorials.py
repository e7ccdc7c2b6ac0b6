"""The quickstart and the tutorials run as printed."""

from pathlib import Path

import pytest
from tests.examples import ROOT, run

TUTORIALS = ROOT / "docs" / "tutorials"
ALONE = ["first-data.md", "backfill.md", "replay-a-bot.md"]


def test_every_tutorial_is_run() -> None:
    assert {page.name for page in TUTORIALS.iterdir()} == {*ALONE, "fleet.md"}


@pytest.mark.parametrize("name", ALONE)
def test_a_tutorial_runs_as_printed(name: str, tmp_path: Path) -> None:
    assert run(TUTORIALS / name, tmp_path)


def test_a_fleet_on_postgresql_and_redis_runs_as_printed(
    postgresql_url: str, redis_url: str, tmp_path: Path
) -> None:
    servers = {
        "postgresql://postgres:secret@127.0.0.1:5432/postgres": postgresql_url,
        "redis://127.0.0.1:6379": redis_url,
    }

    assert "ohlcv_backfill" in run(TUTORIALS / "fleet.md", tmp_path, servers)
