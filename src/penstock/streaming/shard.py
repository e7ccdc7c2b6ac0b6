"""A shard: some streams of one exchange, over as many connections as it takes to lose nothing.

Usually one *leg* (a connection) carries them. Before the exchange ends a connection, or when it
says that it will, another leg is opened beside the old one; the old one is closed only after the
new one has shown that it brings the same. Where redundancy is wanted several legs run all the time.
One leg *leads*: its books are the shard's. What can be told apart by a key is taken from whichever
leg brings it first, the rest from the leading one.

    disconnected ── start ──→ connecting ── opened ──→ connected ←── handed over, given up ──┐
                                  ↑                        │ │ └── old age, a notice ──→ rotating
                                  └──── woken ── reconnecting┘

Like a connection it does nothing itself: events go in with the number of a leg, commands come out
with one. Number 0 is the shard's own. While one leg is open nothing is added to its path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.asking import SECOND_NS
from penstock.streaming.book_sync import BookSync
from penstock.streaming.commands import Close, Command, FetchSnapshot, Rotate, Subscription, WakeAt
from penstock.streaming.connection import Connection
from penstock.streaming.dedupe import Sieve
from penstock.streaming.dialect import Dialect, KnowsTwins
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.handover import Handover, baselines, carry_resyncs
from penstock.streaming.leg import Leg, Plan, Tally
from penstock.streaming.streamed_book import StreamedBook
from penstock.streaming.wanted import Subscriptions

SHARD = 0
"""The number of the shard itself, where others are of legs."""
_LOOK_NS = SECOND_NS // 5
"""How often it is looked whether a leg can take over."""
_LINGER_NS = 10 * SECOND_NS
"""How long a leg may lag behind one that is gone: so long copies are looked for after it."""
_SPREAD = 0.2
"""The share of a leg's life that chance takes off."""

State = Literal["disconnected", "connecting", "connected", "rotating", "reconnecting"]


