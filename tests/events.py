"""Events to test with: whatever a test does not name has a plain value."""

from typing import Any

from msgspec import Raw

from penstock.market.events import BookDelta, BookSnapshot, Candle, Ticker, Trade
from penstock.market.symbol import Symbol

BTC = Symbol("BTC", "USDT")
NOTHING = Raw(b"[]")


def trade(number: int, symbol: Symbol = BTC, exchange: str = "toy", **fields: Any) -> Trade:
    plain: dict[str, Any] = {
        "received_at_ns": number, "at_ns": 0, "price_text": "1", "quantity_text": "1",
        "taker": "buy",
    }  # fmt: skip
    return Trade(exchange=exchange, symbol=symbol, id=number, **plain | fields)


def delta(
    first: int | None, final: int | None, symbol: Symbol = BTC, exchange: str = "toy", **fields: Any
) -> BookDelta:
    plain: dict[str, Any] = {
        "received_at_ns": 0, "at_ns": 0, "bids_raw": NOTHING, "asks_raw": NOTHING,
    }  # fmt: skip
    return BookDelta(
        exchange=exchange, symbol=symbol, first_update_id=first, final_update_id=final,
        **plain | fields,
    )  # fmt: skip


def snapshot(
    update_id: int, symbol: Symbol = BTC, exchange: str = "toy", **fields: Any
) -> BookSnapshot:
    plain: dict[str, Any] = {"received_at_ns": 0, "bids_raw": NOTHING, "asks_raw": NOTHING}
    return BookSnapshot(exchange=exchange, symbol=symbol, update_id=update_id, **plain | fields)


def ticker(
    received_at_ns: int, symbol: Symbol = BTC, exchange: str = "toy", **fields: Any
) -> Ticker:
    return Ticker(exchange=exchange, symbol=symbol, received_at_ns=received_at_ns, **fields)


def candle(
    open_ms: int, interval: str = "1m", symbol: Symbol = BTC, exchange: str = "toy", **fields: Any
) -> Candle:
    plain: dict[str, Any] = {
        "received_at_ns": 0, "close_ms": open_ms + 59_999, "open_text": "1", "high_text": "1",
        "low_text": "1", "close_text": "1", "volume_text": "1",
    }  # fmt: skip
    return Candle(
        exchange=exchange, symbol=symbol, interval=interval, open_ms=open_ms, **plain | fields
    )
