"""Calls ccxt's methods for requests, and converts the results to plain rows.

A request's path is the name of a method, and its parameters are the method's. The result is encoded
as JSON, so that readers do not depend on ccxt's types: numbers are texts, and only the fields that
are needed are included.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from penstock.exchanges.answers import step_of_digits
from penstock.exchanges.ccxt.library.numbers import text_of

# ccxt's modes of precision: what the numbers in a market's ``precision`` mean.
_DECIMAL_PLACES, _TICK_SIZE = 2, 4

Params = Mapping[str, str | int]
Row = dict[str, Any]


async def load_markets(client: Any, _params: Params) -> list[Row]:
    """The current market listing, fetched again even if the client has one."""
    markets = await client.load_markets(True)
    fields = ("symbol", "base", "quote", "spot", "active")
    return [
        # Some exchanges have numbers as ids.
        {
            "id": str(market["id"]),
            **{field: market.get(field) for field in fields},
            "tick_size": _step(client, market, "price"),
            "lot_size": _step(client, market, "amount"),
        }
        for market in markets.values()
    ]


def _step(client: Any, market: Row, of: str) -> str | None:
    """The step of a market's prices or amounts; None where only significant digits are given."""
    value = (market.get("precision") or {}).get(of)
    if client.precisionMode == _TICK_SIZE:
        return text_of(value)
    return step_of_digits(value) if client.precisionMode == _DECIMAL_PLACES else None


async def fetch_time(client: Any, _params: Params) -> int:
    """The exchange's clock, in ms."""
    return int(await client.fetch_time())


async def fetch_order_book(client: Any, params: Params) -> Row:
    """A book of the exchange's default depth."""
    return book_row(await client.fetch_order_book(params["symbol"]), None)


async def fetch_trades(client: Any, params: Params) -> list[Row]:
    """Trades since a time, or the newest."""
    since, limit = params.get("since"), params.get("limit")
    return trade_rows(await client.fetch_trades(params["symbol"], since, limit))


async def fetch_ohlcv(client: Any, params: Params) -> list[list[Any]]:
    """Candles since a time."""
    rows = await client.fetch_ohlcv(
        params["symbol"], params["timeframe"], params["since"], params["limit"]
    )
    return [[row[0], *map(text_of, row[1:6])] for row in rows]


async def fetch_tickers(client: Any, params: Params) -> list[Row]:
    """Tickers of some markets, or of all; one by one where the exchange has no bulk request.

    A single ticker has its own request: that is cheaper, and often returns more fields.
    """
    symbols = [name for name in str(params.get("symbols", "")).split(",") if name]
    is_one = len(symbols) == 1 and client.has.get("fetchTicker")
    if not symbols or (client.has.get("fetchTickers") and not is_one):
        found = await client.fetch_tickers(symbols or None)
        return [ticker_row(each) for each in found.values()]
    return [ticker_row(await client.fetch_ticker(name)) for name in symbols]


CALLS: Mapping[str, Callable[[Any, Params], Awaitable[object]]] = {
    f"/{call.__name__}": call
    for call in (
        load_markets,
        fetch_time,
        fetch_order_book,
        fetch_trades,
        fetch_ohlcv,
        fetch_tickers,
    )
}
"""Functions by the path of a request."""


def trade_rows(trades: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Trades, oldest first as ccxt returns them."""
    return [
        {
            "id": None if each.get("id") is None else str(each["id"]),
            "at_ms": each.get("timestamp"),
            "price": text_of(each.get("price")),
            "quantity": text_of(each.get("amount")),
            "side": each.get("side"),
        }
        for each in trades
    ]


def book_row(book: Mapping[str, Any], levels: int | None) -> Row:
    """A book's best levels, copied: ccxt changes the same lists with the next update."""
    return {
        "nonce": book.get("nonce"),
        "at_ms": book.get("timestamp"),
        "bids": [[text_of(row[0]), text_of(row[1])] for row in book["bids"][:levels]],
        "asks": [[text_of(row[0]), text_of(row[1])] for row in book["asks"][:levels]],
    }


def ticker_row(ticker: Mapping[str, Any]) -> Row:
    """A ticker's fields, without those that can be derived from others."""
    numbers = {
        "bid": "bid",
        "bid_quantity": "bidVolume",
        "ask": "ask",
        "ask_quantity": "askVolume",
        "last": "last",
        "open": "open",
        "high": "high",
        "low": "low",
        "volume": "baseVolume",
        "quote_volume": "quoteVolume",
    }
    values = {ours: text_of(ticker.get(theirs)) for ours, theirs in numbers.items()}
    return {"symbol": ticker.get("symbol"), "at_ms": ticker.get("timestamp"), **values}
