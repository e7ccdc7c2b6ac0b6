"""Records the events of a feed, whose sockets belong to a library.

Each channel of each market has its own task, which requests the next events in a loop and pauses
after an error. A book is valid from a snapshot to the next error, as far as the feed is correct.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import random

from penstock.books.book import Book
from penstock.books.book_set import new_book
from penstock.books.rules import BookRules
from penstock.clock import Clock
from penstock.collect.batching import Batching, Flushing
from penstock.collect.facts import ConnectionLost
from penstock.errors import (
    SUSPENDED,
    UNAVAILABLE,
    ExchangeUnreachable,
    UnexpectedAnswer,
    UnknownSymbol,
)
from penstock.exchanges.base import Feed
from penstock.market.channels import BOOK_DELTAS, check
from penstock.market.events import BookSnapshot, Cause, Event
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.connection import State
from penstock.streaming.dialect import Malformed, Refusal
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.history import ConnectionHistory
from penstock.streaming.shard_connection import RECONNECT, ConnectionStats
from penstock.streaming.wanted import StreamKey
from penstock.telemetry import Listener, quiet

_TROUBLE = (*UNAVAILABLE, UnknownSymbol)
"""Errors that a channel may recover from, or that do not affect other channels."""
_CANCEL_S = 2.0
"""How long a feed may take to stop; a library may suppress the cancellation."""
_EXCERPT = 200


class FeedState:
    """State and counts of the followed channels."""

    def __init__(self) -> None:
        self.state: State = "connecting"
        self.books: dict[Symbol, Book] = {}
        self.stats = ConnectionStats()
        self.history = ConnectionHistory()
        self.last_message_ns: int | None = None
        self.followed = 0
        """The number of channels."""

    def note_answer(self, at_ns: int) -> None:
        """Note that a channel was read."""
        if self.state != "connected":
            self.history.opened(at_ns)
        self.state, self.last_message_ns = "connected", at_ns

    def note_failure(self, error: Exception, stream_key: StreamKey, at_ns: int) -> None:
        """Note that a channel could not be read."""
        words, stats = str(error), self.stats
        stream = f"{stream_key[0]} {stream_key[1].slug}"
        if isinstance(error, UnexpectedAnswer):
            stats.malformed["wrong_shape"] += 1
            stats.quarantine.append(Malformed("wrong_shape", words, words[:_EXCERPT], stream))
        elif isinstance(error, SUSPENDED):
            self.state = "reconnecting"  # a client may send requests before it streams
        elif isinstance(error, ExchangeUnreachable):
            self.history.closed(words, at_ns)
            self.state = "reconnecting"
            stats.reconnects[words[:_EXCERPT]] += 1
        else:
            stats.refusals.append(Refusal(None, type(error).__name__, words, (stream,)))
            stats.refused[stream_key] += 1


@dataclass(frozen=True)
class FeedOptions:
    """What to read from a feed."""

    exchange: str
    feed: Feed
    levels: int
    """Levels of a book per side."""
    again: Backoff = RECONNECT
    """The delays before a failed channel is retried."""


class FeedSession:
    """Follows a feed until it is stopped."""

    def __init__(
        self,
        options: FeedOptions,
        record: Callable[[Sequence[Event]], Awaitable[object]],
        clock: Clock,
        flushing: Flushing,
        emit: Listener = quiet,
    ) -> None:
        self._options, self._record, self._clock = options, record, clock
        self._flushing, self._emit = flushing, emit
        self._batching = Batching(flushing, clock)
        self.feed_state = FeedState()
        self._stream_keys: dict[StreamKey, asyncio.Task[None] | None] = {}
        """The followed streams, and their tasks once it runs."""
        self._shown: dict[Symbol, tuple[bytes, bytes]] = {}
        """The last recorded levels of each book."""
        self._heard_ns: dict[StreamKey, int] = {}
        """The time of each stream's last response, until an interruption is marked."""
        self._events: list[Event] = []
        self._room = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_running = self._is_over = False

    @property
    def waiting(self) -> int:
        """Events received and not handed to the recorder yet."""
        return len(self._events)

    def add(self, stream_keys: Iterable[StreamKey]) -> None:
        """Follow these streams too.

        Raises:
            UnknownChannel: the feed does not have one of the channels; nothing was changed.
        """
        wanted, options = list(stream_keys), self._options
        check((channel for channel, _ in wanted), options.exchange, options.feed.channels)
        for stream_key in wanted:
            if stream_key not in self._stream_keys:
                self._stream_keys[stream_key] = (
                    self._begin(stream_key) if self._is_running else None
                )
                if stream_key[0] == BOOK_DELTAS.name:
                    self.feed_state.books[stream_key[1]] = new_book(BookRules(begins="frame"))
        self.feed_state.followed = len(self._stream_keys)
        self._changed.set()

    def remove(self, stream_keys: Iterable[StreamKey]) -> None:
        """Stop following these streams."""
        for stream_key in stream_keys:
            if stream_key in self._stream_keys:
                self._mark([stream_key], "removed", "removed")
            task = self._stream_keys.pop(stream_key, None)
            if task is not None:
                task.cancel()
            if stream_key[0] == BOOK_DELTAS.name:
                self.feed_state.books.pop(stream_key[1], None)
        self.feed_state.followed = len(self._stream_keys)
        self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow and record until ``stop``; then stop the feed, and record what had arrived.

        Raises:
            StorageError: events cannot be recorded.
        """
        flushing = asyncio.create_task(self._flush_forever())
        stopping = asyncio.create_task(stop.wait())
        self._is_running = True
        for stream_key in self._stream_keys:
            self._stream_keys[stream_key] = self._begin(stream_key)
        try:
            while not (stopping.done() or flushing.done() or self._failed()):
                self._changed.clear()
                changing = asyncio.create_task(self._changed.wait())
                await asyncio.wait(
                    [flushing, stopping, changing, *self._tasks()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                changing.cancel()
        finally:
            self._is_over, self.feed_state.state = True, "disconnected"
            self._batching.arrived()  # wakes the writing task, which then ends
            for task in (stopping, *self._tasks()):
                task.cancel()
            await asyncio.wait([stopping, *self._tasks()], timeout=_CANCEL_S)
            await asyncio.wait([flushing])
        for task in (flushing, *self._failed()):
            task.result()
        self._mark(self._stream_keys, "stopped", "stopped")
        await self._flush()

    def _begin(self, stream_key: StreamKey) -> asyncio.Task[None]:
        return asyncio.create_task(self._follow(*stream_key))

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in self._stream_keys.values() if task is not None]

    def _failed(self) -> list[asyncio.Task[None]]:
        """The tasks that ended with an error that is not retried."""
        return [
            task
            for task in self._tasks()
            if task.done() and not task.cancelled() and task.exception() is not None
        ]

    async def _follow(self, channel: str, symbol: Symbol) -> None:
        options, retry = self._options, 0
        while not self._is_over:
            try:
                events = await options.feed.next(channel, symbol, options.levels)
            except _TROUBLE as error:
                if not retry:
                    self._mark([(channel, symbol)], str(error))
                self._note_failure(error, channel, symbol)
                await self._clock.sleep(options.again.delay(retry, random()))
                retry += 1
                continue
            retry, now_ns = 0, self._clock.now_ns()
            self.feed_state.note_answer(now_ns)
            self._heard_ns[channel, symbol] = now_ns
            self._take(events)
            if len(self._events) >= self._flushing.most_waiting:
                self._room.clear()
                await self._room.wait()

    def _mark(
        self, stream_keys: Iterable[StreamKey], reason: str, cause: Cause = "disconnected"
    ) -> None:
        """Record that streams which delivered something may have a gap from now on."""
        exchange, now_ns = self._options.exchange, self._clock.now_ns()
        for stream_key in stream_keys:
            since_ns = self._heard_ns.pop(stream_key, None)
            if since_ns is not None:  # else it is marked already, or never delivered
                marker = Disconnects(exchange, [(stream_key[0], (stream_key[1],))])
                self._events += marker.mark(reason, now_ns, since_ns, cause)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, BookSnapshot) and not self._is_news(event):
                continue
            self._events.append(event)
            self._batching.arrived()

    def _is_news(self, snapshot: BookSnapshot) -> bool:
        """Update the book; return whether its levels differ from those recorded before."""
        symbol, levels = snapshot.symbol, (bytes(snapshot.bids_raw), bytes(snapshot.asks_raw))
        book = self.feed_state.books.get(symbol)
        if book is not None:
            book.begin(snapshot)
        is_news = self._shown.get(symbol) != levels
        self._shown[symbol] = levels
        return is_news

    def _note_failure(self, error: Exception, channel: str, symbol: Symbol) -> None:
        self.feed_state.note_failure(error, (channel, symbol), self._clock.now_ns())
        if channel == BOOK_DELTAS.name and symbol in self.feed_state.books:
            self.feed_state.books[symbol].interrupt(str(error))
        if isinstance(error, ExchangeUnreachable):
            self._emit(ConnectionLost(exchange=self._options.exchange, reason=str(error)))

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