class Shard:
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
        self.exchange, self.plan = exchange, plan
        self._dialect, self._random, self._keep_levels = dialect, random, keep_levels
        self.wanted = Subscriptions(subscriptions)
        self.tally = Tally()
        self._commands: list[tuple[int, Command]] = []
        self.legs: dict[int, Leg] = {}
        """All connections there are, by number."""
        self._legs_ever = 0
        self.sieve = Sieve()
        self._lingers_ns = 0
        self._handover: Handover | None = None
        self._vain = self._again_ns = 0
        self._wakes_ns: int | None = None
        self.lead = self._add_leg()
        """The one whose books count; a live one, if there is any."""

    @property
    def state(self) -> State:
        """How it is with the shard as a whole."""
        if self._handover is not None:
            return "rotating"
        return "connected" if self.lead.live else self.lead.connection.state

    @property
    def books(self) -> Mapping[Symbol, BookSync | StreamedBook]:
        """The leading leg's."""
        return self.lead.connection.books

    @property
    def waiting(self) -> int:
        """How many events were not taken yet."""
        return len(self.sieve.passed) + len(self.lead.connection.events)

    def start(self, at_ns: int) -> None:
        """Begin: open every leg that is wanted."""
        for _ in range(self.plan.redundancy - len(self.legs)):
            self._add_leg()
        if len(self.legs) > 1:
            self._look_for_twins()
        for leg in self.legs.values():
            leg.connection.start()
            self._sort(leg, at_ns)

    def opened(self, number: int, at_ns: int) -> None:
        """A leg's socket is open."""
        leg = self.legs.get(number)
        if leg is None or leg.leaving:
            # Too late: nobody wants it any more.
            self._commands.append((number, Close("not wanted any more")))
            return
        leg.opened_ns = leg.heard_ns = at_ns
        life_s = self.plan.rotate_after_s * (1 - _SPREAD * self._random())
        leg.rotates_ns = at_ns + round(life_s * SECOND_NS)
        leg.connection.opened(at_ns)
        self._sort(leg, at_ns)
        self._choose_lead(at_ns)
        self._plan_wake(at_ns)

    def received_many(self, number: int, frames: Sequence[bytes | str], at_ns: list[int]) -> None:
        """Frames arrived on a leg, each at its instant."""
        leg = self.legs.get(number)
        if leg is None or not frames:
            return
        connection, now_ns = leg.connection, at_ns[-1]
        connection.received_many(frames, at_ns)
        leg.heard_ns = now_ns
        if self.sieve.in_use:
            self._sift(leg)
        if connection.commands:
            self._sort(leg, now_ns)
        if self.sieve.in_use:
            self._go_on(now_ns)

    def closed(self, number: int, reason: str, at_ns: int) -> None:
        """A leg's socket is closed, or could not be opened."""
        leg = self.legs.get(number)
        if leg is None or (leg.connection.state == "disconnected" and not leg.leaving):
            return
        handover, was_live = self._handover, leg.live
        if leg.leaving:
            self._forget(leg, at_ns)
        elif handover is not None and number == handover.new:
            self._give_up(reason, at_ns)
            self._forget(leg, at_ns)
        else:
            self.tally.reconnects[reason] += 1
            if handover is not None and number == handover.old:
                # It went before its time: the new leg is all there is.
                self._handover = None
                self._forget(leg, at_ns)
            else:
                leg.lost(reason, at_ns)
                self._sort(leg, at_ns)
        if was_live and not any(each.live for each in self.legs.values()):
            self._mark_loss(reason, at_ns)
        self._choose_lead(at_ns)
        self._go_on(at_ns)
        self._plan_wake(at_ns)

    def woken(self, number: int, at_ns: int) -> None:
        """Time has passed, for a leg or for the shard."""
        leg = self.legs.get(number)
        if leg is not None and not leg.leaving:
            leg.connection.woken(at_ns)
            self._sort(leg, at_ns)
        elif number == SHARD:
            if self._wakes_ns is not None and at_ns >= self._wakes_ns:
                self._wakes_ns = None
            self._go_on(at_ns)
            self._rotate_old(at_ns)
            self._plan_wake(at_ns)

    def snapshot_arrived(self, number: int, snapshot: BookSnapshot, at_ns: int) -> None:
        """A book that was asked for."""
        leg = self.legs.get(number)
        if leg is not None:
            leg.connection.snapshot_arrived(snapshot)
            if self.sieve.in_use:
                self._sift(leg)
            self._sort(leg, at_ns)

    def snapshot_failed(self, number: int, symbol: Symbol, at_ns: int) -> None:
        """A book could not be had."""
        leg = self.legs.get(number)
        if leg is not None:
            leg.connection.snapshot_failed(symbol)
            self._sort(leg, at_ns)

    def rotate(self, reason: str, at_ns: int) -> None:
        """Replace the leading leg, if it is open; one at a time."""
        self._rotate(self.lead, reason, at_ns)

    def add(self, wanted: Subscription, at_ns: int) -> None:
        """Stream this too.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have it; nothing was changed.
        """
        for leg in self._staying():
            leg.connection.add(wanted, at_ns)
            self._sort(leg, at_ns)
        self.wanted.add(wanted)

    def remove(self, wanted: Subscription, at_ns: int) -> None:
        """Stream this no longer."""
        self.wanted.remove(wanted)
        for leg in self._staying():
            leg.connection.remove(wanted, at_ns)
            if wanted.channel == "book_deltas":
                for symbol in wanted.symbols:
                    leg.joining.pop(symbol, None)
            self._sort(leg, at_ns)

    def ask_anew(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """End a stream on the leading leg, and ask for it again."""
        self.lead.connection.ask_anew(channel, symbol, at_ns)
        self._sort(self.lead, at_ns)

    def stop(self) -> None:
        """End for good."""
        self._handover = None
        for leg in self.legs.values():
            self._leave(leg, "stopped")

    def take_events(self) -> list[AnyEvent]:
        """What was received since the last call, in order, each once."""
        events, self.sieve.passed = self.sieve.passed, []
        if self.sieve.in_use:
            return events
        arrived = self.lead.connection.take_events()
        return events + arrived if events else arrived

    def take_commands(self) -> list[tuple[int, Command]]:
        """What is to be done since the last call, in order, and by which leg."""
        commands, self._commands = self._commands, []
        return commands

    def _staying(self) -> Iterator[Leg]:
        return (leg for leg in list(self.legs.values()) if not leg.leaving)

    def _add_leg(self) -> Leg:
        self._legs_ever += 1
        dialect = self._dialect()
        if isinstance(dialect, KnowsTwins):
            self.sieve.key_of = dialect.twin_key
        connection = Connection(
            dialect,
            list(self.wanted),
            self._random,
            backoff=self.plan.reconnect,
            ack_within_s=self.plan.ack_within_s,
            keep_levels=self._keep_levels,
        )
        self.tally.gather(connection)
        leg = self.legs[self._legs_ever] = Leg(self._legs_ever, connection)
        return leg

    def _look_for_twins(self) -> None:
        self.sieve.use()
        self._sift(self.lead)

    def _sift(self, leg: Leg) -> None:
        """Deliver what a leg brought and no other has."""
        note = self._handover.note if self._handover is not None else None
        events = leg.connection.take_events()
        self.sieve.sift(events, leg.number, note, leads=leg is self.lead)

    def _sort(self, leg: Leg, at_ns: int) -> None:
        """Pass a leg's commands on, but for what the shard does itself."""
        for command in leg.connection.take_commands():
            if isinstance(command, Rotate):
                self._rotate(leg, command.reason, at_ns)
            elif leg.leaving and not isinstance(command, Close):
                continue
            elif isinstance(command, FetchSnapshot) and leg.wait_for(
                self.lead, command.symbol, at_ns
            ):
                self._plan_wake(at_ns)
            else:
                self._commands.append((leg.number, command))

    def _join_books(self, at_ns: int) -> None:
        for leg in self._staying():
            if leg.joining:
                fetch = leg.join_books(self.lead, at_ns)
                self._commands += [(leg.number, command) for command in fetch]

    def _mark_loss(self, reason: str, at_ns: int) -> None:
        """Deliver for every symbol that the only way it came by was lost."""
        lost = Disconnects(self.exchange, [(each.channel, each.symbols) for each in self.wanted])
        delivered = self.sieve.passed if self.sieve.in_use else self.lead.connection.events
        delivered += lost.mark(reason, at_ns)

    def _choose_lead(self, at_ns: int) -> None:
        """See to it that a live leg leads, if there is one."""
        if self.lead.live:
            return
        staying = list(self._staying())
        live = [leg for leg in staying if leg.live]
        if live:
            self._lead_by(max(live, key=lambda leg: leg.synced_books), at_ns)
        elif staying and self.lead not in staying:
            self.lead = staying[0]

    def _lead_by(self, leg: Leg, at_ns: int) -> None:
        """Pass the lead over; where books have no numbers, the new one's are a new beginning."""
        carry_resyncs(self.lead, leg)
        self.lead = leg
        if self.sieve.in_use:
            self._sift(leg)
            self.sieve.passed += baselines(self.exchange, leg.connection, at_ns)
        self._join_books(at_ns)

    def _go_on(self, at_ns: int) -> None:
        """Do what others have made possible."""
        if not self.sieve.in_use:
            return
        self._join_books(at_ns)
        handover = self._handover
        if handover is not None:
            new = self.legs[handover.new]
            if handover.ready(self.legs[handover.old].connection, new.connection, at_ns):
                self._finish(handover, new, at_ns)
            elif at_ns >= handover.until_ns:
                self._give_up("it did not take over in time", at_ns)
                self._leave(new, "given up")
        elif len(self.legs) == 1 and at_ns >= self._lingers_ns:
            self.sieve.put_away()

    def _rotate_old(self, at_ns: int) -> None:
        for leg in self._staying():
            if leg.rotates_ns is not None and at_ns >= leg.rotates_ns:
                self._rotate(leg, "old age", at_ns)

    def _rotate(self, old: Leg, reason: str, at_ns: int) -> None:
        handover = self._handover
        if not old.live:
            return  # what is not open is opened anew in any case
        if handover is None and at_ns < self._again_ns:
            old.rotates_ns = self._again_ns
            self._plan_wake(at_ns)
        elif handover is None:
            self._look_for_twins()
            new = self._add_leg()
            old.rotates_ns = None
            overlap_ns = round(self.plan.overlap_s * SECOND_NS)
            until_ns = at_ns + overlap_ns + round(self.plan.patience_s * SECOND_NS)
            self._handover = Handover(old.number, new.number, reason, until_ns, overlap_ns)
            new.connection.start()
            self._sort(new, at_ns)
            self._plan_wake(at_ns)
        elif old.number == handover.new:
            self._give_up(reason, at_ns)
            self._leave(old, reason)
        elif old.number != handover.old:
            old.rotates_ns = at_ns  # its turn comes

    def _finish(self, handover: Handover, new: Leg, at_ns: int) -> None:
        self._handover, self._vain = None, 0
        self.tally.rotations[handover.reason] += 1
        old = self.legs[handover.old]
        if old is self.lead:
            self._lead_by(new, at_ns)
        self._leave(old, handover.reason)
        self._plan_wake(at_ns)

    def _give_up(self, reason: str, at_ns: int) -> None:
        """Keep the old leg, and try later."""
        handover, self._handover = self._handover, None
        assert handover is not None
        self.tally.given_up[reason] += 1
        pause_s = self.plan.rotate_again.delay(self._vain, self._random())
        self._vain += 1
        self._again_ns = at_ns + round(pause_s * SECOND_NS)
        self.legs[handover.old].rotates_ns = self._again_ns

    def _leave(self, leg: Leg, reason: str) -> None:
        if not leg.leaving:
            leg.leaving = True
            leg.connection.stop(reason)
            asked = leg.connection.take_commands()
            self._commands += [(leg.number, each) for each in asked if isinstance(each, Close)]

    def _forget(self, leg: Leg, at_ns: int) -> None:
        if self.sieve.in_use:
            self._sift(leg)
        del self.legs[leg.number]
        leg.leaving = True
        self._lingers_ns = at_ns + _LINGER_NS

    def _plan_wake(self, at_ns: int) -> None:
        """Ask to be woken for what is to be done next."""
        due: list[int] = []
        if self._handover is not None or any(leg.joining for leg in self.legs.values()):
            due = [at_ns + _LOOK_NS]
        if self._handover is None:
            due += [leg.rotates_ns for leg in self._staying() if leg.rotates_ns is not None]
        if self.sieve.in_use and len(self.legs) == 1:
            due.append(self._lingers_ns)
        next_ns = min(due, default=None)
        if next_ns is not None and (self._wakes_ns is None or next_ns < self._wakes_ns):
            self._wakes_ns = next_ns
            self._commands.append((SHARD, WakeAt(next_ns)))
