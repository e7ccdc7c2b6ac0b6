"""The ledger: what really happened on the simulated markets, for a judge to compare with.

It is written from the market and the book alone, in plain decimal strings, and shares no spelling
with any simulated exchange: a mistake in an exchange's file cannot hide here.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from penstock.simulator.book import Book, Level
from penstock.simulator.control import BadQuestion
from penstock.simulator.exchange import Query
from penstock.simulator.listings import slug
from penstock.simulator.market import Market

_MOST_ROWS = 10_000
_ROWS = 1000
_LEVELS = 1000

Row = dict[str, object]


class Ledger:
    """Answers questions about the truth."""

    def __init__(self, markets: Sequence[Market]) -> None:
        self._markets = {slug(market.listing): market for market in markets}
        self._books: dict[str, Book] = {}
        self._questions: Mapping[str, Callable[[str, Query], Row]] = {
            "trades": self._trades,
            "agg_trades": self._agg_trades,
            "book": self._book,
            "candles": self._candles,
            "ids": self._ids,
        }

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every market, by slug."""
        return tuple(self._markets)

    def answer(self, question: str, query: Query) -> Row:
        """The truth about ``query['symbol']``.

        Raises:
            BadQuestion: there is no such question or symbol, or a parameter is missing or wrong.
        """
        if question not in self._questions:
            raise BadQuestion(f"There is no {question!r}. Ask for {' '.join(self._questions)}.")
        symbol = query.get("symbol", "")
        if symbol not in self._markets:
            raise BadQuestion(f"There is no symbol {symbol!r}. Known: {' '.join(self._markets)}.")
        return {"symbol": symbol, **self._questions[question](symbol, query)}

    def _trades(self, symbol: str, query: Query) -> Row:
        market = self._markets[symbol]
        trades = market.trades(_number(query, "from_id", 1), _rows(query))
        return {
            "trades": [
                {
                    "id": trade.id,
                    "at_ms": trade.at_ms,
                    "price": _price(market, trade.price),
                    "quantity": _quantity(market, trade.quantity),
                    "taker_buys": trade.taker_buys,
                }
                for trade in trades
            ]
        }

    def _agg_trades(self, symbol: str, query: Query) -> Row:
        market = self._markets[symbol]
        groups = market.agg_trades(_number(query, "from_id", 1), _rows(query))
        return {
            "agg_trades": [
                {
                    "id": group.id,
                    "at_ms": group.at_ms,
                    "price": _price(market, group.price),
                    "quantity": _quantity(market, group.quantity),
                    "first_id": group.first_id,
                    "last_id": group.last_id,
                    "taker_buys": group.taker_buys,
                }
                for group in groups
            ]
        }

    def _book(self, symbol: str, query: Query) -> Row:
        market, update_id = self._markets[symbol], self._update_id(symbol, query)
        bids, asks = self._book_of(symbol).at(update_id, _number(query, "depth", _LEVELS))
        return {
            "update_id": update_id,
            "bids": [_level(market, level) for level in bids],
            "asks": [_level(market, level) for level in asks],
        }

    def _update_id(self, symbol: str, query: Query) -> int:
        """Named, or by the time that an exchange without ids puts on its update.

        A book changes in slots, and a change is told when its slot has ended.
        """
        if "at_ms" not in query:
            return _number(query, "update_id")
        return self._book_of(symbol).update_id(_number(query, "at_ms") // Book.SLOT_MS - 1)

    def _candles(self, symbol: str, query: Query) -> Row:
        market, boundaries = self._markets[symbol], _boundaries(query)
        return {
            "candles": [
                {
                    "start_ms": start_ms,
                    "end_ms": end_ms,
                    "open": _price(market, sums.open),
                    "high": _price(market, sums.high),
                    "low": _price(market, sums.low),
                    "close": _price(market, sums.close),
                    "volume": _quantity(market, sums.volume),
                    "quote": _quote(market, sums.quote),
                    "taker_volume": _quantity(market, sums.taker_volume),
                    "taker_quote": _quote(market, sums.taker_quote),
                    "trades": sums.trades,
                    "first_id": sums.first_id,
                    "last_id": sums.last_id,
                }
                for (start_ms, end_ms), sums in zip(
                    pairwise(boundaries), market.candles(boundaries), strict=True
                )
            ]
        }

    def _ids(self, symbol: str, query: Query) -> Row:
        market, at_ms = self._markets[symbol], _number(query, "at_ms")
        return {
            "at_ms": at_ms,
            "next_trade_id": market.id_at(at_ms),
            "next_agg_trade_id": market.agg_id_at(at_ms),
            "update_id": self._book_of(symbol).update_id(at_ms // Book.SLOT_MS),
        }

    def _book_of(self, symbol: str) -> Book:
        if symbol not in self._books:
            self._books[symbol] = Book(self._markets[symbol])
        return self._books[symbol]


def _number(query: Query, name: str, default: int | None = None) -> int:
    text = query.get(name, "")
    if not text and default is not None:
        return default
    if not text.isdecimal():
        raise BadQuestion(f"{name} must be a whole number, not {text!r}.")
    return int(text)


def _rows(query: Query) -> int:
    return min(_MOST_ROWS, _number(query, "limit", _ROWS))


def _boundaries(query: Query) -> list[int]:
    """Given one by one, or as a range with a step; without a step, one candle."""
    if listed := query.get("boundaries"):
        parts = listed.split(",")
        if not all(part.isdecimal() for part in parts):
            raise BadQuestion("boundaries must be milliseconds separated by commas.")
        boundaries = [int(part) for part in parts]
    else:
        start_ms, end_ms = _number(query, "start_ms"), _number(query, "end_ms")
        step_ms = _number(query, "step_ms", max(1, end_ms - start_ms)) or 1
        boundaries = [*range(start_ms, end_ms, step_ms)[: _MOST_ROWS + 2], end_ms]
    if not 2 <= len(boundaries) <= _MOST_ROWS + 1:
        raise BadQuestion(f"Ask for 1 to {_MOST_ROWS} candles.")
    if any(left >= right for left, right in pairwise(boundaries)):
        raise BadQuestion("Boundaries must rise.")
    return boundaries


def _level(market: Market, level: Level) -> tuple[str, str]:
    price, quantity = level
    return _price(market, price), _quantity(market, quantity)


def _price(market: Market, ticks: int) -> str:
    return _decimal(ticks * market.listing.price_step, market.listing.price_decimals)


def _quantity(market: Market, lots: int) -> str:
    return _decimal(lots, market.listing.quantity_decimals)


def _quote(market: Market, amount: int) -> str:
    listing = market.listing
    decimals = listing.price_decimals + listing.quantity_decimals
    return _decimal(amount * listing.price_step, decimals)


def _decimal(units: int, decimals: int) -> str:
    whole, part = divmod(units, 10**decimals)
    return f"{whole}.{part:0{decimals}}" if decimals else str(whole)
