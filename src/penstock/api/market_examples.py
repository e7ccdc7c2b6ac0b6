"""Examples of the documents of a market, for the API's description."""

from msgspec import Struct

from penstock.monitor.market_documents import (
    BookSides,
    CandleGap,
    CandleRow,
    CandlesDocument,
    MarketDocument,
    TradeRow,
)

_AT_MS = 1_768_645_800_000
_SYMBOL = "BTC/USDT"


def market_answers(exchange: str) -> dict[str, Struct]:
    """Return an example of a successful response, by operation."""
    return {"chartMarket": _chart(exchange), "showMarket": _shown(exchange)}


def _shown(exchange: str) -> MarketDocument:
    traded = TradeRow(id="4711", at_ms=_AT_MS, price="60000.10", quantity="0.50", side="buy")
    candle = CandleRow(
        interval="1m",
        at_ms=_AT_MS,
        open="60000.10",
        high="60000.10",
        low="60000.00",
        close="60000.10",
        volume="12.5",
    )
    return MarketDocument(
        exchange=exchange,
        symbol=_SYMBOL,
        badge="synced",
        why="",
        sequence=102,
        bid="60000.00",
        ask="60000.10",
        spread="0.10",
        spread_bps="0.02",
        book=BookSides(bids=[("60000.00", "1.25")], asks=[("60000.10", "0.50")]),
        trades=[traded],
        candle=candle,
        last_ms=_AT_MS,
        book_ms=_AT_MS,
    )


def _chart(exchange: str) -> CandlesDocument:
    gap = CandleGap(
        since_ms=_AT_MS - 60_000, until_ms=_AT_MS - 30_000, state="open", reason="disconnected"
    )
    return CandlesDocument(
        exchange=exchange,
        symbol=_SYMBOL,
        interval="1m",
        items=[(_AT_MS, "60000.10", "60000.10", "60000.00", "60000.10", "12.5")],
        gaps=[gap],
        source="trades",
        since_ms=_AT_MS,
    )
