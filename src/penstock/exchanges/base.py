"""What an exchange is: data, and functions that do no I/O.

A request is a value that says where to ask, what it costs and how to read the answer; only a
gateway can send one, and a gateway has a gate. So no code can ask without paying.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from penstock.clock import Clock
from penstock.config import Exchanges
from penstock.errors import MalformedSymbol, UnknownSymbol
from penstock.market.events import AnyEvent, BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import COMMON, Interval
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Dialect
from penstock.throttle.gate import Gate, Limit
from penstock.throttle.offset import Offset

if TYPE_CHECKING:
    from penstock.exchanges.gateway import Gateway

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RawRequest(NamedTuple):
    """An HTTP request that somebody else's client has written: it is sent as it is."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None


@dataclass(frozen=True)
class Request(Generic[T_co]):
    """One question to an exchange."""

    path: str
    cost: int
    read: Callable[[bytes, int], T_co]
    """(body, received_at_ns) → what it says. Raises UnexpectedAnswer."""
    params: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    category: str = ""
    dated: Callable[[int], Mapping[str, str | int]] | None = None
    """Further parameters, which depend on the exchange's time (ms) when it is sent."""
    part: int = 0
    """The most to pay at a time, where the whole is more than passes a gate at once; 0 is all."""
    raw: RawRequest | None = None
    """What to send in place of path and parameters, which then only name it."""
    refusal: Callable[[int, Mapping[str, str], bytes], "ApiError | None"] | None = None
    """(status, headers, body) → what an answer says is wrong, where its asker knows better."""

    def params_at(self, now_ms: int) -> Mapping[str, str | int]:
        """All parameters, if it is sent at this instant."""
        return self.params if self.dated is None else {**self.params, **self.dated(now_ms)}


class MarketDetails(NamedTuple):
    """What an exchange tells of a market besides its names; None is what it does not tell."""

    tick_size: str | None = None
    """The step of its prices."""
    lot_size: str | None = None
    """The step of its quantities."""
    status: str | None = None
    """Whether it is traded, in the exchange's own word."""


class ListedMarket(NamedTuple):
    """One market, in every spelling the exchange has for it."""

    native: str
    """What requests say."""
    symbol: Symbol
    streamed: str = ""
    """What streams say, where that differs."""
    typed: tuple[str, ...] = ()
    """Further spellings that people know."""
    details: MarketDetails = MarketDetails()


class SymbolMap:
    """An exchange's own spellings of its symbols, both ways."""

    def __init__(self, exchange: str, listed: Iterable[tuple[str, Symbol] | ListedMarket]) -> None:
        self.exchange = exchange
        self.listed: tuple[ListedMarket, ...] = ()
        """Everything the map is made of: another one made of it is the same."""
        self._symbols: dict[str, Symbol] = {}
        self._natives: dict[Symbol, str] = {}
        self._streamed: dict[Symbol, str] = {}
        self._typed: dict[str, Symbol] = {}
        self.learn(listed)

    def learn(self, listed: Iterable[tuple[str, Symbol] | ListedMarket]) -> None:
        """Know these too. What is no longer listed stays known: it may still be asked about."""
        fresh = {each.native: each for each in (ListedMarket(*each) for each in listed)}
        kept = (each for each in self.listed if each.native not in fresh)
        self.listed = (*kept, *fresh.values())
        for each in fresh.values():
            self._symbols[each.native] = each.symbol
            self._natives[each.symbol] = each.native
            self._streamed[each.symbol] = each.streamed or each.native
            self._typed.update(dict.fromkeys(each.typed, each.symbol))

    def __len__(self) -> int:
        return len(self._natives)

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

    def stream_name(self, symbol: Symbol) -> str:
        """The exchange's spelling on its streams.

        Raises:
            UnknownSymbol: it does not list this one.
        """
        return self._streamed.get(symbol) or self.native(symbol)

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
        for spelling in (text, text.upper()):
            own = self._symbols.get(spelling) or self._typed.get(spelling)
            if own is not None:
                return own
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


Meaning = Literal["too_fast", "failed", "refused"]
"""What a refusal comes to: wait, ask again, or ask something else."""


class ApiError(NamedTuple):
    """What an exchange says when it refuses."""

    code: int | str
    message: str
    until_ms: int | None = None
    """When it will listen again, by its own clock, if it says so in the body."""
    meaning: Meaning | None = None
    """None where the status says it."""
    wait_ms: int | None = None
    """For how long it will not listen, if it says that instead."""


class Info(NamedTuple):
    """What an exchange announces about itself."""

    symbols: SymbolMap
    limits: tuple[Limit, ...]
    timeframes: tuple[str, ...] = ()
    """Lengths of candles it can be asked for."""


class AssetNames(NamedTuple):
    """Names of assets, where what is listed refers to assets by ids alone."""

    request: Request[Mapping[str, str]]
    """Their names, by id."""
    info: Callable[[Mapping[str, str]], Request[Info]]
    """What takes the place of ``Exchange.info`` once they are known."""


