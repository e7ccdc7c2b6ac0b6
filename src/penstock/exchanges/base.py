"""Defines an exchange as data and functions that do no I/O.

A request is a value with a path, a cost and a reader of the response. Only a gateway can send it,
and a gateway has a gate. So no code can send a request without tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from penstock.clock import Clock
from penstock.config import Exchanges
from penstock.exchanges.bulk_files import BulkFiles
from penstock.exchanges.keyed import KeyedAccess
from penstock.exchanges.paged import PagedEndpoint
from penstock.exchanges.raw_request import RawRequest
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import AggTrade, BookSnapshot, Candle, Event, Source, Ticker, Trade
from penstock.market.interval import COMMON, Interval
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Dialect
from penstock.throttle.gate import Gate, Limit
from penstock.throttle.offset import Offset

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def valid_at(values: Mapping[int, T], at_ms: int) -> T:
    """The value that is valid at a time, of values by the time (ms) from which they are valid."""
    return values[max(from_ms for from_ms in values if from_ms <= at_ms)]


@dataclass(frozen=True)
class Request(Generic[T_co]):
    """A REST request to an exchange."""

    path: str
    cost: int
    read: Callable[[bytes, int], T_co]
    """(body, received_at_ns) → content of the response. Raises UnexpectedAnswer."""
    params: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    category: str = ""
    dated: Callable[[int], Mapping[str, str | int]] | None = None
    """Further parameters, which depend on the exchange's time (ms) at sending."""
    part: int = 0
    """The most tokens to acquire at once, if the cost exceeds the gate's burst; 0 means all."""
    raw: RawRequest | None = None
    """What is sent instead of path and parameters, which then serve as a name only."""
    refusal: Callable[[int, Mapping[str, str], bytes], "ApiError | None"] | None = None
    """(status, headers, body) → error in the response; replaces ``Exchange.read_api_error``."""

    def params_at(self, now_ms: int) -> Mapping[str, str | int]:
        """All parameters for a request sent at this time."""
        return self.params if self.dated is None else {**self.params, **self.dated(now_ms)}


class Usage(NamedTuple):
    """The usage of a budget, as reported in a response."""

    category: str
    used: int
    window_ms: int


Meaning = Literal["too_fast", "failed", "refused"]
"""How to react to an error response: wait, retry, or give up this request."""


class ApiError(NamedTuple):
    """An error response of an exchange."""

    code: int | str
    message: str
    until_ms: int | None = None
    """The end of a stop by the exchange's clock, if the body has it."""
    meaning: Meaning | None = None
    """None where the HTTP status determines it."""
    wait_ms: int | None = None
    """The length of a stop, if the body has that instead."""


class Info(NamedTuple):
    """What an exchange announces about itself."""

    symbols: SymbolMap
    limits: tuple[Limit, ...]
    timeframes: tuple[str, ...] = ()
    """Candle lengths that can be requested."""


class AssetNames(NamedTuple):
    """Requests for asset names, where the market listing has asset ids only."""

    request: Request[Mapping[str, str]]
    """Asset names by id."""
    info: Callable[[Mapping[str, str]], Request[Info]]
    """(names) → the request that replaces ``Exchange.info``."""


TradePages = Literal["from_id", "after_ns", "before_id"]
"""How an exchange pages through old trades, which defines the cursor of a page. The page begins
with the trade of that id; or with the first trade after that time, in nanoseconds; or ends just
before the trade of that id, so that pages go back in time."""


class TradePage(NamedTuple):
    """Trades of one market, oldest first, and the cursor of the next page."""

    trades: list[Trade]
    next: int
    """The cursor of the next page; that of this page if there are no more trades now. Where a page
    covers one day at most, an empty page may have a next one."""


class AggTradePage(NamedTuple):
    """The same for aggregated trades, in pages that begin with an id."""

    trades: list[AggTrade]
    next: int


class MarketProgress(NamedTuple):
    """How far a market has advanced, by one cheap request; it changes when the market does."""

    state: str
    id: int | None = None
    """The id of the newest record that the stream should have sent, if its records have ids."""


