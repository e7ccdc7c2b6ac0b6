"""Records as lines for people: what happened, where and when."""

from typing import Any

import pytest
from msgspec import Raw

from penstock.cli.record_lines import record_line
from penstock.market.events import (
    BookDelta,
    BookSnapshot,
    Candle,
    Disconnect,
    Event,
    Ticker,
    Trade,
)
from penstock.market.symbol import Symbol

COMMON: dict[str, Any] = {"exchange": "toy", "symbol": Symbol("BTC", "USDT"), "received_at_ns": 0}
NOON = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (
            Trade(
                **COMMON, id=7, at_ns=0, price_text="60000.10", quantity_text="0.5", taker="buy"
            ),
            "trade 7: buy 0.5 at 60000.10",
        ),
        (
            BookDelta(**COMMON, at_ns=0, bids_raw=Raw(b'[["1","2"]]'), asks_raw=Raw(b"[]")),
            "book: 1 bids and 0 asks changed",
        ),
        (
            BookSnapshot(**COMMON, bids_raw=Raw(b'[["1.0","2"]]'), asks_raw=Raw(b"[]")),
            "book of 1 bids and 0 asks: bid 2 at 1.0, ask none",
        ),
        (Ticker(**COMMON, bid_text="1", last_text="2"), "ticker: bid 1, last 2"),
        (
            Candle(
                **COMMON, interval="1h", open_ms=0, close_ms=1, open_text="1", high_text="4",
                low_text="0.5", close_text="2", volume_text="9",
            ),
            "candle 1h: 1 4 0.5 2, volume 9",
        ),
        (
            Disconnect(**COMMON, channels=("trades", "tickers"), reason="cut"),
            "connection of trades, tickers lost: cut",
        ),
    ],
)  # fmt: skip
def test_a_line_says_when_where_and_what(event: Event, says: str) -> None:
    assert record_line(event, NOON) == f"2023-11-14 22:13:20.123  toy BTC/USDT  {says}"
