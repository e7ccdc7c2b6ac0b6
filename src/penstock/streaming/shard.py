"""A shard carries some streams of one exchange, over enough connections to lose nothing.

Usually that is one connection. Before the exchange closes it, or when the exchange announces that,
another connection is opened beside the old one. The old one is closed only after the new one has
been shown to deliver the same events. With redundancy, several connections run all the time. One
connection is the *primary*: its books are the shard's. An event with a dedupe key is taken from the
connection that delivers it first, an event without one from the primary.

    disconnected ── start ──→ connecting ── opened ──→ connected ←── handed over, given up ──┐
                                  ↑                        │ │ └── old age, a notice ──→ rotating
                                  └──── woken ── reconnecting┘

Like a connection, a shard does no I/O: events go in and commands come out, each with the number of
a connection. Number 0 is the shard itself. A single connection has no extra cost per event.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from penstock.books.commands import CancelFetch, FetchSnapshot
from penstock.books.events import BookEvent
from penstock.market.events import BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Close, Rotate, Subscription, WakeAt
from penstock.streaming.dialect import Dialect
from penstock.streaming.handover import Handover, baselines, better, carry_resyncs
from penstock.streaming.shard_connection import Plan, ShardConnection
from penstock.streaming.shard_connections import ShardConnections
from penstock.streaming.subscribe_requests import SECOND_NS

SHARD = 0
"""The number of the shard itself; all others are of connections."""
_CHECK_NS = SECOND_NS // 5
"""How often the shard checks whether a connection can take over."""
_DEDUPE_AFTER_CLOSE_NS = 10 * SECOND_NS
"""How long a connection may lag behind a closed one: deduplication continues for that long."""
FILL_WITHIN_NS = 2 * SECOND_NS
"""How long a connection may take to deliver what another connection has lost."""
_SPREAD = 0.2
"""The largest share of a connection's lifetime that is randomly subtracted."""

State = Literal["disconnected", "connecting", "connected", "rotating", "reconnecting"]


