"""A session on somebody else's sockets: what a feed brings, recorded.

Every channel of every market is followed by itself: it is asked for what comes next, again and
again, and if it has nothing but an error, after a pause. Books are believed from one snapshot to
the next error, as far as the feed can be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import random

from penstock.clock import Clock
from penstock.collect.batching import Batching, Flushing
from penstock.errors import (
    SUSPENDED,
    UNAVAILABLE,
    ExchangeUnreachable,
    UnexpectedAnswer,
    UnknownChannel,
    UnknownSymbol,
)
from penstock.exchanges.base import Feed
from penstock.market.events import AnyEvent, BookSnapshot, Cause
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.connection import State
from penstock.streaming.dialect import BookRules, Malformed, Refusal
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.leg import RECONNECT, Tally
from penstock.streaming.streamed_book import StreamedBook
from penstock.streaming.wanted import Place
from penstock.telemetry import ConnectionLost, Listener, quiet

_TROUBLE = (*UNAVAILABLE, UnknownSymbol)
"""What a channel may recover from, or the others need not suffer from."""
_CANCEL_S = 2.0
"""How long a feed may take to let go; a library may swallow what should have stopped it."""
_EXCERPT = 200


class Followed:
    """What is known of the channels that are followed."""

    def __init__(self) -> None:
        self.state: State = "connecting"
        self.books: dict[Symbol, StreamedBook] = {}
        self.tally = Tally()

    def noted(self, error: Exception, place: Place) -> None:
        """A channel could not be read."""
        words, tally = str(error), self.tally
        stream = f"{place[0]} {place[1].slug}"
        if isinstance(error, UnexpectedAnswer):
            tally.malformed["wrong_shape"] += 1
            tally.quarantine.append(Malformed("wrong_shape", words, words[:_EXCERPT], stream))
        elif isinstance(error, SUSPENDED):
            self.state = "reconnecting"  # a client may ask before it streams
        elif isinstance(error, ExchangeUnreachable):
            self.state = "reconnecting"
            tally.reconnects[words[:_EXCERPT]] += 1
        else:
            tally.refusals.append(Refusal(None, type(error).__name__, words, (stream,)))
            tally.refused[place] += 1


@dataclass(frozen=True)
class Following:
    """What is wanted of a feed."""

    exchange: str
    feed: Feed
    levels: int
    """Of a book, on each side."""
    again: Backoff = RECONNECT
    """How long to wait before a channel that failed is asked again."""


class FedSession:
    """Follows a feed until told to stop."""

    def __init__(
        self,
        following: Following,
        record: Callable[[Sequence[AnyEvent]], Awaitable[object]],
        clock: Clock,
        flushing: Flushing,
        tell: Listener = quiet,
    ) -> None:
        self._following, self._record, self._clock = following, record, clock
        self._flushing, self._tell = flushing, tell
        self._batching = Batching(flushing, clock)
        self.followed = Followed()
        self._places: dict[Place, asyncio.Task[None] | None] = {}
        """What is followed, and by whom once it runs."""
        self._shown: dict[Symbol, tuple[bytes, bytes]] = {}
        """The levels that were last recorded of each book."""
        self._heard_ns: dict[Place, int] = {}
        """When channels that bring something last answered."""
        self._events: list[AnyEvent] = []
        self._room = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_running = self._is_over = False

    @property
    def waiting(self) -> int:
        """Events received and not handed to the recorder yet."""
        return len(self._events)

    def add(self, places: Iterable[Place]) -> None:
        """Follow these too.

        Raises:
            UnknownChannel: the feed does not have it; nothing was changed.
        """
        wanted, feed = list(places), self._following.feed
        for channel, _ in wanted:
            if channel not in feed.channels:
                raise UnknownChannel(self._following.exchange, channel, feed.channels)
        for place in wanted:
            if place not in self._places:
                self._places[place] = self._begin(place) if self._is_running else None
                if place[0] == "book_deltas":
                    self.followed.books[place[1]] = StreamedBook(BookRules(begins="frame"))
        self._changed.set()

    def remove(self, places: Iterable[Place]) -> None:
        """Follow these no longer."""
        for place in places:
            if place in self._places:
                self._mark([place], "removed", "removed")
            task = self._places.pop(place, None)
            if task is not None:
                task.cancel()
            if place[0] == "book_deltas":
                self.followed.books.pop(place[1], None)
        self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow and record until ``stop``; then let go, and record what had arrived.

        Raises:
            StorageError: what arrived cannot be recorded.
        """
        flushing = asyncio.create_task(self._flush_forever())
        stopping = asyncio.create_task(stop.wait())
        self._is_running = True
        for place in self._places:
            self._places[place] = self._begin(place)
        try:
            while not (stopping.done() or flushing.done() or self._failed()):
                self._changed.clear()
                changing = asyncio.create_task(self._changed.wait())
                await asyncio.wait(
                    [flushing, stopping, changing, *self._followers()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                changing.cancel()
        finally:
            self._is_over, self.followed.state = True, "disconnected"
            self._batching.arrived()  # lets the task that writes see that it is over
            for task in (stopping, *self._followers()):
                task.cancel()
            await asyncio.wait([stopping, *self._followers()], timeout=_CANCEL_S)
            await asyncio.wait([flushing])
        for task in (flushing, *self._failed()):
            task.result()
        self._mark(self._places, "stopped", "stopped")
        await self._flush()

    def _begin(self, place: Place) -> asyncio.Task[None]:
        return asyncio.create_task(self._follow(*place))

    def _followers(self) -> list[asyncio.Task[None]]:
        return [task for task in self._places.values() if task is not None]

    def _failed(self) -> list[asyncio.Task[None]]:
        """Those who ended by an error that nobody here can mend."""
        return [
            task
            for task in self._followers()
            if task.done() and not task.cancelled() and task.exception() is not None
        ]

    async def _follow(self, channel: str, symbol: Symbol) -> None:
        following, retry = self._following, 0
        while not self._is_over:
            try:
                events = await following.feed.next(channel, symbol, following.levels)
            except _TROUBLE as error:
                if not retry:
                    self._mark([(channel, symbol)], str(error))
                self._suffer(error, channel, symbol)
                await self._clock.sleep(following.again.delay(retry, random()))
                retry += 1
                continue
            retry, self.followed.state = 0, "connected"
            self._heard_ns[channel, symbol] = self._clock.now_ns()
            self._take(events)
            if len(self._events) >= self._flushing.most_waiting:
                self._room.clear()
                await self._room.wait()

    def _mark(self, places: Iterable[Place], reason: str, cause: Cause = "disconnected") -> None:
        """Record that streams that had brought something may lack something from now on."""
        exchange, now_ns = self._following.exchange, self._clock.now_ns()
        for place in places:
            since_ns = self._heard_ns.pop(place, None)
            if since_ns is not None:  # else it is marked already, or was never heard
                mark = Disconnects(exchange, [(place[0], (place[1],))])
                self._events += mark.mark(reason, now_ns, since_ns, cause)

    def _take(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            if isinstance(event, BookSnapshot) and not self._is_news(event):
                continue
            self._events.append(event)
            self._batching.arrived()

    def _is_news(self, snapshot: BookSnapshot) -> bool:
        """Keep the book; whether its best levels differ from those recorded before."""
        symbol, levels = snapshot.symbol, (bytes(snapshot.bids_raw), bytes(snapshot.asks_raw))
        book = self.followed.books.get(symbol)
        if book is not None:
            book.begin(snapshot)
        is_news = self._shown.get(symbol) != levels
        self._shown[symbol] = levels
        return is_news

    def _suffer(self, error: Exception, channel: str, symbol: Symbol) -> None:
        self.followed.noted(error, (channel, symbol))
        if channel == "book_deltas" and symbol in self.followed.books:
            self.followed.books[symbol].distrust(str(error))
        if isinstance(error, ExchangeUnreachable):
            self._tell(ConnectionLost(exchange=self._following.exchange, reason=str(error)))

    async def _flush_forever(self) -> None:
        while not self._is_over:
            await self._batching.due(lambda: len(self._events))
            await self._flush()
            self._batching.written()

    async def _flush(self) -> None:
        events, self._events = self._events, []
        if events:
            await self._record(events)
        self._room.set()
