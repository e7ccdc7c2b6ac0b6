"""Ticks for tests."""

from typing import Any

from penstock.clock import Clock
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol


def ticker(
    clock: Clock, bid: str = "1.50", symbol: str = "BTC/USDT", *, age_s: float = 0, **fields: Any
) -> Ticker:
    """A tick that was received just now, or some time ago."""
    given: dict[str, Any] = {
        "exchange": "sim", "symbol": Symbol.parse(symbol), "bid_text": bid,
        "received_at_ns": clock.now_ns() - round(age_s * 1e9), **fields,
    }  # fmt: skip
    return Ticker(**given)
