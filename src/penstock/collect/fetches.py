"""The kinds of data that are fetched by REST at intervals: trades, books, listings, tickers.

A step derives the next request from what is stored, sends it, and records the response. So after a
crash, fetching continues where the log ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, cast

from penstock.clock import Clock
from penstock.collect.facts import FetchFellShort
from penstock.collect.listings import Listings
from penstock.collect.recording import RetryingRecorder
from penstock.config import Fetch as FetchSettings
from penstock.config import FetchKind
from penstock.connectors.markets import Markets
from penstock.errors import ConfigError
from penstock.exchanges.base import Exchange, ExchangeClient, Request, Rest, TradePage
from penstock.market.channels import TRADES
from penstock.market.events import Event, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import LogReader
from penstock.storage.log.keys import Stream
from penstock.telemetry import Listener

LATEST = 1000
"""Trades to start with if none is stored."""
MOST_PAGES = 200
"""Pages kept in memory, at most, where an exchange pages back from the latest trade."""
_MS_NS = 1_000_000

T = TypeVar("T")


class Fetched(NamedTuple):
    """The result of one step."""

    records: int
    more: bool = False
    """Whether the exchange already has more."""


class Fetch(Protocol):
    """One repeated fetch."""

    what: str
    symbol: str
    """The market's slug; empty for the whole exchange."""

    async def step(self) -> Fetched:
        """Fetch what comes next, and record it.

        Raises:
            One of ``UNAVAILABLE``: nothing was recorded.
        """
        ...


@dataclass(frozen=True)
class FetchContext:
    """What every kind uses."""

    exchange: Exchange
    rest: Rest
    gateway: ExchangeClient
    recorder: RetryingRecorder
    reader: LogReader
    clock: Clock
    turn: Callable[[], Awaitable[None]]
    """Waits until the operator's limit allows a request."""
    emit: Listener

    async def ask(self, request: Request[T]) -> T:
        """Wait for the operator's limit and for tokens, and send the request."""
        await self.turn()
        return await self.gateway.fetch(request)

    async def record(self, events: Sequence[Event]) -> int:
        """Record and publish; return how many were new in this slot."""
        return len(await self.recorder.record(events))


def kinds_to_fetch(settings: FetchSettings, markets: Sequence[object]) -> tuple[FetchKind, ...]:
    """The kinds to fetch according to the settings, for these markets.

    Raises:
        ConfigError: a kind needs a market, and none is named.
    """
    of_a_market = [kind for kind in settings.what if kind in ("trades", "book")]
    if of_a_market and not markets:
        problem = f"{of_a_market[0]} are those of a market: name at least one."
        raise ConfigError("fetch.what", problem=problem, origin="--what or the settings")
    everything: tuple[FetchKind, ...] = ("trades", "book", "info", "tickers")
    return tuple(dict.fromkeys(settings.what)) or (everything if markets else everything[2:])


@dataclass
class TradesFetch:
    """Fetches the trades after the last stored one of any slot; if there is none, the latest."""

    context: FetchContext
    market: Symbol
    fresh_s: float
    """A page that ends with a trade no older than this is the last for now."""
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
                # Slightly early: not all trades of the last millisecond may be stored, and a
                # time sent as a binary float may be a fraction of a microsecond late.
                cursor = max(self._after_ns, last.at_ms * _MS_NS - 1)
                page = await self._page(cursor)
                fetched = await self._record(page)
                self._after_ns = page.next
                return fetched
            case "before_id":
                return await self._page_back(last)

    def _last(self) -> Trade | None:
        stream = Stream(self.context.exchange.name, TRADES.name, self.symbol)
        stored = next(iter(self.context.reader.scan(stream, reverse=True, limit=1)), None)
        return None if stored is None else cast("Trade", stored.event)

    async def _page(self, cursor: int) -> TradePage:
        return await self.context.ask(self.context.rest.trades(self.market, cursor, "rest"))

    async def _record(self, page: TradePage) -> Fetched:
        records = await self.context.record(page.trades)
        oldest_fresh_ms = self.context.clock.now_ms() - round(self.fresh_s * 1000)
        return Fetched(records, bool(records) and page.trades[-1].at_ms < oldest_fresh_ms)

    async def _page_back(self, last: Trade) -> Fetched:
        """Page from the latest trade back to the last one stored, and record the oldest first.

        In the other order, a crash would leave an undetected gap.
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
                self._emit_short(last.id, cursor)
                break
        records = 0
        for trades in reversed(pages):
            records += await self.context.record([each for each in trades if each.id > last.id])
        return Fetched(records)

    def _emit_short(self, after_id: int, before_id: int) -> None:
        exchange = self.context.exchange.name
        self.context.emit(
            FetchFellShort(
                exchange=exchange, symbol=self.symbol, after_id=after_id, before_id=before_id
            )
        )


@dataclass
class BookFetch:
    """Fetches a market's current book."""

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
    """Fetches the tickers of some markets; of all, if none is named."""

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
    """Fetches the exchange's markets and limits for all processes; changes are logged."""

    context: FetchContext
    markets: Markets
    listings: Listings
    what: str = "info"
    symbol: str = ""

    async def step(self) -> Fetched:
        """See ``Fetch``; the records counted are markets that were listed or delisted."""
        exchange = self.context.exchange
        await self.context.turn()
        for earlier in (exchange.time, exchange.asset_names):
            if earlier is not None:
                await self.context.turn()  # ``learn`` fetches these first, a request each
        info = await self.context.gateway.learn()
        self.listings.learn(info.symbols.listed)
        change = await self.markets.refresh(exchange.name, info)
        return Fetched(len(change.listed) + len(change.delisted))