class Rest(Protocol):
    """The requests that every exchange supports. Pages are oldest first."""

    def book(self, symbol: Symbol, depth: int) -> Request[BookSnapshot]:
        """The book's best levels, at least ``depth`` per side if the exchange provides as many."""
        ...

    def recent_trades(self, symbol: Symbol, limit: int) -> Request[list[Trade]]:
        """The newest trades."""
        ...

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of old trades. ``Exchange.trade_pages`` defines the cursor."""
        ...

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end); the last may still be running.

        Raises:
            UnknownInterval: the exchange has no candles of that length.
        """
        ...

    def tickers(self, symbols: Sequence[Symbol]) -> Request[list[Ticker]]:
        """The tickers of these markets; of all markets if none is given."""
        ...

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The cheapest request that shows whether a stream should have sent something: a probe.

        Its result changes with the data of the stream, and with nothing else. A stream that sends
        nothing although the result changed has stalled.
        """
        ...


class Feed(Protocol):
    """Live data from a client library that manages its own sockets."""

    @property
    def channels(self) -> Sequence[str]:
        """The channels that it provides. ``book_deltas`` are whole books."""
        ...

    async def next(self, channel: str, symbol: Symbol, levels: int) -> Sequence[Event]:
        """Wait for the next events of a channel; books have at most ``levels`` levels per side.

        Raises:
            ExchangeError, ExchangeUnreachable, UnexpectedAnswer: there are none for now.
        """
        ...


class ExchangeClient(Protocol):
    """Sends requests to one exchange, each with a grant from the gate."""

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

    @property
    def latency_ms(self) -> float | None:
        """How long a response takes, on average of the latest requests; None before the first."""
        ...

    async def fetch(self, request: Request[T]) -> T:
        """Send a request, after waiting for the gate if necessary. See ``Gateway.fetch``."""
        ...

    async def learn(self) -> Info:
        """Fetch what the exchange announces, and adopt its limits."""
        ...

    async def measure_clock(self) -> Offset | None:
        """Measure how far the exchange's clock is ahead."""
        ...

    def feed(self, symbols: SymbolMap) -> Feed | None:
        """The source of live data; None where the exchange's dialect reads the streams."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@dataclass(frozen=True)
class Exchange:
    """The definition of one exchange. Its folder exports it as ``EXCHANGE``."""

    name: str
    rest_url: str
    stream_url: str
    limits_from: Mapping[int, tuple[Limit, ...]]
    """Known limits by the time (ms) from which they apply, ascending from 0."""
    time: Request[int] | None
    """The exchange's clock, in ms; None where only the ``Date`` of its responses shows it."""
    info: Request[Info]
    rest: Callable[[SymbolMap], Rest]
    dialect: Callable[[SymbolMap], Dialect]
    read_api_error: Callable[[bytes], ApiError | None]
    """The error in the body of a response; None if the body is not one of the exchange's own."""
    usages: Callable[[Mapping[str, str]], Sequence[Usage]] = lambda _headers: ()
    """The usage reported in a response's headers (names in lower case)."""
    refuses_with_200: bool = False
    """Whether an error may have status 200; every body is then checked for one."""
    time_step_ms: int = 1
    """The resolution of ``time``."""
    consecutive: frozenset[str] = frozenset()
    """Channels whose ids increase by one, so that missing ids are a gap."""
    trade_pages: TradePages = "from_id"
    trade_page_size: int = 1000
    """The most trades in a page."""
    paged: tuple[PagedEndpoint, ...] = ()
    """The endpoints for old trades and candles, among which the planner chooses."""
    trade_id_at: Callable[[int], int] | None = None
    """(ms) → the lowest id of a trade of that time, where ids begin with it."""
    agg_trades: Callable[[SymbolMap, Symbol, int], Request[AggTradePage]] | None = None
    """A page of a market's aggregated trades that begins with an id, where there are any."""
    bulk_files: BulkFiles | None = None
    """The files of trades and candles that it publishes."""
    intervals: tuple[str, ...] = COMMON
    """Candle lengths that can be requested."""
    latest_candles: int | None = None
    """How many of the latest candles are available; None if all are."""
    candle_days: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """For how many days candles are kept, for lengths that are not kept for ever."""
    candle_span: int | None = None
    """How many intervals a page of candles covers; None if it begins with the next one there is."""
    opened_ms: int = 0
    """No market has a candle before this time."""
    empty_candles: bool = True
    """Whether intervals without trades have a candle; if not, a missing candle may not be a gap."""
    asset_names: AssetNames | None = None
    """Requested before ``info``, where that does not name its assets."""
    keyed: KeyedAccess | None = None
    """What it grants to requests that are signed with an API key, where they are supported."""
    make_client: Callable[[ExchangeClient, Exchanges], ExchangeClient] | None = None
    """Makes the client used instead of the gateway, where one call may take several requests. All
    requests go through the gateway; ``Exchanges`` has the addresses set by the operator."""

    def limits(self, at_ms: int) -> tuple[Limit, ...]:
        """The limits known to apply at a time, until the exchange announces its own."""
        return valid_at(self.limits_from, at_ms)
