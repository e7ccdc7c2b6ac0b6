"""Collects the ticks of one exchange, on as many connections as its symbols need.

``want`` and ``drop`` only say what is to be collected. A task then subscribes to what is missing,
and unsubscribes from what is no longer wanted; other symbols are not affected. What fails is
retried with growing delays. Lost connections are reopened by the sessions, and streams that stall
are subscribed to again (see ``stalls``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from random import random

from penstock.clock import wait_for
from penstock.collect.batching import flushing_by
from penstock.collect.connections import connections_of, feed_connection
from penstock.collect.facts import ConnectionOpened, StreamStalled
from penstock.collect.feed_session import FeedOptions, FeedSession
from penstock.collect.session import Session, SessionHooks
from penstock.collect.sessions import Sessions, endpoint_of, plan_by
from penstock.errors import ConnectorPaused, UnknownSymbol
from penstock.exchanges.base import Exchange
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.channels import TICKERS, check
from penstock.market.events import Disconnect, Event, Ticker
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.runtime.reports import ConnectionReport
from penstock.runtime.status import ExchangeActivity
from penstock.streaming.facts import StreamsRefused
from penstock.streaming.shard import Shard
from penstock.streaming.sharding import ConnectLimiter
from penstock.streaming.wanted import StreamKey, Subscriptions
from penstock.telemetry import Fact
from penstock.tickers.credentials import Access
from penstock.tickers.entries import SymbolEntries
from penstock.tickers.facts import (
    CallbackFailed,
    ExchangeMeasured,
    SymbolFailed,
    SymbolsSubscribed,
    symbols_failed,
)
from penstock.tickers.services import TickerServices
from penstock.tickers.stalls import TickerStalls

OnTick = Callable[[Ticker], Awaitable[object] | object]
"""Receives every tick. An exchange's ticks wait for it; its errors are logged."""

_STALLED = {
    "asked_anew": "Stalled: no tick although the market changes. Subscribed again",
    "rotated": "Stalled: no tick although the market changes. Its connection is replaced",
}
_AGAIN = Backoff(first_s=1.0, longest_s=30.0)


