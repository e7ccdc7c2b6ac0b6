"""Returns the true data of the simulated markets, for the judge to compare with.

The ledger uses only the market and the book, returns decimal strings, and shares no formatting code
with any simulated exchange, so that it does not repeat a mistake of an exchange's code.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from penstock.clock import Clock
from penstock.simulator.engine.exchange import Query
from penstock.simulator.engine.questions import BadQuestion, check_names, one_of, shown, whole
from penstock.simulator.market.book import Book, Level
from penstock.simulator.market.listings import slug
from penstock.simulator.market.market import SECOND_MS, AggTrade, Market, Trade
from penstock.simulator.market.pieces import PIECE, Work, finished, listed
from penstock.simulator.market.timeline import DAY_MS, MINUTE_MS

AHEAD_MS = 366 * DAY_MS
"""How far into the future the ledger goes: by then the longest current candle has ended."""
_MOST_ROWS = 10_000
_ROWS = 1000
_MOST_ODD = 1000
_MOST_LEVELS, _LEVELS = 100_000, 1000
_LATER = "The ledger ends one year from now."

Row = dict[str, object]
T = TypeVar("T")


class _Question(NamedTuple):
    answer: Callable[[str, Query], Row | Work[Row]]
    parameters: tuple[str, ...]


class Ledger:
    """Returns true trades, books, candles, ids and tickers."""

    def __init__(self, markets: Sequence[Market], clock: Clock) -> None:
        self._markets = {slug(market.listing): market for market in markets}
        self._clock = clock
        self._books: dict[str, Book] = {}
        rows = ("from_id", "limit")
        self._questions: Mapping[str, _Question] = {
            "trades": _Question(self._trades, rows),
            "agg_trades": _Question(self._agg_trades, rows),
            "book": _Question(self._book, ("update_id", "at_ms", "snapshot_ms", "depth")),
            "candles": _Question(self._candles, ("start_ms", "end_ms", "step_ms", "boundaries")),
            "ids": _Question(self._ids, ("at_ms",)),
            "ticker": _Question(self._ticker, ("at_ms",)),
        }

    @property
    def symbols(self) -> tuple[str, ...]:
        """The slugs of all markets."""
        return tuple(self._markets)

    def answer(self, question: str, query: Query) -> Row:
        """The true data of ``query['symbol']``.

        Raises:
            BadQuestion: there is no such question or symbol, or a parameter is missing or wrong.
        """
        return finished(self.answer_in_turns(question, query))

    def answer_in_turns(self, question: str, query: Query) -> Work[Row]:
        """Like ``answer``, in pieces; raises with the first piece."""
        asked = self._questions[one_of(question, self._questions, "question")]
        check_names(query, ("symbol", *asked.parameters))
        symbol = one_of(query.get("symbol", ""), self._markets, "symbol")
        row = asked.answer(symbol, query)
        if isinstance(row, Generator):
            row = yield from row
        return {"symbol": symbol, **row}

    def _latest_ms(self) -> int:
        return self._clock.now_ms() + AHEAD_MS

    def _trades(self, symbol: str, query: Query) -> Work[Row]:
        market = self._markets[symbol]
        ids = _page(query, market.id_at(self._latest_ms()))
        rows = (_trade(market, each) for each in _in_pieces(market.trades, ids))
        return {"trades": (yield from listed(rows))}

    def _agg_trades(self, symbol: str, query: Query) -> Work[Row]:
        market = self._markets[symbol]
        ids = _page(query, market.agg_id_at(self._latest_ms()))
        rows = (_agg_trade(market, each) for each in _in_pieces(market.agg_trades, ids))
        return {"agg_trades": (yield from listed(rows))}

    def _book(self, symbol: str, query: Query) -> Work[Row]:
        market, update_id = self._markets[symbol], self._update_id(symbol, query)
        depth = whole(query, "depth", (1, _MOST_LEVELS), _LEVELS)
        bids, asks = yield from self._book_of(symbol).at_in_turns(update_id, depth)
        return {
            "update_id": update_id,
            "bids": (yield from listed(_level(market, level) for level in bids)),
            "asks": (yield from listed(_level(market, level) for level in asks)),
        }

    def _update_id(self, symbol: str, query: Query) -> int:
        """The given update id, or that of a time, where an exchange has no ids.

        A book changes in slots, and a change is sent when its slot has ended: ``at_ms`` is the time
        on an update. A snapshot by REST may be within a slot: ``snapshot_ms``.
        """
        book, latest_ms = self._book_of(symbol), self._latest_ms()
        listed_ms = self._markets[symbol].listing.listed_at_ms
        given = [name for name in ("update_id", "at_ms", "snapshot_ms") if name in query]
        if len(given) > 1:
            raise BadQuestion(f"Give {' or '.join(given)}, not both.")
        if given not in (["at_ms"], ["snapshot_ms"]):
            known = book.update_id(listed_ms // Book.SLOT_MS - 1), _last_id(book, latest_ms)
            return whole(query, "update_id", known, because=_LATER)
        at_ms = whole(query, given[0], (listed_ms, latest_ms), because=_LATER)
        return book.snapshot_id(at_ms) if given == ["snapshot_ms"] else _last_id(book, at_ms)

    def _candles(self, symbol: str, query: Query) -> Row:
        market, boundaries = self._markets[symbol], _boundaries(query, self._latest_ms())
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
        market = self._markets[symbol]
        at_ms = whole(query, "at_ms", (0, self._latest_ms()), because=_LATER)
        return {
            "at_ms": at_ms,
            "next_trade_id": market.id_at(at_ms),
            "next_agg_trade_id": market.agg_id_at(at_ms),
            "update_id": self._book_of(symbol).update_id(at_ms // Book.SLOT_MS),
        }

    def _ticker(self, symbol: str, query: Query) -> Row:
        """The last trade at a time, and the best bid and ask, which only trades change."""
        market, book = self._markets[symbol], self._book_of(symbol)
        at_ms = whole(
            query, "at_ms", (market.listing.listed_at_ms, self._latest_ms()), because=_LATER
        )
        trade = market.last_before(at_ms + 1)
        touch = book.touch(trade)
        return {
            "at_ms": at_ms,
            "trade": _trade(market, trade),
            "bid": _level(market, (touch.bid, touch.bid_quantity)),
            "ask": _level(market, (touch.ask, touch.ask_quantity)),
        }

    def _book_of(self, symbol: str) -> Book:
        if symbol not in self._books:
            self._books[symbol] = Book(self._markets[symbol])
        return self._books[symbol]


def _page(query: Query, beyond: int) -> range:
    """The requested ids below ``beyond``."""
    first = whole(query, "from_id", (1, beyond), 1, because=_LATER)
    count = min(whole(query, "limit", (1, _MOST_ROWS), _ROWS), beyond - first)
    return range(first, first + count)


def _in_pieces(find: Callable[[int, int], list[T]], ids: range) -> Iterator[T]:
    """The items with these ids, found one piece of work at a time."""
    for first in ids[::PIECE]:
        yield from find(first, min(PIECE, ids.stop - first))


def _trade(market: Market, trade: Trade) -> Row:
    return {
        "id": trade.id,
        "at_ms": trade.at_ms,
        "price": _price(market, trade.price),
        "quantity": _quantity(market, trade.quantity),
        "taker_buys": trade.taker_buys,
    }


def _agg_trade(market: Market, group: AggTrade) -> Row:
    return {
        "id": group.id,
        "at_ms": group.at_ms,
        "price": _price(market, group.price),
        "quantity": _quantity(market, group.quantity),
        "first_id": group.first_id,
        "last_id": group.last_id,
        "taker_buys": group.taker_buys,
    }


def _last_id(book: Book, at_ms: int) -> int:
    """The id of a book's last change whose slot has ended by a time."""
    return book.update_id(at_ms // Book.SLOT_MS - 1)


def _boundaries(query: Query, latest_ms: int) -> list[int]:
    """The boundaries of candles: a list, or a range with a step; without a step, one candle."""
    instants = 0, latest_ms
    if "boundaries" in query:
        boundaries = _listed(query["boundaries"], latest_ms)
    else:
        start_ms = whole(query, "start_ms", instants, because=_LATER)
        end_ms = whole(query, "end_ms", instants, because=_LATER)
        step_ms = whole(query, "step_ms", (1, latest_ms), max(1, end_ms - start_ms))
        boundaries = [*range(start_ms, end_ms, step_ms)[: _MOST_ROWS + 2], end_ms]
    if not 2 <= len(boundaries) <= _MOST_ROWS + 1:
        raise BadQuestion(f"Request 1 to {_MOST_ROWS} candles.")
    if any(left >= right for left, right in pairwise(boundaries)):
        raise BadQuestion("Boundaries must be strictly ascending.")
    _check_cost(boundaries)
    return boundaries


def _check_cost(boundaries: Sequence[int]) -> None:
    """Limit boundaries within a minute, where trades are summed singly except in whole seconds."""
    odd = sum(at_ms % MINUTE_MS != 0 for at_ms in boundaries)
    steps = {right - left for left, right in pairwise(boundaries)}
    if odd > _MOST_ODD and (steps != {SECOND_MS} or boundaries[0] % SECOND_MS):
        raise BadQuestion(
            f"{odd} boundaries are not whole minutes. Request at most {_MOST_ODD} of those at once,"
            " or consecutive whole seconds."
        )


def _listed(text: str, latest_ms: int) -> list[int]:
    parts = text.split(",")
    wrong = [each for each in parts if not (each.isascii() and each.isdecimal())]
    if wrong:
        raise BadQuestion(
            f"boundaries must be milliseconds separated by commas, not {shown(wrong[0])!r}."
        )
    return [
        whole({"boundaries": each}, "boundaries", (0, latest_ms), None, _LATER) for each in parts
    ]


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
    # Slicing is several times as fast as division, and responses have thousands of numbers.
    digits = str(units).zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