TradePages = Literal["from_id", "after_ns", "before_id"]
"""How an exchange pages through old trades, which is what the cursor of a page means. The page
begins with the trade of that id; or with the first one after that instant, in nanoseconds; or ends
just before the trade of that id, so that pages lead back in time."""


class TradePage(NamedTuple):
    """Some trades of one market, oldest first, and where the next page is."""

    trades: list[Trade]
    next: int
    """The cursor of the next page; that of this one, if there are no more now. Where pages end with
    a day, an empty one may lead on."""


class MarketProgress(NamedTuple):
    """How far a market has come, as one cheap request tells; it differs once the market moved."""

    state: str
    id: int | None = None
    """Where the stream tells ids too: that of the newest record it should have brought."""


class Rest(Protocol):
    """The questions every exchange can be asked. Pages are oldest first."""

    def book(self, symbol: Symbol, depth: int) -> Request[BookSnapshot]:
        """The book's best levels, at least ``depth`` a side where there are so many."""
        ...

    def recent_trades(self, symbol: Symbol, limit: int) -> Request[list[Trade]]:
        """The newest trades."""
        ...

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of old trades. What the cursor is, ``Exchange.trade_pages`` says."""
        ...

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end); the last may still be running.

        Raises:
            UnknownInterval: the exchange has none of that length.
        """
        ...

    def tickers(self, symbols: Sequence[Symbol]) -> Request[list[Ticker]]:
        """The state of these markets; of all, if none is named."""
        ...

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The cheapest request that tells whether a stream should have brought something.

        What it answers changes with what the stream reports, and with nothing else: a stream that
        brings nothing although it changed has stalled.
        """
        ...


class Feed(Protocol):
    """Live data that a client of the exchange's own brings, sockets and all."""

    @property
    def channels(self) -> Sequence[str]:
        """The kinds of data it has. ``book_deltas`` are whole books."""
        ...

    async def next(self, channel: str, symbol: Symbol, levels: int) -> Sequence[AnyEvent]:
        """What comes next on a channel; of books, so many levels a side.

        Raises:
            ExchangeError, ExchangeUnreachable, UnexpectedAnswer: nothing does, for now.
        """
        ...


class ExchangeClient(Protocol):
    """Sends requests to one exchange; each is paid for at the gate first."""

    @property
    def exchange(self) -> "Exchange": ...

    @property
    def gate(self) -> Gate: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def offset(self) -> Offset | None:
        """How far the exchange's clock is ahead, once known."""
        ...

    async def fetch(self, request: Request[T]) -> T:
        """Ask, waiting for the gate if need be. See ``Gateway.fetch``."""
        ...

    async def learn(self) -> Info:
        """Read what the exchange announces, and keep the limits it names."""
        ...

    async def measure_clock(self) -> Offset | None:
        """Find out how far the exchange's clock is ahead."""
        ...

    def feed(self, symbols: SymbolMap) -> Feed | None:
        """What brings live data; None where the exchange's dialect does."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@dataclass(frozen=True)
class Exchange:
    """One exchange. Its folder exports one of these as ``EXCHANGE``."""

    name: str
    rest_url: str
    stream_url: str
    limits: Callable[[int], tuple[Limit, ...]]
    """The limits known to hold at an instant (ms), until the exchange announces its own."""
    time: Request[int] | None
    """The exchange's clock, in ms; None where only the date of its answers tells it."""
    info: Request[Info]
    rest: Callable[[SymbolMap], Rest]
    dialect: Callable[[SymbolMap], Dialect]
    usages: Callable[[Mapping[str, str]], Sequence[Usage]]
    """What an answer's headers (names in lower case) tell of the budgets used."""
    read_api_error: Callable[[bytes], ApiError | None]
    """What the body of a refusal says; None if it is none of the exchange's own."""
    refuses_with_200: bool = False
    """Whether a refusal may come with status 200: then every body is searched for an error."""
    time_step_ms: int = 1
    """How finely ``time`` is told."""
    consecutive: frozenset[str] = frozenset()
    """Channels whose ids rise by one, so that a jump is a gap."""
    trade_pages: TradePages = "from_id"
    intervals: tuple[str, ...] = COMMON
    """Lengths of candles it can be asked for."""
    latest_candles: int | None = None
    """How many candles back from now can be had; None if all can."""
    candle_days: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many days back there are candles, for lengths that are not kept for ever."""
    candle_span: int | None = None
    """How many intervals a page of candles looks at, so that an empty one is not the end; None
    where a page begins with the next candle there is, however far away."""
    opened_ms: int = 0
    """No market of it has a candle from before this."""
    empty_candles: bool = True
    """Whether there is a candle where nothing was traded; if not, a hole proves nothing."""
    asset_names: AssetNames | None = None
    """What is asked before ``info``, where that does not name its assets."""
    make_client: "Callable[[Gateway, Exchanges], ExchangeClient] | None" = None
    """What to ask through in place of the gateway itself, where a request takes more than one
    answer. All that leaves goes through the gateway; the addresses are an operator's."""
