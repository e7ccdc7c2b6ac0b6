"""A collector: one exchange's streams, recorded, with everything that is missing named.

It learns what the exchange lists and allows, streams what was asked for, keeps the books, and says
of itself what it is doing. Before it stops it asks the exchange once per market for the
newest trade, so that even a lost last frame is known to be lost; where ids do not tell, it records
the newest ones itself.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import random
from typing import Any

from penstock.clock import Clock
from penstock.collect.absences import Absences
from penstock.collect.auditor import Books
from penstock.collect.batching import Flushing
from penstock.collect.books import BookKeeper
from penstock.collect.continuity import Continuity
from penstock.collect.fed_session import FedSession, Following
from penstock.collect.reporter import Reporter
from penstock.collect.session import Endpoint, Outlets, Session
from penstock.collect.sessions import Sessions
from penstock.collect.watch import Looks, Patience, Watch
from penstock.config import Collect
from penstock.errors import (
    ExchangeError,
    ExchangeUnreachable,
    NotStreaming,
    UnexpectedAnswer,
    UnknownSymbol,
)
from penstock.exchanges.base import Exchange, Feed, Info, Rest, WayOut
from penstock.market.events import Disconnect
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.resilience.backoff import Backoff
from penstock.storage.log.keys import Stream
from penstock.streaming.dialect import Dialect
from penstock.streaming.leg import RECONNECT, Plan
from penstock.streaming.shard import Shard
from penstock.streaming.sharding import ConnectPace
from penstock.streaming.wanted import Place, Subscriptions
from penstock.telemetry import ExchangeSilent, Listener

_STATUS_S = 1.0
_LOOK_S = 5.0
_GRACE_S = 2.0
"""How long the stream may take to bring what the exchange's REST side already tells of."""
_GRACE_LOOKS = 40
_NEWEST = 100
"""Trades to ask for in the end where ids are not consecutive: more than a stream holds back."""
_SILENT_HEARTBEATS = 3
"""A connection without a sign of life for so many heartbeats is dead."""
_LEARN_AGAIN = Backoff(first_s=1.0, longest_s=30.0)


