"""Charts that many viewers ask for are read once."""

from pathlib import Path

import pytest
from tests import events

from penstock.clock import ManualClock
from penstock.monitor import markets as module
from penstock.monitor.market_candles import CandleRange, CandlesRead, read_candles
from penstock.monitor.markets import Markets
from penstock.storage.log import open_log

NOW_MS = 1_790_000_000_000
ASKED = CandleRange(exchange="toy", symbol="btc_usdt", interval="1m")


async def test_a_chart_that_takes_long_is_returned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, log = ManualClock(NOW_MS), open_log("memory:")
    log.writer("a").append([events.trade(1, at_ns=NOW_MS * 1_000_000)])
    made: list[int] = []

    def slow(*arguments: object) -> CandlesRead:
        made.append(clock.now_ms())
        clock._now_ns += 100_000_000
        return read_candles(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read_candles", slow)
    markets = Markets(log, tmp_path, clock)
    for _ in range(5):
        assert (await markets.candles(ASKED)).document.items
    assert len(made) == 1
    await clock.advance(4.9)
    await markets.candles(ASKED)
    assert len(made) == 1
    await clock.advance(0.2)
    await markets.candles(ASKED)
    assert len(made) == 2, "a tenth of a second every five seconds"

    for limit in range(1, 100):
        await markets.candles(CandleRange(exchange="toy", symbol="btc_usdt", limit=limit))
    assert len(markets._kept) == 16
    await markets.close()
