"""A shard: some streams of one exchange, over as many connections as it takes to lose nothing.

Usually one connection carries them. Before the exchange ends a connection, or when
it says that it will, another connection is opened beside the old one; the old one is closed only
after the new one has shown that it brings the same. Where redundancy is wanted several connections
run all the time. One connection is the *primary*: its books are the shard's. What can be told apart
by a key is taken from whichever connection brings it first, the rest from the primary.

    disconnected ── start ──→ connecting ── opened ──→ connected ←── handed over, given up ──┐
                                  ↑                        │ │ └── old age, a notice ──→ rotating
                                  └──── woken ── reconnecting┘

Like a connection it does nothing itself: events go in with the number of a connection, commands
come out with one. Number 0 is the shard's own. While one connection is open nothing is added to its
path.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from penstock.market.events import BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Close, FetchSnapshot, Rotate, Subscription, WakeAt
from penstock.streaming.dialect import Dialect
from penstock.streaming.handover import Handover, baselines, better, carry_resyncs
from penstock.streaming.shard_connection import Plan, ShardConnection
from penstock.streaming.shard_connections import ShardConnections
from penstock.streaming.subscribe_requests import SECOND_NS

SHARD = 0
"""The number of the shard itself, where others are of connections."""
_CHECK_NS = SECOND_NS // 5
"""How often it is looked whether a connection can take over."""
_LINGER_NS = 10 * SECOND_NS
"""How long a connection may lag behind one that is gone: so long copies are looked for after it."""
FILL_WITHIN_NS = 2 * SECOND_NS
"""How long a connection may take to bring what another connection has lost."""
_SPREAD = 0.2
"""The share of a connection's life that chance takes off."""

State = Literal["disconnected", "connecting", "connected", "rotating", "reconnecting"]


