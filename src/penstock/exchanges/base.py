"""What an exchange is: data, and functions that do no I/O.

A request is a value that says where to ask, what it costs and how to read the answer; only a
gateway can send one, and a gateway has a gate. So no code can ask without paying.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

from penstock.errors import MalformedSymbol, UnknownSymbol
from penstock.market.events import AggTrade, BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Dialect
from penstock.throttle.gate import Limit

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Request(Generic[T_co]):
    """One question to an exchange."""

    path: str
    cost: int
    read: Callable[[bytes, int], T_co]
    """(body, received_at_ns) → what it says. Raises UnexpectedAnswer."""
    params: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    category: str = ""


class SymbolMap:
    """An exchange's own spellings of its symbols, both ways."""

    def __init__(self, exchange: str, natives: Iterable[tuple[str, Symbol]]) -> None:
        self.exchange = exchange
        self._symbols = dict(natives)
        self._natives = {symbol: native for native, symbol in self._symbols.items()}

    def __len__(self) -> int:
        return len(self._symbols)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._natives)

    def native(self, symbol: Symbol) -> str:
        """The exchange's spelling.

        Raises:
            UnknownSymbol: it does not list this one.
        """
        try:
            return self._natives[symbol]
        except KeyError:
            raise UnknownSymbol(self.exchange, symbol.unified, self._known()) from None

    def symbol(self, native: str) -> Symbol:
        """The symbol of an exchange's spelling.

        Raises:
            UnknownSymbol: it lists nothing under that name.
        """
        try:
            return self._symbols[native]
        except KeyError:
            raise UnknownSymbol(self.exchange, native, self._symbols) from None

    def get(self, native: str) -> Symbol | None:
        """The symbol of an exchange's spelling, if it was listed when the map was made."""
        return self._symbols.get(native)

    def find(self, text: str) -> Symbol:
        """The symbol somebody typed: as slug, unified, or in the exchange's own spelling.

        Raises:
            UnknownSymbol: with near matches.
        """
        native = self._symbols.get(text) or self._symbols.get(text.upper())
        if native is not None:
            return native
        try:
            symbol = Symbol.parse(text)
        except MalformedSymbol:
            raise UnknownSymbol(self.exchange, text, self._known()) from None
        if symbol not in self._natives:
            raise UnknownSymbol(self.exchange, text, self._known())
        return symbol

    def _known(self) -> list[str]:
        return [symbol.slug for symbol in self._natives]


class Usage(NamedTuple):
    """What an answer tells of a budget."""

    category: str
    used: int
    window_ms: int


class Complaint(NamedTuple):
    """What an exchange says when it refuses."""

    code: int | str
    message: str
    until_ms: int | None = None
    """When it will listen again, by its own clock, if it says so in the body."""


class Info(NamedTuple):
    """What an exchange announces about itself."""

    symbols: SymbolMap
    limits: tuple[Limit, ...]


class Rest(Protocol):
    """The questions every exchange can be asked. Pages are oldest first."""

    def book(self, symbol: Symbol, depth: int) -> Request[BookSnapshot]:
        """The book's best levels, at least ``depth`` a side where there are so many."""
        ...

    def recent_trades(self, symbol: Symbol, limit: int) -> Request[list[Trade]]:
        """The newest trades."""
        ...

    def trades(
        self, symbol: Symbol, from_id: int, source: Source = "backfill"
    ) -> Request[list[Trade]]:
        """A page of trades that begins with ``from_id``."""
        ...

    def agg_trades(
        self, symbol: Symbol, from_id: int, source: Source = "backfill"
    ) -> Request[list[AggTrade]]:
        """A page of aggregates that begins with ``from_id``."""
        ...

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end); the last may still be running."""
        ...

    def tickers(self, symbols: Sequence[Symbol]) -> Request[list[Ticker]]:
        """The state of these markets; of all, if none is named."""
        ...


@dataclass(frozen=True)
class Exchange:
    """One exchange. Its folder exports one of these as ``EXCHANGE``."""

    name: str
    rest_url: str
    stream_url: str
    limits: Callable[[int], tuple[Limit, ...]]
    """The limits known to hold at an instant (ms), until the exchange announces its own."""
    time: Request[int]
    """The exchange's clock, in ms."""
    info: Request[Info]
    rest: Callable[[SymbolMap], Rest]
    dialect: Callable[[SymbolMap], Dialect]
    usages: Callable[[Mapping[str, str]], Sequence[Usage]]
    """What an answer's headers (names in lower case) tell of the budgets used."""
    complaint: Callable[[bytes], Complaint | None]
    """What the body of a refusal says; None if it is none of the exchange's own."""
    consecutive: frozenset[str] = frozenset()
    """Channels whose ids rise by one, so that a jump is a gap."""
