"""Describes the rows of REST responses, and makes readers of them, for every exchange."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Raw, Struct, ValidationError

from penstock.errors import UnknownInterval
from penstock.exchanges.answers import Text, plain_number, plain_numbers, surely_over_ms
from penstock.exchanges.base import AggTradePage, TradePage
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.row_events import StampedEvents
from penstock.exchanges.rows import REST, CandleRow, Origin, Spelling, book_of, candle_of
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookSnapshot, Candle, Side, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol


class TradeRow(Protocol):
    """The fields of every trade."""

    @property
    def id(self) -> int: ...

    @property
    def price(self) -> Any: ...

    @property
    def quantity(self) -> Any: ...


class LevelRow(Struct, array_like=True):
    """["105944.30000","0.136",…]: price, quantity, and values that are not used"""

    price: Text
    quantity: Text


class LevelBook(Struct):
    """{"bids":[["0.01825","24.34811287",…],…],"asks":[…]}"""

    bids: list[LevelRow]
    asks: list[LevelRow]


R = TypeVar("R")
T = TypeVar("T", bound=TradeRow)
C = TypeVar("C", bound=CandleRow)
C_contra = TypeVar("C_contra", contravariant=True)


@dataclass(frozen=True)
class TradeRows(Generic[T]):
    """Makes trades from the rows of a response."""

    exchange: str
    at_ns: Callable[[T], int]
    taker: Callable[[T], Side]
    spell: Callable[[Any], str] = plain_number
    newest_first: bool = False

    def reader(
        self, symbol: Symbol, source: Source = "rest"
    ) -> Callable[[Sequence[T], int], list[Trade]]:
        """(rows, received_at_ns) → trades, oldest first."""

        def read(rows: Sequence[T], received_at_ns: int) -> list[Trade]:
            return [
                Trade(
                    exchange=self.exchange,
                    symbol=symbol,
                    received_at_ns=received_at_ns,
                    source=source,
                    id=row.id,
                    at_ns=self.at_ns(row),
                    price_text=self.spell(row.price),
                    quantity_text=self.spell(row.quantity),
                    taker=self.taker(row),
                )
                for row in (reversed(rows) if self.newest_first else rows)
            ]

        return read

    def page_reader(
        self, symbol: Symbol, source: Source, cursor: int, after: Callable[[list[Trade]], int]
    ) -> Callable[[Sequence[T], int], TradePage]:
        """The same for a page; ``after`` is the cursor after a page that is not empty."""
        read = self.reader(symbol, source)

        def read_page(rows: Sequence[T], received_at_ns: int) -> TradePage:
            trades = read(rows, received_at_ns)
            return TradePage(trades, after(trades) if trades else cursor)

        return read_page


class CandleReader(Protocol[C_contra]):
    """Makes candles from the rows of a response."""

    def __call__(
        self, rows: Sequence[C_contra], received_at_ns: int, last_closed_ms: int | None = None
    ) -> list[Candle]:
        """The candles, oldest first. ``last_closed_ms`` is when the last closed one began.

        If that is None, a candle is closed if a later one follows, or if it ended long enough ago.
        """
        ...


@dataclass(frozen=True)
class CandleRows(Generic[C]):
    """Describes rows of candles."""

    exchange: str
    intervals: Collection[str]
    open_ms: Callable[[C], int]
    spell: Spelling = plain_numbers
    newest_first: bool = False
    is_exact: bool = False
    """Whether the exchange returns only candles in the requested range: others are not dropped
    then, so that the caller finds that the response is wrong."""

    def reader(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> CandleReader[C]:
        """Reads candles that begin in [start, end).

        Raises:
            UnknownInterval: the exchange has no candles of that length.
        """
        if interval.text not in self.intervals:
            raise UnknownInterval(interval.text, self.intervals)

        def read(
            rows: Sequence[C], received_at_ns: int, last_closed_ms: int | None = None
        ) -> list[Candle]:
            origin = self.exchange, symbol, received_at_ns, REST
            opens = [(self.open_ms(row), row) for row in rows]
            if self.newest_first:
                opens.reverse()
            over_ms, last_ms = surely_over_ms(received_at_ns), opens[-1][0] if opens else 0

            def is_closed(open_ms: int) -> bool:
                if last_closed_ms is not None:
                    return open_ms <= last_closed_ms
                return open_ms < last_ms or interval.next_open(open_ms) <= over_ms

            return [
                candle_of(
                    row, origin, interval, open_ms, closed=is_closed(open_ms), spell=self.spell
                )
                for open_ms, row in opens
                if self.is_exact or start_ms <= open_ms < end_ms
            ]

        return read


@dataclass(frozen=True)
class BookRows(Generic[R]):
    """Makes a book from a response."""

    exchange: str
    sides: Callable[[R], tuple[Raw, Raw]]
    """Bids and asks in the standard format. Raises what msgspec raises, or UnexpectedAnswer."""
    at_ns: Callable[[R], int | None] = lambda _book: None
    update_id: Callable[[R], int] = lambda _book: 0

    def reader(self, symbol: Symbol) -> Callable[[R, int], BookSnapshot]:
        """(response, received_at_ns) → book."""

        def read(book: R, received_at_ns: int) -> BookSnapshot:
            bids, asks = self.sides(book)
            origin = self.exchange, symbol, received_at_ns, REST
            return book_of(origin, bids, asks, self.at_ns(book), self.update_id(book))

        return read


@dataclass(frozen=True)
class TickerRows(Generic[R]):
    """Makes tickers from the rows of a response, which have several markets."""

    exchange: str
    native: Callable[[R], str]
    make: Callable[[R, Origin], Ticker]

    def reader(self, symbols: SymbolMap) -> Callable[[Iterable[R], int], list[Ticker]]:
        """(rows, received_at_ns) → tickers of the markets in the map."""

        def read(rows: Iterable[R], received_at_ns: int) -> list[Ticker]:
            return [
                self.make(row, (self.exchange, symbol, received_at_ns, REST))
                for row, symbol in of_listed(symbols, rows, self.native)
            ]

        return read


def sides_of(book: LevelBook) -> tuple[Raw, Raw]:
    """Bids and asks in the standard format.

    Raises:
        UnexpectedAnswer: a value is not a plain number.
    """
    return _levels_of(book.bids), _levels_of(book.asks)


def _levels_of(rows: Iterable[LevelRow]) -> Raw:
    return write_levels((plain_number(row.price), plain_number(row.quantity)) for row in rows)


def candle_page(interval: Interval, start_ms: int, end_ms: int, most: int) -> tuple[int, int]:
    """When the first candle in [start, end) begins, and how many to request, at least one."""
    # Not by multiples of a length: weeks begin on Mondays, and months differ.
    first_ms = interval.first_open(start_ms)
    return first_ms, max(1, sum(1 for _ in islice(interval.opens(first_ms, end_ms), most)))


def agg_page_reader(
    exchange: str, symbol: Symbol, cursor: int
) -> Callable[[Sequence[Any], int], AggTradePage]:
    """(rows, received_at_ns) → page of aggregated trades, which begins with the id in the cursor.

    Rows are those that ``StampedEvents.agg_trade`` reads.
    """

    def read(rows: Sequence[Any], received_at_ns: int) -> AggTradePage:
        numbers = DeferredNumbers()
        make = StampedEvents(exchange, numbers).agg_trade
        trades = [make(row, symbol, received_at_ns, "backfill") for row in rows]
        if problem := numbers.problem():
            raise ValidationError(problem)
        return AggTradePage(trades, trades[-1].id + 1 if trades else cursor)

    return read


def of_listed(
    symbols: SymbolMap, rows: Iterable[R], native: Callable[[R], str]
) -> list[tuple[R, Symbol]]:
    """The rows of markets in the map. One listed after the map was made must not hide others."""
    listed = [(row, symbols.get(native(row))) for row in rows]
    return [(row, symbol) for row, symbol in listed if symbol is not None]