class Shard(ShardConnections):
    """Some streams of one exchange, and their books."""

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
        super().__init__(exchange, dialect, subscriptions, random, plan, keep_levels=keep_levels)
        self._dedupe_until_ns = 0
        self._handover: Handover | None = None
        self._failed_rotations = self._retry_rotation_ns = 0
        self._next_wake_ns: int | None = None
        self._stopping: list[ShardConnection] = []
        """The connections that were open when the shard was stopped."""

    @property
    def state(self) -> State:
        """The state of the shard as a whole."""
        if self._handover is not None:
            return "rotating"
        return "connected" if self.primary.live else self.primary.connection.state

    def start(self, at_ns: int) -> None:
        """Start; open every connection of the plan."""
        for _ in range(self.plan.redundancy - len(self.members)):
            self._add_member()
        if len(self.members) > 1:
            self._start_deduplicating()
        for member in self.members.values():
            member.connection.start()
            self._forward(member, at_ns)

    def opened(self, number: int, at_ns: int) -> None:
        """Handle a connection's opened socket."""
        member = self.members.get(number)
        if member is None or member.leaving:
            # Too late: the connection is no longer needed.
            self._commands.append((number, Close("not wanted any more")))
            return
        member.opened_ns = member.last_message_ns = at_ns
        member.history.opened(at_ns)
        life_s = self.plan.rotate_after_s * (1 - _SPREAD * self._random())
        member.rotate_at_ns = at_ns + round(life_s * SECOND_NS)
        member.connection.opened(at_ns)
        self._forward(member, at_ns)
        self._choose_primary(at_ns)
        self._plan_wake(at_ns)

    def received_many(self, number: int, frames: Sequence[bytes | str], at_ns: list[int]) -> None:
        """Handle frames of a connection, each with its receive time."""
        member = self.members.get(number)
        if member is None or not frames:
            return
        connection, now_ns = member.connection, at_ns[-1]
        connection.received_many(frames, at_ns)
        member.last_message_ns = now_ns
        member.history.messages += len(frames)
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
        if connection.commands:
            self._forward(member, now_ns)
        if self.deduplicator.enabled:
            self._advance(now_ns)

    def closed(self, number: int, reason: str, at_ns: int) -> None:
        """Handle a connection's closed socket, or its failed connect."""
        member = self.members.get(number)
        if member is None or (member.connection.state == "disconnected" and not member.leaving):
            return
        handover, was_live = self._handover, member.live
        if member.leaving:
            self._forget(member, at_ns)
        elif handover is not None and number == handover.new:
            self._give_up(reason, at_ns)
            self._forget(member, at_ns)
        else:
            self.stats.reconnects[reason] += 1
            if handover is not None and number == handover.old:
                # It closed before the handover was complete: only the new connection is left.
                self._handover = None
                member.history.closed(reason, at_ns)
                self.members[handover.new].history.replaces(member.history, reason)
                self._forget(member, at_ns)
            else:
                member.lost(reason, at_ns)
                self._forward(member, at_ns)
        if was_live:
            self._mark_loss(self.wanted.stream_keys(), member, reason, at_ns)
        self._choose_primary(at_ns)
        self._advance(at_ns)
        self._plan_wake(at_ns)

    def woken(self, number: int, at_ns: int) -> None:
        """Do what is due at this time, for a connection or for the shard."""
        member = self.members.get(number)
        if member is not None and not member.leaving:
            member.connection.woken(at_ns)
            self._forward(member, at_ns)
        elif number == SHARD:
            if self._next_wake_ns is not None and at_ns >= self._next_wake_ns:
                self._next_wake_ns = None
            self._advance(at_ns)
            self._rotate_old(at_ns)
            self._plan_wake(at_ns)

    def snapshot_arrived(self, number: int, snapshot: BookSnapshot, at_ns: int) -> None:
        """Handle a requested snapshot."""
        member = self.members.get(number)
        if member is not None:
            member.connection.snapshot_arrived(snapshot)
            if self.deduplicator.enabled:
                self._deduplicate_member(member)
            self._forward(member, at_ns)

    def snapshot_failed(self, number: int, symbol: Symbol, at_ns: int) -> None:
        """Handle a failed snapshot request."""
        member = self.members.get(number)
        if member is not None:
            member.connection.snapshot_failed(symbol)
            self._forward(member, at_ns)

    def book_event(self, symbol: Symbol, event: BookEvent, at_ns: int) -> None:
        """Handle an event of a book that does not come from its stream."""
        self.primary.connection.book_event(symbol, event, at_ns)
        self._forward(self.primary, at_ns)

    def rotate(self, reason: str, at_ns: int) -> None:
        """Replace the primary connection, if it is open; one rotation at a time."""
        self._rotate(self.primary, reason, at_ns)

    def add(self, wanted: Subscription, at_ns: int) -> None:
        """Add streams.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have it; nothing was changed.
        """
        for member in self._staying():
            member.connection.add(wanted, at_ns)
            self._forward(member, at_ns)
        self.wanted.add(wanted)

    def remove(self, wanted: Subscription, at_ns: int) -> None:
        """Remove streams."""
        self.wanted.remove(wanted)
        stream_keys = [(wanted.channel, symbol) for symbol in wanted.symbols]
        for member in self._staying():
            member.connection.remove(wanted, at_ns)
            self._forward(member, at_ns)
        self._mark_loss(stream_keys, self.primary, "removed", at_ns, "removed")

    def resubscribe(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """Unsubscribe a stream on the primary connection and subscribe again."""
        self.primary.connection.resubscribe(channel, symbol, at_ns)
        self._forward(self.primary, at_ns)

    def stop(self) -> None:
        """Close all connections for good. What still arrives on them is handled as before."""
        self._handover = None
        self._stopping = self._live()
        for member in self.members.values():
            self._leave(member, "stopped")

    def stopped(self, at_ns: int) -> None:
        """Handle that all sockets are closed. Markers must come after all that was received."""
        if self._stopping:
            latest = max(self._stopping, key=lambda member: member.last_message_ns or 0)
            self._mark_loss(self.wanted.stream_keys(), latest, "stopped", at_ns, "stopped")

    def _start_deduplicating(self) -> None:
        self._set_deduplication(copies=True)
        self._deduplicate_member(self.primary)

    def _fill_gaps(self, at_ns: int) -> None:
        """Fill gaps of each connection from the others; replace a primary that lost a book."""
        live = self._live()
        for member in self._staying():
            if member.connection.books.holes:
                others = [other.connection for other in live if other is not member]
                member.connection.fill_holes(others, at_ns - FILL_WITHIN_NS)
                self._forward(member, at_ns)
        if any(member.connection.books.holes for member in live):
            self._plan_wake(at_ns)
        if self.primary.connection.beginning and (found := better(self.primary, live)) is not None:
            self._make_primary(found, at_ns)

    def _deduplicate_member(self, member: ShardConnection) -> None:
        self._deduplicate(member, self._handover.note if self._handover is not None else None)

    def _forward(self, member: ShardConnection, at_ns: int) -> None:
        """Forward a connection's commands, except those that the shard executes itself."""
        for stream_key, reason, cause in member.connection.take_interruptions():
            self._mark_loss([stream_key], member, reason, at_ns, cause)
        for command in member.connection.take_commands():
            if isinstance(command, Rotate):
                self._rotate(member, command.reason, at_ns)
            elif member.leaving and not isinstance(command, Close):
                continue
            elif isinstance(command, CancelFetch) and command.symbol in member.joining:
                del member.joining[command.symbol]
            elif isinstance(command, FetchSnapshot) and member.wait_for(
                self.primary, command.symbol, at_ns
            ):
                self._plan_wake(at_ns)
            else:
                self._commands.append((member.number, command))

    def _sort_last(self, member: ShardConnection) -> None:
        """Forward the last commands of a connection that is no longer used."""
        for command in member.connection.take_commands():
            if isinstance(command, Close | CancelFetch):
                self._commands.append((member.number, command))

    def _join_books(self, at_ns: int) -> None:
        for member in self._staying():
            if member.joining:
                fetch = member.join_books(self.primary, at_ns)
                self._commands += [(member.number, command) for command in fetch]

    def _choose_primary(self, at_ns: int) -> None:
        """Make a live connection the primary, if there is one."""
        if self.primary.live:
            return
        staying = list(self._staying())
        live = [member for member in staying if member.live]
        if live:
            self._make_primary(max(live, key=lambda member: member.synced_books), at_ns)
        elif staying and self.primary not in staying:
            self.primary = staying[0]

    def _make_primary(self, member: ShardConnection, at_ns: int) -> None:
        """Change the primary; where books have no update ids, its books become new baselines."""
        carry_resyncs(self.primary, member)
        self.primary = member
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
            self.deduplicator.passed += baselines(self.exchange, member.connection, at_ns)
        self._join_books(at_ns)

    def _advance(self, at_ns: int) -> None:
        """Fill gaps, join books and advance the handover, as far as possible now."""
        if not self.deduplicator.enabled:
            return
        self._fill_gaps(at_ns)
        self._join_books(at_ns)
        handover = self._handover
        if handover is not None:
            new = self.members[handover.new]
            if handover.ready(self.members[handover.old].connection, new.connection, at_ns):
                self._finish(handover, new, at_ns)
            elif at_ns >= handover.until_ns:
                self._give_up("it did not take over in time", at_ns)
                self._leave(new, "given up")
        elif len(self.members) == 1 and at_ns >= self._dedupe_until_ns:
            self._set_deduplication(copies=False)

    def _rotate_old(self, at_ns: int) -> None:
        for member in self._staying():
            if member.rotate_at_ns is not None and at_ns >= member.rotate_at_ns:
                self._rotate(member, "old age", at_ns)

    def _rotate(self, old: ShardConnection, reason: str, at_ns: int) -> None:
        handover = self._handover
        if not old.live:
            return  # a closed connection is reopened in any case
        if handover is None and at_ns < self._retry_rotation_ns:
            old.rotate_at_ns = self._retry_rotation_ns
            self._plan_wake(at_ns)
        elif handover is None:
            self._start_deduplicating()
            new = self._add_member()
            old.rotate_at_ns = None
            overlap_ns = round(self.plan.overlap_s * SECOND_NS)
            until_ns = at_ns + overlap_ns + round(self.plan.takeover_timeout_s * SECOND_NS)
            self._handover = Handover(old.number, new.number, reason, until_ns, overlap_ns)
            new.connection.start()
            self._forward(new, at_ns)
            self._plan_wake(at_ns)
        elif old.number == handover.new:
            self._give_up(reason, at_ns)
            self._leave(old, reason)
        elif old.number != handover.old:
            old.rotate_at_ns = at_ns  # after the current rotation

    def _finish(self, handover: Handover, new: ShardConnection, at_ns: int) -> None:
        self._handover, self._failed_rotations = None, 0
        self.stats.rotations[handover.reason] += 1
        old = self.members[handover.old]
        new.history.replaces(old.history, handover.reason)
        if old is self.primary:
            self._make_primary(new, at_ns)
        self._leave(old, handover.reason)
        self._plan_wake(at_ns)

    def _give_up(self, reason: str, at_ns: int) -> None:
        """Give up the handover: keep the old connection, and retry later."""
        handover, self._handover = self._handover, None
        assert handover is not None
        self.stats.given_up[reason] += 1
        pause_s = self.plan.rotate_again.delay(self._failed_rotations, self._random())
        self._failed_rotations += 1
        self._retry_rotation_ns = at_ns + round(pause_s * SECOND_NS)
        self.members[handover.old].rotate_at_ns = self._retry_rotation_ns

    def _leave(self, member: ShardConnection, reason: str) -> None:
        if not member.leaving:
            member.leaving = True
            member.connection.stop(reason)
            self._sort_last(member)

    def _forget(self, member: ShardConnection, at_ns: int) -> None:
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
        member.connection.books.cancel_fetches()
        self._sort_last(member)
        del self.members[member.number]
        member.leaving = True
        self._dedupe_until_ns = at_ns + _DEDUPE_AFTER_CLOSE_NS

    def _plan_wake(self, at_ns: int) -> None:
        """Request a wake-up for the next due action."""
        due: list[int] = []
        members = self.members.values()
        if self._handover is not None or any(
            member.joining or member.connection.books.holes for member in members
        ):
            due = [at_ns + _CHECK_NS]
        if self._handover is None:
            due += [
                member.rotate_at_ns for member in self._staying() if member.rotate_at_ns is not None
            ]
        if self.deduplicator.enabled and len(self.members) == 1:
            due.append(self._dedupe_until_ns)
        next_ns = min(due, default=None)
        if next_ns is not None and (self._next_wake_ns is None or next_ns < self._next_wake_ns):
            self._next_wake_ns = next_ns
            self._commands.append((SHARD, WakeAt(next_ns)))
