"""``penstock apply``: a file made true, looked at first."""

import json
from pathlib import Path

from .conftest import run, urls

PLAN = """
[connectors.binance]
symbols = ["btc_usdt", "eth_usdt"]
timeframes = ["1h"]
backfill = 2026-01-01
"""


def test_a_plan_is_looked_at_applied_and_then_true(tmp_path: Path, exchange: str) -> None:
    found, file = urls(exchange), tmp_path / "plan.toml"
    file.write_text(PLAN)

    looked = run("apply", "plan.toml", "--dry-run", folder=tmp_path, **found)
    assert looked.returncode == 0, looked.stderr
    assert "+ create job binance ohlcv_backfill BTC/USDT 1h  (since 2026-01-01)" in looked.stdout
    assert looked.stdout.endswith("Changes to make: 6. None was made.\n")
    assert run("jobs", "list", "--json", folder=tmp_path).stdout == ""

    done = run("apply", "plan.toml", "--json", folder=tmp_path, **found)
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [change["action"] for change in changes] == ["create"] * 6
    again = run("apply", "plan.toml", folder=tmp_path, **found)
    assert again.stdout == "Nothing to change: connectors and jobs match the file.\n"

    file.write_text(PLAN.replace(', "eth_usdt"', ""))
    less = run("apply", "plan.toml", folder=tmp_path, **found)
    assert "- pause job binance ohlcv_incremental ETH/USDT 1h" in less.stdout
    jobs = [
        json.loads(line)
        for line in run("jobs", "list", "--json", folder=tmp_path).stdout.splitlines()
    ]
    assert [job["status"] for job in jobs if job["symbol"] == "ETH/USDT"] == ["paused", "paused"]


def test_all_that_is_wrong_with_a_plan_is_said(tmp_path: Path, exchange: str) -> None:
    (tmp_path / "penstock.toml").write_text(
        '[connectors.binance]\nsymbols = ["btc_usd"]\ntimeframes = ["9h"]\n[connectors.nowhere]\n'
    )
    done = run("apply", folder=tmp_path, **urls(exchange))

    assert (done.returncode, done.stdout) == (2, "")
    for words in ("Did you mean btc_usdt", "'9h' is not", "Exchange 'nowhere' is not"):
        assert words in done.stderr
    assert run("connectors", "list", "--json", folder=tmp_path).stdout == ""


def test_without_a_file_nothing_is_paused(tmp_path: Path) -> None:
    done = run("apply", folder=tmp_path)

    assert done.returncode == 2
    assert "penstock.toml" in done.stderr
