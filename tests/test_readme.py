"""The README's examples run as printed, in the order a reader meets them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.examples import ROOT, run

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")


def test_the_readme_runs_as_printed(tmp_path: Path) -> None:
    out = run(ROOT / "README.md", tmp_path, forked=False)  # the commands that are installed

    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    time, first, second, ready, connector, job, done, *candles = answers
    assert time["serverTime"] > 0
    assert "No known gaps in 2 markets." in out
    assert (first["kind"], second["id"]) == ("trade", first["id"] + 1)
    tail = re.findall(r"^[-\d]{10} [:.\d]{12}  binance BTC/USDT  trade \d+: ", out, re.M)
    assert len(tail) == 3
    assert ready == {"status": "ready"}
    assert connector["exchange_id"] == "binance"
    assert (job["type"], job["symbol"]) == ("ohlcv_incremental", "BTC/USDT")
    # The worker also fills what was missed between two runs of the collector.
    assert {one["type"] for one in done["items"]} - {"gap_backfill"} == {"ohlcv_backfill"}
    assert [candle["open_ms"] for candle in candles] == [
        1735689600000 + hour * 3_600_000 for hour in range(3)
    ]
