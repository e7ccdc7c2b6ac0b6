"""Runs all connections of one exchange, with a session for each shard of its streams.

Streams are added and removed without affecting others. A shard is started when it is needed, and
stopped when its last stream is removed.
"""

import asyncio
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from penstock.books.book import BookView
from penstock.books.events import BookEvent
from penstock.collect.session import Endpoint, Session
from penstock.config import Collect
from penstock.market.channels import BOOK_DELTAS
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Dialect
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import RECONNECT, Plan
from penstock.streaming.sharding import Sharding
from penstock.streaming.wanted import StreamKey, Subscriptions

_SILENT_HEARTBEATS = 3
"""A connection that is silent for this many heartbeats counts as dead."""


def endpoint_of(exchange: str, dialect: Dialect, base: str) -> Endpoint:
    """Where to connect to an exchange, given the base address of its streams."""
    limits = dialect.limits
    silence_s = limits.heartbeat_s * _SILENT_HEARTBEATS
    return Endpoint(exchange, dialect.url(base), silence_s, limits.pings_are_life)


def plan_by(settings: Collect) -> Plan:
    """The settings of every shard's connections."""
    return Plan(
        redundancy=settings.redundancy,
        rotate_after_s=settings.rotate_after,
        overlap_s=settings.overlap,
        reconnect=replace(RECONNECT, multiplier=settings.retry_multiplier),
        ack_within_s=settings.ack_timeout,
    )


@dataclass(slots=True)
class _Running:
    session: Session
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class Sessions:
    """Runs as many sessions as the streams of one exchange need."""

    def __init__(self, begin: Callable[[Subscriptions], Session], most: int) -> None:
        """``begin`` makes the session of a new shard; a shard has at most ``most`` streams."""
        self._make, self._sharding = begin, Sharding(most)
        self._sessions: dict[int, _Running] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def shards(self) -> list[Shard]:
        """The shards of all sessions."""
        return [each.session.shard for each in self._sessions.values()]

    def books(self) -> Mapping[Symbol, BookView]:
        """All books, of all shards."""
        # Not copied: a status looks up each book by itself.
        return ChainMap(*[cast("dict[Symbol, BookView]", shard.books) for shard in self.shards])

    def book_event(self, symbol: Symbol, event: BookEvent) -> None:
        """Pass on an event of a book that does not come from its stream."""
        session = self.session_of(BOOK_DELTAS.name, symbol)
        if session is not None:
            session.book_event(symbol, event)

    def session_of(self, channel: str, symbol: Symbol) -> Session | None:
        """The session that carries a stream."""
        number = self._sharding.shard_of((channel, symbol))
        return self._sessions[number].session if number is not None else None

    def connected_since_ns(self, channel: str, symbol: Symbol) -> int | None:
        """When the stream's connection was opened; None while it is not open."""
        session = self.session_of(channel, symbol)
        return session.connected_since_ns() if session is not None else None

    def resubscribe(self, channel: str, symbol: Symbol) -> None:
        """Unsubscribe from a stream and subscribe again."""
        session = self.session_of(channel, symbol)
        if session is not None:
            session.resubscribe(channel, symbol)

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        """Replace the stream's connection by another, without loss."""
        session = self.session_of(channel, symbol)
        if session is not None:
            session.rotate(reason)

    def add(self, stream_keys: Iterable[StreamKey]) -> None:
        """Subscribe to these streams too.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have one of them.
        """
        for number, some in self._sharding.add(stream_keys).items():
            wanted = Subscriptions.of(some)
            if number in self._sessions:
                for each in wanted:
                    self._sessions[number].session.add(each)
            else:
                running = self._sessions[number] = _Running(self._make(wanted))
                if self._group is not None:
                    self._group.create_task(running.session.run(running.stop))

    def remove(self, stream_keys: Iterable[StreamKey]) -> None:
        """Unsubscribe from these streams."""
        for number, some in self._sharding.remove(stream_keys).items():
            running = self._sessions[number]
            for each in Subscriptions.of(some):
                running.session.remove(each)
            if number not in self._sharding.shards:
                del self._sessions[number]
                running.stop.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Stream and record until ``stop``; then close, and record what had arrived.

        Raises:
            StorageError: events cannot be recorded. All connections are closed first.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for running in self._sessions.values():
                    group.create_task(running.session.run(running.stop))
                self._group = group
                await stop.wait()
                self._group = None
                for running in self._sessions.values():
                    running.stop.set()
        except ExceptionGroup as failures:
            # Callers expect the error itself, not the group.
            raise failures.exceptions[0] from None
        finally:
            self._group = None
