"""The connections of a shard, and their events without duplicates.

When no connection delivers a stream any more, a ``Disconnect`` marker is delivered for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from penstock.books.book import BookView
from penstock.market.events import Cause, Event
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Command, Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.dedupe import Deduplicator, Note
from penstock.streaming.dialect import Dialect, HasDedupeKeys
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.shard_connection import ConnectionStats, Plan, ShardConnection
from penstock.streaming.wanted import StreamKey, Subscriptions


class ShardConnections:
    """Connections that carry the same streams of one exchange, by number."""

    def __init__(
        self,
        exchange: str,
        dialect: Callable[[], Dialect],
        subscriptions: Sequence[Subscription],
        random: Callable[[], float],
        plan: Plan = Plan(),  # noqa: B008 (frozen)
        *,
        keep_levels: bool = True,
    ) -> None:
        self.exchange, self.plan = exchange, plan
        self._dialect, self._random, self._keep_levels = dialect, random, keep_levels
        self.wanted = Subscriptions(subscriptions)
        self.stats = ConnectionStats()
        self._commands: list[tuple[int, Command]] = []
        self.members: dict[int, ShardConnection] = {}
        """All current connections, by number."""
        self._members_ever = 0
        self.deduplicator = Deduplicator()
        self.primary = self._add_member()
        """The connection whose books count; a live one, if there is any."""

    @property
    def books(self) -> Mapping[Symbol, BookView]:
        """The primary connection's books."""
        return self.primary.connection.books

    @property
    def waiting(self) -> int:
        """The number of events not taken yet."""
        return len(self.deduplicator.passed) + len(self.primary.connection.events)

    def take_events(self) -> list[Event]:
        """Return the events received since the last call, in order, without duplicates."""
        events, self.deduplicator.passed = self.deduplicator.passed, []
        if self.deduplicator.enabled:
            return events
        arrived = self.primary.connection.take_events()
        return events + arrived if events else arrived

    def take_commands(self) -> list[tuple[int, Command]]:
        """Return the commands issued since the last call, in order, with their connections."""
        commands, self._commands = self._commands, []
        return commands

    def _staying(self) -> Iterator[ShardConnection]:
        return (member for member in list(self.members.values()) if not member.leaving)

    def _live(self) -> list[ShardConnection]:
        return [member for member in self.members.values() if member.live]

    def _add_member(self) -> ShardConnection:
        self._members_ever += 1
        dialect = self._dialect()
        if isinstance(dialect, HasDedupeKeys):
            self.deduplicator.replace_keys(dialect.dedupe_keys)
        connection = Connection(
            dialect,
            list(self.wanted),
            self._random,
            backoff=self.plan.reconnect,
            ack_within_s=self.plan.ack_within_s,
            keep_levels=self._keep_levels,
        )
        self.stats.collect_from(connection)
        connection.books.expect_copies(copies=self.deduplicator.enabled)
        member = self.members[self._members_ever] = ShardConnection(self._members_ever, connection)
        return member

    def _set_deduplication(self, *, copies: bool) -> None:
        """Set whether several connections may deliver the same events."""
        if copies:
            self.deduplicator.enable()
        else:
            self.deduplicator.disable()
        for member in self.members.values():
            member.connection.books.expect_copies(copies=copies)

    def _deduplicate(self, member: ShardConnection, note: Note | None) -> None:
        """Deliver the events of a connection that no other has delivered."""
        events = member.connection.take_events()
        self.deduplicator.filter(events, member.number, note, is_primary=member is self.primary)

    def _mark_loss(
        self,
        stream_keys: Iterable[StreamKey],
        member: ShardConnection,
        reason: str,
        at_ns: int,
        cause: Cause = "disconnected",
    ) -> None:
        """Deliver markers for streams that a connection lost and no other delivers."""
        covered = member.connection.failures.refused  # it did not deliver these
        for other in self._live():
            covered |= other.connection.carried() if other is not member else set()
        lost = Subscriptions.of(
            stream_key for stream_key in stream_keys if stream_key not in covered
        )
        markers = Disconnects(self.exchange, [(each.channel, each.symbols) for each in lost])
        delivered = (
            self.deduplicator.passed
            if self.deduplicator.enabled
            else self.primary.connection.events
        )
        delivered += markers.mark(reason, at_ns, member.last_message_ns, cause)
