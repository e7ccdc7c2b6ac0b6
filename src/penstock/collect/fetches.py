"""What can be fetched by REST again and again: trades, books, what is listed, tickers.

Each kind is built once and asked for the next step: it works out from what is stored what to ask,
asks, and records the answer. So whoever takes up after a crash goes on where the log ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, cast

from penstock.clock import Clock
from penstock.collect.listings import Listings
from penstock.collect.recording import RetryingRecorder
from penstock.config import Fetch as FetchSettings
from penstock.config import FetchKind
from penstock.connectors.markets import Markets
from penstock.errors import ConfigError
from penstock.exchanges.base import Exchange, ExchangeClient, Request, Rest, TradePage
from penstock.market.events import AnyEvent, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import LogReader
from penstock.storage.log.keys import Stream
from penstock.telemetry import FetchFellShort, Listener

LATEST = 1000
"""Trades to begin with where none is stored."""
MOST_PAGES = 200
"""Pages held at once where an exchange leads back from the newest trade."""
_MS_NS = 1_000_000

T = TypeVar("T")


class Fetched(NamedTuple):
    """What one step brought."""

    records: int
    more: bool = False
    """Whether the exchange has more of it already."""


class Fetch(Protocol):
    """One thing that is fetched again and again."""

    what: str
    symbol: str
    """The market's slug; empty where it is about the whole exchange."""

    async def step(self) -> Fetched:
        """Ask for what comes next, and record it.

        Raises:
            One of ``UNAVAILABLE``: nothing of it was recorded.
        """
        ...


@dataclass(frozen=True)
class FetchContext:
    """What every kind works with."""

    exchange: Exchange
    rest: Rest
    gateway: ExchangeClient
    recorder: RetryingRecorder
    reader: LogReader
    clock: Clock
    turn: Callable[[], Awaitable[None]]
    """Waits until the operator's own limit has room for a request."""
    tell: Listener

    async def ask(self, request: Request[T]) -> T:
        """Wait for one's turn, pay, and ask."""
        await self.turn()
        return await self.gateway.fetch(request)

    async def record(self, events: Sequence[AnyEvent]) -> int:
        """Record and broadcast; how many were new here."""
        return len(await self.recorder.record(events))


def kinds_to_fetch(settings: FetchSettings, markets: Sequence[object]) -> tuple[FetchKind, ...]:
    """What the settings ask for, of these markets.

    Raises:
        ConfigError: they ask for something that is of a market, and none is named.
    """
    of_a_market = [kind for kind in settings.what if kind in ("trades", "book")]
    if of_a_market and not markets:
        problem = f"{of_a_market[0]} are those of a market: name at least one."
        raise ConfigError("fetch.what", problem=problem, origin="--what or the settings")
    everything: tuple[FetchKind, ...] = ("trades", "book", "info", "tickers")
    return tuple(dict.fromkeys(settings.what)) or (everything if markets else everything[2:])


@dataclass
class TradesFetch:
    """The trades after the last one that is stored, by whomever; of none stored, the newest."""

    context: FetchContext
    market: Symbol
    fresh_s: float
    """Trades that are no older are the end of what there is."""
    what: str = "trades"
    symbol: str = field(init=False)
    _after_ns: int = 0

    def __post_init__(self) -> None:
        self.symbol = self.market.slug

    async def step(self) -> Fetched:
        """See ``Fetch``."""
        last, rest = self._last(), self.context.rest
        if last is None:
            latest = await self.context.ask(rest.recent_trades(self.market, LATEST))
            return Fetched(await self.context.record(latest))
        match self.context.exchange.trade_pages:
            case "from_id":
                return await self._record(await self._page(last.id + 1))
            case "after_ns":
                # A moment early: of the last millisecond perhaps not all trades are stored, and
                # a time told as a binary float may be a fraction of a microsecond late.
                cursor = max(self._after_ns, last.at_ms * _MS_NS - 1)
                page = await self._page(cursor)
                fetched = await self._record(page)
                self._after_ns = page.next
                return fetched
            case "before_id":
                return await self._page_back(last)

    def _last(self) -> Trade | None:
        stream = Stream(self.context.exchange.name, "trades", self.symbol)
        stored = next(iter(self.context.reader.scan(stream, reverse=True, limit=1)), None)
        return None if stored is None else cast("Trade", stored.event)

    async def _page(self, cursor: int) -> TradePage:
        return await self.context.ask(self.context.rest.trades(self.market, cursor, "rest"))

    async def _record(self, page: TradePage) -> Fetched:
        records = await self.context.record(page.trades)
        oldest_fresh_ms = self.context.clock.now_ms() - round(self.fresh_s * 1000)
        return Fetched(records, bool(records) and page.trades[-1].at_ms < oldest_fresh_ms)

    async def _page_back(self, last: Trade) -> Fetched:
        """Page from the newest trade back to the last one stored, and record the oldest first.

        Recorded the other way round, a crash would leave a hole that nobody knows of.
        """
        pages = [await self.context.ask(self.context.rest.recent_trades(self.market, LATEST))]
        cursor = pages[0][0].id if pages[0] else last.id
        while cursor > last.id + 1:
            page = await self._page(cursor)
            if page.next == cursor:
                break
            pages.append(page.trades)
            cursor = page.next
            if len(pages) == MOST_PAGES and cursor > last.id + 1:
                self._tell_short(last.id, cursor)
                break
        records = 0
        for trades in reversed(pages):
            records += await self.context.record([each for each in trades if each.id > last.id])
        return Fetched(records)

    def _tell_short(self, after_id: int, before_id: int) -> None:
        exchange = self.context.exchange.name
        self.context.tell(
            FetchFellShort(
                exchange=exchange, symbol=self.symbol, after_id=after_id, before_id=before_id
            )
        )


@dataclass
class BookFetch:
    """A market's book as it is."""

    context: FetchContext
    market: Symbol
    depth: int
    what: str = "book"
    symbol: str = field(init=False)

    def __post_init__(self) -> None:
        self.symbol = self.market.slug

    async def step(self) -> Fetched:
        """See ``Fetch``."""
        book = await self.context.ask(self.context.rest.book(self.market, self.depth))
        return Fetched(await self.context.record([book]))


@dataclass
class TickersFetch:
    """The state of some markets; of all, if none is named."""

    context: FetchContext
    markets: Sequence[Symbol]
    what: str = "tickers"
    symbol: str = ""

    async def step(self) -> Fetched:
        """See ``Fetch``."""
        tickers = await self.context.ask(self.context.rest.tickers(self.markets))
        return Fetched(await self.context.record(tickers))


@dataclass
class InfoFetch:
    """What the exchange lists and allows, kept for the whole fleet; changes are told."""

    context: FetchContext
    markets: Markets
    listings: Listings
    what: str = "info"
    symbol: str = ""

    async def step(self) -> Fetched:
        """See ``Fetch``; what it counts are markets that came or went."""
        exchange = self.context.exchange
        await self.context.turn()
        for earlier in (exchange.time, exchange.asset_names):
            if earlier is not None:
                await self.context.turn()  # ``learn`` asks for these first, a request each
        info = await self.context.gateway.learn()
        self.listings.learn(info.symbols.listed)
        change = await self.markets.refresh(exchange.name, info)
        return Fetched(len(change.listed) + len(change.delisted))
