"""Collects one exchange's streams: records them, and detects everything that is missing.

A collector fetches the exchange's markets and limits, streams the requested markets, maintains the
books, and writes its status. Before it stops it fetches the latest trade of each market, so that
even a lost last frame is detected; where ids are not consecutive, it records the latest trades
itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import random
from typing import Any

from penstock.books.events import BookEvent
from penstock.clock import Clock
from penstock.collect import status_file
from penstock.collect.absences import Absences
from penstock.collect.auditor import Books
from penstock.collect.availability import RestAvailability
from penstock.collect.batching import SharedBatching, flushing_by
from penstock.collect.books import BookMaintainer
from penstock.collect.facts import ExchangeSilent
from penstock.collect.feed_session import FeedOptions, FeedSession
from penstock.collect.final_probe import FinalProber
from penstock.collect.listings import Listings
from penstock.collect.recording import RetryingRecorder
from penstock.collect.reporter import Reporter, reporting_the_end
from penstock.collect.session import Session, SessionHooks
from penstock.collect.sessions import Sessions, endpoint_of, plan_by
from penstock.collect.stall_detector import ProbeContext, SilenceLimits, StallDetector
from penstock.collect.tasks import end, first_of, raise_first
from penstock.config import Collect
from penstock.coverage.continuity import Continuity
from penstock.errors import UNAVAILABLE, NotStreaming, UnknownSymbol
from penstock.exchanges.base import Exchange, ExchangeClient, Feed, Info, Rest
from penstock.market.channels import TRADES, check
from penstock.market.events import Disconnect, Event, Trade
from penstock.market.market_shard import WHOLE, MarketShard
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.storage.log.keys import Stream
from penstock.streaming.dialect import Dialect
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import RECONNECT
from penstock.streaming.sharding import ConnectLimiter
from penstock.streaming.wanted import StreamKey, Subscriptions
from penstock.telemetry import Listener

_STATUS_S = 1.0
_GRACE_S = 2.0
"""How long the stream may take to deliver what REST already returns."""
_GRACE_CHECKS = 40
_LATEST = 100
"""Trades fetched at the end where ids are not consecutive: more than a stream can be behind."""
_LEARN_AGAIN = Backoff(first_s=1.0, longest_s=30.0)


@dataclass
class Collector:
    """Collects from one exchange until it is stopped."""

    exchange: Exchange
    gateway: ExchangeClient
    recorder: RetryingRecorder
    availability: RestAvailability
    continuity: Continuity
    absences: Absences
    reporter: Reporter
    clock: Clock
    settings: Collect
    stream_url: str
    emit: Listener
    listings: Listings
    admitted: Callable[[Sequence[Event]], Sequence[Event]] = lambda events: events
    """Returns the live events that are to be recorded."""
    shard: MarketShard = WHOLE
    """Which of the markets it collects; others are left to other processes."""
    _info: Info | None = field(init=False, default=None)
    _symbols: dict[Symbol, None] = field(init=False, default_factory=dict)
    _sessions: Sessions | None = field(init=False, default=None)
    _feed_session: FeedSession | None = field(init=False, default=None)
    _detector: StallDetector | None = field(init=False, default=None)
    _whole_books: bool = field(init=False, default=False)
    _unrecorded: list[Disconnect] = field(init=False, default_factory=list)
    """Markers of absences that are not recorded yet."""

    def books(self) -> Books:
        """All current books."""
        return self._sessions.books() if self._sessions is not None else {}

    def _book_event(self, symbol: Symbol, event: BookEvent) -> None:
        if self._sessions is not None:
            self._sessions.book_event(symbol, event)

    def add(self, names: Sequence[str]) -> None:
        """Collect these too, from now on; streams that are collected already are not affected.

        Raises:
            NotStreaming: the exchange's markets are not known yet. Try again later.
            UnknownSymbol: the exchange does not list one of them; nothing was changed.
        """
        symbols = self._find(names)
        self._streaming().add(self._stream_keys(symbols))
        fresh = self._stream_keys(symbol for symbol in symbols if symbol not in self._symbols)
        self.reporter.take_recorded()
        self._unrecorded += self.absences.markers(fresh, self.clock.now_ns())
        self._symbols.update(dict.fromkeys(symbols))
        self._expect(symbols)

    def remove(self, names: Sequence[str]) -> None:
        """Stop collecting these; recorded data is kept.

        Raises:
            NotStreaming: the exchange's markets are not known yet. Try again later.
            UnknownSymbol: the exchange does not list one of them; nothing was changed.
        """
        symbols = self._find(names)
        self._streaming().remove(self._stream_keys(symbols))
        for symbol in symbols:
            self._symbols.pop(symbol, None)
        if self._detector is not None:
            self._detector.forget(symbols)

    async def replace(self, names: Sequence[str]) -> None:
        """Collect these and no others, from now on; unknown ones may have been listed since.

        Raises:
            NotStreaming: the exchange's markets are not known yet. Try again later.
            UnknownSymbol: the exchange does not list one of them; nothing was changed.
            One of ``UNAVAILABLE``: its markets cannot be fetched.
        """
        wanted = await self._find_listed(names)
        gone = [symbol.unified for symbol in self._symbols if symbol not in wanted]
        self.add([symbol.unified for symbol in wanted])
        self.remove(gone)

    async def run(self, names: Sequence[str], stop: asyncio.Event) -> None:
        """Collect these symbols until ``stop`` is set.

        Raises:
            UnknownSymbol: the exchange does not list one of them. Nothing was collected.
            UnknownChannel: it does not have a channel that the settings request.
            StorageError: events cannot be recorded.
        """
        self.reporter.watch_recording(self.recorder)
        self.reporter.write("starting")
        try:
            with reporting_the_end(self.reporter):
                await self._run(names, stop)
                self.reporter.write("stopped")
        finally:
            self._sessions = self._detector = self._feed_session = None

    async def _run(self, names: Sequence[str], stop: asyncio.Event) -> None:
        self._info = await self._learn(stop)
        if self._info is None:
            return
        self.listings.symbols = self._info.symbols
        self._symbols = dict.fromkeys(self._find(names))
        feed = self.gateway.feed(self._info.symbols)
        offered = (feed or self.exchange.dialect(self._info.symbols)).channels
        check(self.settings.channels, self.exchange.name, offered)
        stream_keys, now_ns = self._stream_keys(self._symbols), self.clock.now_ns()
        await self.recorder.record(self.absences.markers_at_start(stream_keys, now_ns))
        await (self._stream(self._info, stop) if feed is None else self._follow(feed, stop))

    async def _find_listed(self, names: Sequence[str]) -> list[Symbol]:
        """Find symbols that may have been listed since, in the state store, then on the exchange.

        Raises:
            See ``replace``.
        """
        with suppress(UnknownSymbol):
            return self._find(names)
        await self.listings.check()
        with suppress(UnknownSymbol):
            return self._find(names)
        self.listings.learn((await self.gateway.learn()).symbols.listed)
        return self._find(names)

    def _find(self, names: Sequence[str]) -> list[Symbol]:
        if self._info is None:
            raise NotStreaming(self.exchange.name)
        # A market named twice, in two spellings, is one market.
        found = dict.fromkeys(self._info.symbols.find(name) for name in names)
        return [symbol for symbol in found if self.shard.owns(symbol.slug)]

    def _stream_keys(self, symbols: Iterable[Symbol]) -> list[StreamKey]:
        # All streams of a market are adjacent, so that they share a connection if possible.
        return [(channel, symbol) for symbol in symbols for channel in self.settings.channels]

    def _streaming(self) -> Sessions | FeedSession:
        streaming = self._sessions or self._feed_session
        if streaming is None:
            raise NotStreaming(self.exchange.name)
        return streaming

    async def _follow(self, feed: Feed, stop: asyncio.Event) -> None:
        """Record a feed's events; losses on its sockets cannot be detected here."""
        settings, closing = self.settings, asyncio.Event()
        flushing = flushing_by(settings)
        again = replace(RECONNECT, multiplier=settings.retry_multiplier)
        options = FeedOptions(self.exchange.name, feed, settings.book_levels, again)
        feed_session = FeedSession(options, self.recorder.record, self.clock, flushing, self.emit)
        feed_session.add(self._stream_keys(self._symbols))
        self._feed_session = feed_session
        self.reporter.watch_feed(feed_session.feed_state, self.gateway)
        self.recorder.gathered = lambda: feed_session.waiting
        running = asyncio.create_task(feed_session.run(closing))
        stopping, background = asyncio.create_task(stop.wait()), self._start_background()
        others = [stopping, *background]
        try:
            await first_of(running, *others)
            closing.set()
            others.append(asyncio.create_task(self._give_up_in_time()))
            await running
            await self.recorder.settle()
            raise_first(background)
        except BaseException:
            self.recorder.give_up()
            raise
        finally:
            closing.set()
            await end(running, others)

    async def _stream(self, info: Info, stop: asyncio.Event) -> None:
        rest, closing = self.exchange.rest(info.symbols), asyncio.Event()
        dialect = self.exchange.dialect(info.symbols)
        maintainer = self._make_maintainer(rest, dialect)
        detector = self._make_detector(rest, dialect)
        sessions = self._sessions = self._begin_sessions(info, dialect, maintainer, detector)
        sessions.add(self._stream_keys(self._symbols))
        self.reporter.watch(lambda: sessions.shards, self.gateway, detector.stalled)
        self.reporter.watch_books(maintainer)
        self.recorder.gathered = lambda: sum(shard.waiting for shard in sessions.shards)
        streaming = asyncio.create_task(sessions.run(closing))
        stopping = asyncio.create_task(stop.wait())
        background = self._start_background(maintainer.run(), detector.run(sessions))
        others = [stopping, *background]
        try:
            # Background tasks end only by an error, which ends the collector.
            await first_of(streaming, *others)
            if stopping.done():
                await self._final_probe(rest, tuple(self._symbols))
            others.append(asyncio.create_task(self._give_up_in_time()))
            if stopping.done():
                # Before the streams end: a live record afterwards would end the absence of its
                # stream.
                await maintainer.record_shown()
            closing.set()
            await streaming
            if stopping.done():
                await self._record_latest(rest, tuple(self._symbols))
            await self.recorder.settle()
            raise_first(background)
        except BaseException:
            self.recorder.give_up()
            raise
        finally:
            closing.set()
            await end(streaming, others)

    def _start_background(self, *others: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Start the tasks that run beside streaming, for ever."""
        background = (self._report_forever(), self.availability.run(), self.listings.run(), *others)
        return [asyncio.create_task(task) for task in background]

    async def _give_up_in_time(self) -> None:
        """End the process even if the disk stays full for longer than ``stop_timeout``."""
        await self.clock.sleep(self.settings.stop_timeout)
        self.recorder.give_up()

    async def _learn(self, stop: asyncio.Event) -> Info | None:
        """The exchange's markets and limits; None if stopped before it answered."""
        learning = asyncio.create_task(self._ask_until_answered())
        stopping = asyncio.create_task(stop.wait())
        try:
            await first_of(learning, stopping)
            return learning.result() if learning.done() else None
        finally:
            learning.cancel()
            stopping.cancel()
            await asyncio.gather(learning, stopping, return_exceptions=True)

    async def _ask_until_answered(self) -> Info:
        for retry in count():
            try:
                return await self.gateway.learn()
            except UNAVAILABLE as error:
                if not self.availability.failed(error):
                    self.emit(ExchangeSilent(exchange=self.exchange.name, reason=str(error)))
                self.reporter.write("starting", trouble=str(error))
            await self.clock.sleep(_LEARN_AGAIN.delay(retry, random()))
            await self._wait_until_allowed()
        raise AssertionError("counting never ends")

    async def _wait_until_allowed(self) -> None:
        """Wait until requests are possible, with the reason in the status."""
        while self.availability.suspended:
            await self.availability.check()
            self.reporter.write("starting")
            await self.clock.sleep(_STATUS_S)

    def _make_maintainer(self, rest: Rest, dialect: Dialect) -> BookMaintainer:
        return BookMaintainer(
            gateway=self.gateway,
            rest=rest,
            books=self.books,
            book_event=self._book_event,
            rules=dialect.books,
            record=self.recorder.record,
            clock=self.clock,
            settings=self.settings,
            availability=self.availability,
            emit=self.emit,
        )

    def _make_detector(self, rest: Rest, dialect: Dialect) -> StallDetector:
        self._detector = StallDetector(
            ProbeContext(self.exchange.name, rest, self.gateway.fetch, self.availability),
            self.clock,
            self.emit,
            SilenceLimits(self.settings.min_silence, self.settings.first_message_timeout),
        )
        self._whole_books = dialect.books.begins != "rest"
        self._expect(self._symbols)
        return self._detector

    def _expect(self, symbols: Iterable[Symbol]) -> None:
        """Register the streams of these markets with the stall detector."""
        if self._detector is not None and self.settings.liveness:
            channels, whole_books = self.settings.channels, self._whole_books
            self._detector.expect(channels, list(symbols), whole_books=whole_books)

    def _begin_sessions(
        self, info: Info, dialect: Dialect, maintainer: BookMaintainer, detector: StallDetector
    ) -> Sessions:
        name, settings, limits = self.exchange.name, self.settings, dialect.limits
        flushing = flushing_by(settings)
        endpoint, plan = endpoint_of(name, dialect, self.stream_url), plan_by(settings)
        hooks = SessionHooks(
            self._record_live, maintainer.fetch, self.emit, detector.heard,
            ConnectLimiter(limits, self.shard.count), SharedBatching(flushing, self.clock),
        )  # fmt: skip

        def begin(wanted: Subscriptions) -> Session:
            make = partial(self.exchange.dialect, info.symbols)
            shard = Shard(name, make, list(wanted), random, plan)
            return Session(shard, endpoint, hooks, self.clock, flushing)

        return Sessions(begin, min(limits.streams_per_connection, settings.streams_per_connection))

    async def _record_live(self, events: Sequence[Event]) -> None:
        """Record what streams delivered, except for what is left to the jobs that fill gaps."""
        await self.recorder.record(self.admitted(events))

    async def _report_forever(self) -> None:
        while True:
            markers, self._unrecorded = self._unrecorded, []
            if markers:
                await self.recorder.record(markers)
            await self.clock.sleep(status_file.pause_s(await self.reporter.report()))

    async def _final_probe(self, rest: Rest, symbols: Sequence[Symbol]) -> None:
        """Fetch the latest trades, and wait briefly for the stream to deliver them."""
        if TRADES.name not in self.exchange.consecutive.intersection(self.settings.channels):
            return

        async def note(symbol: Symbol, latest: list[Trade]) -> None:
            if latest:
                self.continuity.note_latest(self._trades_of(symbol), latest[-1].id)

        await self._final_prober().ask(symbols, lambda symbol: rest.recent_trades(symbol, 1), note)
        for _ in range(_GRACE_CHECKS):
            self.reporter.take_recorded()
            if not any(map(self.continuity.behind, map(self._trades_of, symbols))):
                break
            await self.clock.sleep(_GRACE_S / _GRACE_CHECKS)

    async def _record_latest(self, rest: Rest, symbols: Sequence[Symbol]) -> None:
        """Record the latest trades, if ids cannot show that the stream has not delivered some."""
        if TRADES.name not in self.settings.channels or TRADES.name in self.exchange.consecutive:
            return
        await self._final_prober().ask(
            symbols,
            lambda symbol: rest.recent_trades(symbol, _LATEST),
            lambda _, latest: self.recorder.record(latest),
        )

    def _final_prober(self) -> FinalProber:
        timeout_s, note = self.settings.stop_timeout, partial(self.reporter.note, "last_look")
        return FinalProber(self.gateway, self.availability, timeout_s, self.emit, note)

    def _trades_of(self, symbol: Symbol) -> Stream:
        return Stream(self.exchange.name, TRADES.name, symbol.slug)