class ExchangeTickers:
    """The symbols of one exchange. For one event loop."""

    def __init__(
        self,
        exchange: Exchange,
        services: TickerServices,
        access: Access,
        on_tick: OnTick | None = None,
    ) -> None:
        self._exchange, self._services, self._on_tick = exchange, services, on_tick
        self._emit, self._clock = services.emit, services.clock
        self.entries = SymbolEntries(
            exchange.name, services.processes, services.clock, services.emit, access
        )
        self.wanted: dict[Symbol, None] = {}
        self.collecting: set[Symbol] = set()
        """Those that are subscribed."""
        self.failures: dict[Symbol, Exception] = {}
        """Why others are not."""
        self.received = 0
        self._streams: Sessions | FeedSession | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._stalls: TickerStalls | None = None
        self._checking: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._listed: SymbolMap | None = None
        self._changed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._reported: dict[str, set[Symbol]] = {}
        self._callback_failures = 0

    def want(self, symbols: Iterable[Symbol]) -> None:
        """Collect these too."""
        for symbol in symbols:
            if symbol not in self.wanted:
                self.wanted[symbol] = None
                self.entries.start(symbol)
                self._changed.set()

    def drop(self, symbols: Iterable[Symbol]) -> None:
        """Collect these no longer."""
        for symbol in symbols:
            if symbol in self.wanted:
                del self.wanted[symbol]
                self._changed.set()

    def refuse(self, symbol: Symbol) -> Exception | None:
        """Give up a symbol that failed, and return why; None if it is collected."""
        error = self.failures.pop(symbol, None)
        if error is not None:
            self.wanted.pop(symbol, None)
            self.entries.failed(symbol, str(error), final=True)
        return error

    def measured(self) -> ExchangeMeasured:
        """What was received, and how the symbols are."""
        heard_ns = [ticker.received_at_ns for ticker in self.entries.latest()]
        oldest_s = (self._clock.now_ns() - min(heard_ns)) / 1e9 if heard_ns else None
        return ExchangeMeasured(self.received, dict(self.entries.statuses()), oldest_s)

    def activity(self) -> ExchangeActivity:
        """What was received."""
        open_ = [each.state in ("connected", "leaving") for each in self.connections()]
        latest_ns = max((each.received_at_ns for each in self.entries.latest()), default=None)
        return ExchangeActivity(
            exchange=self._exchange.name,
            messages=self.received,
            markets=len(self.wanted),
            connections=len(open_),
            connections_up=sum(open_),
            last_data_ms=None if latest_ns is None else latest_ns // 1_000_000,
        )

    def connections(self) -> list[ConnectionReport]:
        """The connections of its streams."""
        streams, name, now_ns = self._streams, self._exchange.name, self._clock.now_ns()
        if isinstance(streams, FeedSession):
            return [feed_connection(name, streams.feed_state, now_ns)]
        return [] if streams is None else connections_of(name, streams.shards, now_ns)

    def write_again(self) -> None:
        """Write the last tick of each symbol, and all entries, since the store has lost them."""
        for ticker in self.entries.latest():
            self._services.writer.offer(ticker)
        self.entries.renew()

    async def settled(self) -> None:
        """Wait until everything that is wanted now was attempted."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._changed.set()
        await done

    async def run(self) -> None:
        """Collect until cancelled; then close all connections, and show all symbols as stopped."""
        writing, retries = asyncio.create_task(self.entries.run()), 0
        try:
            while True:
                self._changed.clear()
                waiting = len(self._waiting)
                try:
                    await self._reconcile()
                except Exception as error:
                    # Whatever it is: it concerns this exchange only, and is retried.
                    missing = [each for each in self.wanted if each not in self.collecting]
                    self.failures = dict.fromkeys(missing or self.wanted, error)
                    self._report_failures()
                for done in self._waiting[:waiting]:
                    if not done.done():
                        done.set_result(None)
                del self._waiting[:waiting]
                retries = retries + 1 if self.failures else 0
                if self.failures:
                    await wait_for(self._changed, self._clock, _AGAIN.delay(retries - 1, random()))
                else:
                    await self._changed.wait()
        finally:
            for done in self._waiting:
                if not done.done():
                    done.set_result(None)
            await self._close_streams()
            # Before the task ends: a registration that is cancelled may succeed all the same.
            await self.entries.close()
            writing.cancel()
            await asyncio.wait([writing])

    async def _reconcile(self) -> None:
        """Subscribe to what is missing, and unsubscribe from what is not wanted."""
        if self._streaming is not None and self._streaming.done():
            await self._ended(self._streaming)
        extra = [symbol for symbol in self.collecting if symbol not in self.wanted]
        if extra and self._streams is not None:
            self._streams.remove(_stream_keys(extra))
            if self._stalls is not None:
                self._stalls.forget(extra)
            self.collecting.difference_update(extra)
        if unwanted := self.entries.unwanted(self.wanted):
            await self.entries.stop(unwanted)
        missing = [symbol for symbol in self.wanted if symbol not in self.collecting]
        self.failures = await self._subscribe(missing) if missing else {}
        self._report_failures()

    async def _subscribe(self, symbols: Sequence[Symbol]) -> dict[Symbol, Exception]:
        """Subscribe to these; return those that failed, and why."""
        try:
            streams, listed = await self._opened()
        except Exception as error:
            # Whatever it is: it concerns this exchange only, and is retried.
            return dict.fromkeys(symbols, error)
        failures: dict[Symbol, Exception] = {}
        for symbol in symbols:
            try:
                listed.native(symbol)
            except UnknownSymbol as error:
                failures[symbol] = error
        # It may have been dropped while the listing was fetched.
        fresh = [each for each in symbols if each not in failures and each in self.wanted]
        if fresh:
            streams.add(_stream_keys(fresh))
            self.collecting.update(fresh)
            if self._stalls is not None:
                self._stalls.expect(fresh)
            self._emit(SymbolsSubscribed(exchange=self._exchange.name, count=len(fresh)))
        return {symbol: error for symbol, error in failures.items() if symbol in self.wanted}

    async def _opened(self) -> tuple[Sessions | FeedSession, SymbolMap]:
        """The streams, opened if need be, and the listed symbols.

        Raises:
            UnknownChannel: the exchange has no tickers.
            One of ``UNAVAILABLE``: its connector is paused, or its listing cannot be fetched.
        """
        name, services = self._exchange.name, self._services
        connector, _ = await services.connectors.ensure_connector(name)
        if connector.status != "active":
            raise ConnectorPaused(name, connector.status)
        listed = await services.markets.of(name)
        if self._listed is None:
            self._listed = SymbolMap(name, listed.listed)
        else:
            self._listed.learn(listed.listed)
        if self._streams is None:
            self._streams = self._make_streams(self._listed)
            self._closing = asyncio.Event()
            self._streaming = asyncio.create_task(self._streams.run(self._closing))
            self._streaming.add_done_callback(lambda _: self._changed.set())
            if self._stalls is not None and isinstance(self._streams, Sessions):
                self._checking = asyncio.create_task(self._stalls.run(self._streams))
        return self._streams, self._listed

    def _make_streams(self, listed: SymbolMap) -> Sessions | FeedSession:
        name, settings = self._exchange.name, self._services.settings
        feed = self._services.gateways.open(name).feed(listed)
        dialect = self._exchange.dialect(listed)
        check([TICKERS.name], name, (feed or dialect).channels)
        flushing = flushing_by(settings.collect)
        if feed is not None:
            options = FeedOptions(name, feed, settings.collect.book_levels)
            return FeedSession(options, self._record, self._clock, flushing, self._emit)
        url = settings.exchanges.stream_urls.get(name, self._exchange.stream_url)
        endpoint, plan = endpoint_of(name, dialect, url), plan_by(settings.collect)
        limiter = ConnectLimiter(dialect.limits)
        stalls = TickerStalls(self._exchange, self._services, listed, self._noticed)
        self._stalls = stalls
        hooks = SessionHooks(self._record, _no_book, self._noticed, stalls.heard, limiter)

        def begin(wanted: Subscriptions) -> Session:
            make = partial(self._exchange.dialect, listed)
            shard = Shard(name, make, list(wanted), random, plan)
            return Session(shard, endpoint, hooks, self._clock, flushing)

        most = dialect.limits.streams_per_connection
        return Sessions(begin, min(most, settings.collect.streams_per_connection))

    async def _record(self, events: Sequence[Event]) -> None:
        """Pass ticks on, and note lost connections."""
        for event in events:
            if type(event) is Ticker:
                self.received += 1
                self._services.writer.offer(event)
                self.entries.heard(event)
                if self._on_tick is not None:
                    await self._call(self._on_tick, event)
            elif type(event) is Disconnect and event.cause == "disconnected":
                self.entries.lost(event.symbol, event.reason)

    async def _call(self, on_tick: OnTick, ticker: Ticker) -> None:
        try:
            result = on_tick(ticker)
            if isawaitable(result):
                await result
        except Exception as error:
            self._callback_failures += 1
            reason = f"{type(error).__name__}: {error}"
            self.entries.failed(ticker.symbol, f"Error: {reason}")
            if self._callback_failures.bit_count() == 1:  # powers of two have one bit
                self._emit(
                    CallbackFailed(
                        exchange=self._exchange.name,
                        symbol=ticker.symbol.unified,
                        reason=reason,
                        times=self._callback_failures,
                    )
                )

    def _noticed(self, fact: Fact) -> None:
        """Show which symbols are refused, stalled or connected again, and pass the fact on."""
        self._emit(fact)
        shards = self._streams.shards if isinstance(self._streams, Sessions) else []
        if isinstance(fact, StreamsRefused):
            for shard in shards:
                for member in shard.members.values():
                    for _, symbol in member.connection.failures.refused:
                        self.entries.failed(symbol, fact.reason)
        elif isinstance(fact, StreamStalled):
            for symbol in [each for each in self.collecting if each.slug == fact.symbol]:
                self.entries.failed(symbol, _STALLED[fact.remedy])
        elif isinstance(fact, ConnectionOpened):
            for shard in shards:
                if shard.primary.live:
                    for _, symbol in shard.wanted.stream_keys():
                        self.entries.reconnected(symbol)

    def _report_failures(self) -> None:
        """Log each symbol that failed once for each kind of error, until all are collected."""
        if not self.failures:
            self._reported.clear()
        kinds: dict[str, list[Symbol]] = {}
        for symbol, error in self.failures.items():
            self.entries.failed(symbol, str(error))
            reported = self._reported.setdefault(type(error).__name__, set())
            if symbol not in reported:
                reported.add(symbol)
                kinds.setdefault(type(error).__name__, []).append(symbol)
        for symbols in kinds.values():
            reason = str(self.failures[symbols[0]])
            self._emit(symbols_failed(self._exchange.name, symbols, reason))

    async def _ended(self, streaming: asyncio.Task[None]) -> None:
        """Forget streams that ended by an error: they are opened again."""
        error = streaming.exception()
        for symbol in self.collecting:
            self.entries.failed(symbol, f"{type(error).__name__}: {error}")
        self.collecting.clear()
        self._streams = self._streaming = None
        await self._end_checking()
        self._emit(
            SymbolFailed(
                exchange=self._exchange.name, symbols=(), count=len(self.wanted), reason=repr(error)
            )
        )
        await self._clock.sleep(_AGAIN.delay(0, random()))

    async def _close_streams(self) -> None:
        self._closing.set()
        self.collecting.clear()
        await self._end_checking()
        if self._streaming is not None:
            with suppress(Exception):
                await self._streaming
        self._streams = self._streaming = None

    async def _end_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        self._stalls = self._checking = None


def _stream_keys(symbols: Iterable[Symbol]) -> list[StreamKey]:
    return [(TICKERS.name, symbol) for symbol in symbols]


async def _no_book(*_: object) -> None:
    """No book is collected, so none is fetched."""