@dataclass
class Collector:
    """Collects from one exchange until told to stop."""

    exchange: Exchange
    gateway: WayOut
    recorder: Recorder
    continuity: Continuity
    absences: Absences
    reporter: Reporter
    clock: Clock
    settings: Collect
    stream_url: str
    tell: Listener
    _info: Info | None = field(init=False, default=None)
    _symbols: dict[Symbol, None] = field(init=False, default_factory=dict)
    _sessions: Sessions | None = field(init=False, default=None)
    _fed: FedSession | None = field(init=False, default=None)
    _watch: Watch | None = field(init=False, default=None)
    _whole_books: bool = field(init=False, default=False)
    _owed: list[Disconnect] = field(init=False, default_factory=list)
    """Markers of absences that are not recorded yet."""

    def books(self) -> Books:
        """Every book that is kept at the moment."""
        return self._sessions.books() if self._sessions is not None else {}

    def add(self, names: Sequence[str]) -> None:
        """Collect these too, from now on; what is collected already goes on undisturbed.

        Raises:
            NotStreaming: the exchange has not told yet what it lists. Try again later.
            UnknownSymbol: it does not list one of them; nothing was changed.
        """
        symbols = self._find(names)
        self._streaming().add(self._places(symbols))
        fresh = self._places(symbol for symbol in symbols if symbol not in self._symbols)
        self._owed += self.absences.marks(fresh, self.clock.now_ns())
        self._symbols.update(dict.fromkeys(symbols))
        self._expect(symbols)

    def remove(self, names: Sequence[str]) -> None:
        """Collect these no longer; what was recorded stays.

        Raises:
            NotStreaming: the exchange has not told yet what it lists. Try again later.
            UnknownSymbol: it does not list one of them; nothing was changed.
        """
        symbols = self._find(names)
        self._streaming().remove(self._places(symbols))
        for symbol in symbols:
            self._symbols.pop(symbol, None)
        if self._watch is not None:
            self._watch.forget(symbols)

    async def replace(self, names: Sequence[str]) -> None:
        """Collect these and no others, from now on; what is not known may have been listed since.

        Raises:
            NotStreaming: the exchange has not told yet what it lists. Try again later.
            UnknownSymbol: it does not list one of them; nothing was changed.
            ExchangeError, ExchangeUnreachable, UnexpectedAnswer: whether it does cannot be asked.
        """
        try:
            wanted = self._find(names)
        except UnknownSymbol:
            assert self._info is not None
            self._info.symbols.learn((await self.gateway.learn()).symbols.listed)
            wanted = self._find(names)
        gone = [symbol.unified for symbol in self._symbols if symbol not in wanted]
        self.add([symbol.unified for symbol in wanted])
        self.remove(gone)

    async def run(self, names: Sequence[str], stop: asyncio.Event) -> None:
        """Collect these symbols.

        Raises:
            UnknownSymbol: the exchange does not list one of them. Nothing was collected.
            UnknownChannel: it does not stream what the settings ask for.
            StorageError: what arrives cannot be recorded.
        """
        self.reporter.write("starting")
        try:
            self._info = await self._learn(stop)
            if self._info is not None:
                self._symbols = dict.fromkeys(self._find(names))
                places, now_ns = self._places(self._symbols), self.clock.now_ns()
                await self.recorder.record(self.absences.marks_at_start(places, now_ns))
                feed = self.gateway.feed(self._info.symbols)
                if feed is None:
                    await self._stream(self._info, stop)
                else:
                    await self._follow(feed, stop)
        finally:
            self._sessions = self._watch = self._fed = None
            self.reporter.write("stopped")

    def _find(self, names: Sequence[str]) -> list[Symbol]:
        if self._info is None:
            raise NotStreaming(self.exchange.name)
        # A market named twice, in two spellings, is one market.
        return list(dict.fromkeys(self._info.symbols.find(name) for name in names))

    def _places(self, symbols: Iterable[Symbol]) -> list[Place]:
        # All of a market's streams side by side, so that they share a connection if they can.
        return [(channel, symbol) for symbol in symbols for channel in self.settings.channels]

    def _streaming(self) -> Sessions | FedSession:
        streaming = self._sessions or self._fed
        if streaming is None:
            raise NotStreaming(self.exchange.name)
        return streaming

    async def _follow(self, feed: Feed, stop: asyncio.Event) -> None:
        """Record what a feed brings; whether all came, only who keeps its sockets could tell."""
        settings, closing = self.settings, asyncio.Event()
        flushing = _flushing(settings)
        again = replace(RECONNECT, multiplier=settings.retry_multiplier)
        following = Following(self.exchange.name, feed, settings.book_levels, again)
        fed = FedSession(following, self.recorder.record, self.clock, flushing, self.tell)
        fed.add(self._places(self._symbols))
        self._fed = fed
        self.reporter.watch_feed(fed.followed, self.gateway)
        running = asyncio.create_task(fed.run(closing))
        others = [asyncio.create_task(stop.wait()), asyncio.create_task(self._report_forever())]
        try:
            await _first_of(running, *others)
            closing.set()
            await running
        finally:
            closing.set()
            for task in others:
                task.cancel()
            await asyncio.gather(running, *others, return_exceptions=True)

    async def _stream(self, info: Info, stop: asyncio.Event) -> None:
        rest, closing = self.exchange.rest(info.symbols), asyncio.Event()
        dialect = self.exchange.dialect(info.symbols)
        keeper, watch = self._keeper(rest, dialect), self._begin_watch(rest, dialect)
        sessions = self._sessions = self._begin_sessions(info, dialect, keeper, watch)
        sessions.add(self._places(self._symbols))
        self.reporter.watch(lambda: sessions.shards, self.gateway, watch.mute)
        self.reporter.watch_books(keeper)
        streaming = asyncio.create_task(sessions.run(closing))
        stopping = asyncio.create_task(stop.wait())
        chores = [
            asyncio.create_task(self._report_forever()),
            asyncio.create_task(keeper.run()),
            asyncio.create_task(watch.run(sessions)),
        ]
        try:
            # Chores never end but by an error, and theirs is everybody's.
            await _first_of(streaming, stopping, *chores)
            if stopping.done():
                await self._look(rest, tuple(self._symbols))
            closing.set()
            await streaming
            if stopping.done():
                await self._record_newest(rest, tuple(self._symbols))
            await keeper.record_shown()
            for chore in chores:
                if chore.done():
                    chore.result()
        finally:
            closing.set()
            for task in (stopping, *chores):
                task.cancel()
            await asyncio.gather(streaming, stopping, *chores, return_exceptions=True)

    async def _learn(self, stop: asyncio.Event) -> Info | None:
        """What the exchange announces; None if told to stop before it answered."""
        asking = asyncio.create_task(self._ask_until_answered())
        stopping = asyncio.create_task(stop.wait())
        try:
            await _first_of(asking, stopping)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()
            stopping.cancel()
            await asyncio.gather(asking, stopping, return_exceptions=True)

    async def _ask_until_answered(self) -> Info:
        for retry in count():
            try:
                return await self.gateway.learn()
            except (ExchangeUnreachable, ExchangeError, UnexpectedAnswer) as error:
                self.tell(ExchangeSilent(exchange=self.exchange.name, reason=str(error)))
                self.reporter.write("starting", trouble=str(error))
            await self.clock.sleep(_LEARN_AGAIN.delay(retry, random()))
        raise AssertionError("counting never ends")

    def _keeper(self, rest: Rest, dialect: Dialect) -> BookKeeper:
        return BookKeeper(
            gateway=self.gateway,
            rest=rest,
            books=self.books,
            rules=dialect.books,
            record=self.recorder.record,
            clock=self.clock,
            settings=self.settings,
            tell=self.tell,
        )

    def _begin_watch(self, rest: Rest, dialect: Dialect) -> Watch:
        self._watch = Watch(
            Looks(self.exchange.name, rest, self.gateway.fetch),
            self.clock,
            self.tell,
            Patience(self.settings.silence, self.settings.first_word),
        )
        self._whole_books = dialect.books.begins != "rest"
        self._expect(self._symbols)
        return self._watch

    def _expect(self, symbols: Iterable[Symbol]) -> None:
        """Let the watch know what ought to come."""
        if self._watch is not None and self.settings.watch:
            channels, whole_books = self.settings.channels, self._whole_books
            self._watch.expect(channels, list(symbols), whole_books=whole_books)

    def _begin_sessions(
        self, info: Info, dialect: Dialect, keeper: BookKeeper, watch: Watch
    ) -> Sessions:
        name, settings, limits = self.exchange.name, self.settings, dialect.limits
        endpoint = Endpoint(
            name,
            dialect.url(self.stream_url),
            limits.heartbeat_s * _SILENT_HEARTBEATS,
            limits.pings_are_life,
        )
        pace = ConnectPace(limits)
        outlets = Outlets(self.recorder.record, keeper.fetch, self.tell, watch.heard, pace)
        plan = Plan(
            redundancy=settings.redundancy,
            rotate_after_s=settings.rotate_after,
            overlap_s=settings.overlap,
            reconnect=replace(RECONNECT, multiplier=settings.retry_multiplier),
            ack_within_s=settings.ack_timeout,
        )

        def begin(wanted: Subscriptions) -> Session:
            make = partial(self.exchange.dialect, info.symbols)
            shard = Shard(name, make, list(wanted), random, plan)
            return Session(shard, endpoint, outlets, self.clock, _flushing(settings))

        most = min(limits.streams_per_connection, settings.streams_per_connection)
        return Sessions(begin, most)

    async def _report_forever(self) -> None:
        while True:
            owed, self._owed = self._owed, []
            if owed:
                await self.recorder.record(owed)
            self.reporter.write("running")
            await self.clock.sleep(_STATUS_S)

    async def _look(self, rest: Rest, symbols: Sequence[Symbol]) -> None:
        """Ask for the newest trades, and wait a moment for the stream to bring them."""
        if "trades" not in self.settings.channels or "trades" not in self.exchange.consecutive:
            return
        streams = [Stream(self.exchange.name, "trades", symbol.slug) for symbol in symbols]
        try:
            async with asyncio.timeout(_LOOK_S):
                for symbol, stream in zip(symbols, streams, strict=True):
                    newest = await self.gateway.fetch(rest.recent_trades(symbol, 1))
                    if newest:
                        self.continuity.look(stream, newest[-1].id)
        except (ExchangeError, ExchangeUnreachable, UnexpectedAnswer, TimeoutError) as error:
            self.reporter.trouble = f"the last look at the exchange failed: {error!r}"
        for _ in range(_GRACE_LOOKS):
            if not any(map(self.continuity.behind, streams)):
                break
            await self.clock.sleep(_GRACE_S / _GRACE_LOOKS)

    async def _record_newest(self, rest: Rest, symbols: Sequence[Symbol]) -> None:
        """Record the newest trades, where no id would tell that the stream still owed some."""
        if "trades" not in self.settings.channels or "trades" in self.exchange.consecutive:
            return
        try:
            async with asyncio.timeout(_LOOK_S):
                for symbol in symbols:
                    request = rest.recent_trades(symbol, _NEWEST)
                    await self.recorder.record(await self.gateway.fetch(request))
        except (ExchangeError, ExchangeUnreachable, UnexpectedAnswer, TimeoutError) as error:
            self.reporter.trouble = f"the last look at the exchange failed: {error!r}"


def _flushing(settings: Collect) -> Flushing:
    return Flushing(settings.flush_ms / 1000, settings.flush_min_ms / 1000)


async def _first_of(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of them is done; the others go on."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