class Shard(ShardConnections):
    """Some streams of one exchange, and the books they carry."""

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
        self._lingers_ns = 0
        self._handover: Handover | None = None
        self._failed_rotations = self._again_ns = 0
        self._wakes_ns: int | None = None

    @property
    def state(self) -> State:
        """How it is with the shard as a whole."""
        if self._handover is not None:
            return "rotating"
        return "connected" if self.primary.live else self.primary.connection.state

    def start(self, at_ns: int) -> None:
        """Begin: open every connection that is wanted."""
        for _ in range(self.plan.redundancy - len(self.members)):
            self._add_member()
        if len(self.members) > 1:
            self._start_deduplicating()
        for member in self.members.values():
            member.connection.start()
            self._sort(member, at_ns)

    def opened(self, number: int, at_ns: int) -> None:
        """A connection's socket is open."""
        member = self.members.get(number)
        if member is None or member.leaving:
            # Too late: nobody wants it any more.
            self._commands.append((number, Close("not wanted any more")))
            return
        member.opened_ns = member.heard_ns = at_ns
        life_s = self.plan.rotate_after_s * (1 - _SPREAD * self._random())
        member.rotates_ns = at_ns + round(life_s * SECOND_NS)
        member.connection.opened(at_ns)
        self._sort(member, at_ns)
        self._choose_primary(at_ns)
        self._plan_wake(at_ns)

    def received_many(self, number: int, frames: Sequence[bytes | str], at_ns: list[int]) -> None:
        """Frames arrived on a connection, each at its instant."""
        member = self.members.get(number)
        if member is None or not frames:
            return
        connection, now_ns = member.connection, at_ns[-1]
        connection.received_many(frames, at_ns)
        member.heard_ns = now_ns
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
        if connection.commands:
            self._sort(member, now_ns)
        if self.deduplicator.enabled:
            self._go_on(now_ns)

    def closed(self, number: int, reason: str, at_ns: int) -> None:
        """A connection's socket is closed, or could not be opened."""
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
                # It went before its time: the new connection is all there is.
                self._handover = None
                self._forget(member, at_ns)
            else:
                member.lost(reason, at_ns)
                self._sort(member, at_ns)
        if was_live:
            self._mark_loss(self.wanted.stream_keys(), member, reason, at_ns)
        self._choose_primary(at_ns)
        self._go_on(at_ns)
        self._plan_wake(at_ns)

    def woken(self, number: int, at_ns: int) -> None:
        """Time has passed, for a connection or for the shard."""
        member = self.members.get(number)
        if member is not None and not member.leaving:
            member.connection.woken(at_ns)
            self._sort(member, at_ns)
        elif number == SHARD:
            if self._wakes_ns is not None and at_ns >= self._wakes_ns:
                self._wakes_ns = None
            self._go_on(at_ns)
            self._rotate_old(at_ns)
            self._plan_wake(at_ns)

    def snapshot_arrived(self, number: int, snapshot: BookSnapshot, at_ns: int) -> None:
        """A book that was asked for."""
        member = self.members.get(number)
        if member is not None:
            member.connection.snapshot_arrived(snapshot)
            if self.deduplicator.enabled:
                self._deduplicate_member(member)
            self._sort(member, at_ns)

    def snapshot_failed(self, number: int, symbol: Symbol, at_ns: int) -> None:
        """A book could not be had."""
        member = self.members.get(number)
        if member is not None:
            member.connection.snapshot_failed(symbol)
            self._sort(member, at_ns)

    def rotate(self, reason: str, at_ns: int) -> None:
        """Replace the primary connection, if it is open; one at a time."""
        self._rotate(self.primary, reason, at_ns)

    def add(self, wanted: Subscription, at_ns: int) -> None:
        """Stream this too.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have it; nothing was changed.
        """
        for member in self._staying():
            member.connection.add(wanted, at_ns)
            self._sort(member, at_ns)
        self.wanted.add(wanted)

    def remove(self, wanted: Subscription, at_ns: int) -> None:
        """Stream this no longer."""
        self.wanted.remove(wanted)
        stream_keys = [(wanted.channel, symbol) for symbol in wanted.symbols]
        for member in self._staying():
            member.connection.remove(wanted, at_ns)
            if wanted.channel == "book_deltas":
                for symbol in wanted.symbols:
                    member.joining.pop(symbol, None)
            self._sort(member, at_ns)
        self._mark_loss(stream_keys, self.primary, "removed", at_ns, "removed")

    def resubscribe(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """End a stream on the primary connection, and ask for it again."""
        self.primary.connection.resubscribe(channel, symbol, at_ns)
        self._sort(self.primary, at_ns)

    def stop(self, at_ns: int) -> None:
        """End for good."""
        self._handover = None
        live = self._live()
        for member in self.members.values():
            self._leave(member, "stopped")
        if live:
            latest = max(live, key=lambda member: member.heard_ns or 0)
            self._mark_loss(self.wanted.stream_keys(), latest, "stopped", at_ns, "stopped")

    def _start_deduplicating(self) -> None:
        self._expect_copies(copies=True)
        self._deduplicate_member(self.primary)

    def _fill_holes(self, at_ns: int) -> None:
        """Let every connection take what it lost from the others; lost books likewise."""
        live = self._live()
        for member in self._staying():
            if member.connection.books.holes:
                others = [other.connection for other in live if other is not member]
                member.connection.fill_holes(others, at_ns - FILL_WITHIN_NS)
                self._sort(member, at_ns)
        if any(member.connection.books.holes for member in live):
            self._plan_wake(at_ns)
        if self.primary.connection.beginning and (found := better(self.primary, live)) is not None:
            self._make_primary(found, at_ns)

    def _deduplicate_member(self, member: ShardConnection) -> None:
        self._deduplicate(member, self._handover.note if self._handover is not None else None)

    def _sort(self, member: ShardConnection, at_ns: int) -> None:
        """Pass a connection's commands on, but for what the shard does itself."""
        for stream_key, reason, cause in member.connection.take_interruptions():
            self._mark_loss([stream_key], member, reason, at_ns, cause)
        for command in member.connection.take_commands():
            if isinstance(command, Rotate):
                self._rotate(member, command.reason, at_ns)
            elif member.leaving and not isinstance(command, Close):
                continue
            elif isinstance(command, FetchSnapshot) and member.wait_for(
                self.primary, command.symbol, at_ns
            ):
                self._plan_wake(at_ns)
            else:
                self._commands.append((member.number, command))

    def _join_books(self, at_ns: int) -> None:
        for member in self._staying():
            if member.joining:
                fetch = member.join_books(self.primary, at_ns)
                self._commands += [(member.number, command) for command in fetch]

    def _choose_primary(self, at_ns: int) -> None:
        """See to it that a live connection leads, if there is one."""
        if self.primary.live:
            return
        staying = list(self._staying())
        live = [member for member in staying if member.live]
        if live:
            self._make_primary(max(live, key=lambda member: member.synced_books), at_ns)
        elif staying and self.primary not in staying:
            self.primary = staying[0]

    def _make_primary(self, member: ShardConnection, at_ns: int) -> None:
        """Pass the lead over; where books have no numbers, the new one's are a new beginning."""
        carry_resyncs(self.primary, member)
        self.primary = member
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
            self.deduplicator.passed += baselines(self.exchange, member.connection, at_ns)
        self._join_books(at_ns)

    def _go_on(self, at_ns: int) -> None:
        """Do what others have made possible."""
        if not self.deduplicator.enabled:
            return
        self._fill_holes(at_ns)
        self._join_books(at_ns)
        handover = self._handover
        if handover is not None:
            new = self.members[handover.new]
            if handover.ready(self.members[handover.old].connection, new.connection, at_ns):
                self._finish(handover, new, at_ns)
            elif at_ns >= handover.until_ns:
                self._give_up("it did not take over in time", at_ns)
                self._leave(new, "given up")
        elif len(self.members) == 1 and at_ns >= self._lingers_ns:
            self._expect_copies(copies=False)

    def _rotate_old(self, at_ns: int) -> None:
        for member in self._staying():
            if member.rotates_ns is not None and at_ns >= member.rotates_ns:
                self._rotate(member, "old age", at_ns)

    def _rotate(self, old: ShardConnection, reason: str, at_ns: int) -> None:
        handover = self._handover
        if not old.live:
            return  # what is not open is opened anew in any case
        if handover is None and at_ns < self._again_ns:
            old.rotates_ns = self._again_ns
            self._plan_wake(at_ns)
        elif handover is None:
            self._start_deduplicating()
            new = self._add_member()
            old.rotates_ns = None
            overlap_ns = round(self.plan.overlap_s * SECOND_NS)
            until_ns = at_ns + overlap_ns + round(self.plan.takeover_timeout_s * SECOND_NS)
            self._handover = Handover(old.number, new.number, reason, until_ns, overlap_ns)
            new.connection.start()
            self._sort(new, at_ns)
            self._plan_wake(at_ns)
        elif old.number == handover.new:
            self._give_up(reason, at_ns)
            self._leave(old, reason)
        elif old.number != handover.old:
            old.rotates_ns = at_ns  # its turn comes

    def _finish(self, handover: Handover, new: ShardConnection, at_ns: int) -> None:
        self._handover, self._failed_rotations = None, 0
        self.stats.rotations[handover.reason] += 1
        old = self.members[handover.old]
        if old is self.primary:
            self._make_primary(new, at_ns)
        self._leave(old, handover.reason)
        self._plan_wake(at_ns)

    def _give_up(self, reason: str, at_ns: int) -> None:
        """Keep the old connection, and try later."""
        handover, self._handover = self._handover, None
        assert handover is not None
        self.stats.given_up[reason] += 1
        pause_s = self.plan.rotate_again.delay(self._failed_rotations, self._random())
        self._failed_rotations += 1
        self._again_ns = at_ns + round(pause_s * SECOND_NS)
        self.members[handover.old].rotates_ns = self._again_ns

    def _leave(self, member: ShardConnection, reason: str) -> None:
        if not member.leaving:
            member.leaving = True
            member.connection.stop(reason)
            asked = member.connection.take_commands()
            self._commands += [(member.number, each) for each in asked if isinstance(each, Close)]

    def _forget(self, member: ShardConnection, at_ns: int) -> None:
        if self.deduplicator.enabled:
            self._deduplicate_member(member)
        del self.members[member.number]
        member.leaving = True
        self._lingers_ns = at_ns + _LINGER_NS

    def _plan_wake(self, at_ns: int) -> None:
        """Ask to be woken for what is to be done next."""
        due: list[int] = []
        members = self.members.values()
        if self._handover is not None or any(
            member.joining or member.connection.books.holes for member in members
        ):
            due = [at_ns + _CHECK_NS]
        if self._handover is None:
            due += [
                member.rotates_ns for member in self._staying() if member.rotates_ns is not None
            ]
        if self.deduplicator.enabled and len(self.members) == 1:
            due.append(self._lingers_ns)
        next_ns = min(due, default=None)
        if next_ns is not None and (self._wakes_ns is None or next_ns < self._wakes_ns):
            self._wakes_ns = next_ns
            self._commands.append((SHARD, WakeAt(next_ns)))
