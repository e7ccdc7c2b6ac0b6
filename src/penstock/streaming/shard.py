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

from collections.abc import Callable, Sequence
from typing import Literal

from penstock.market.events import BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.asking import SECOND_NS
from penstock.streaming.commands import Close, FetchSnapshot, Rotate, Subscription, WakeAt
from penstock.streaming.dialect import Dialect
from penstock.streaming.handover import Handover, baselines, better, carry_resyncs
from penstock.streaming.leg import Leg, Plan
from penstock.streaming.legs import Legs

SHARD = 0
"""The number of the shard itself, where others are of legs."""
_LOOK_NS = SECOND_NS // 5
"""How often it is looked whether a leg can take over."""
_LINGER_NS = 10 * SECOND_NS
"""How long a leg may lag behind one that is gone: so long copies are looked for after it."""
FILL_WITHIN_NS = 2 * SECOND_NS
"""How long a leg may take to bring what another leg has lost."""
_SPREAD = 0.2
"""The share of a leg's life that chance takes off."""

State = Literal["disconnected", "connecting", "connected", "rotating", "reconnecting"]


class Shard(Legs):
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
        self._vain = self._again_ns = 0
        self._wakes_ns: int | None = None

    @property
    def state(self) -> State:
        """How it is with the shard as a whole."""
        if self._handover is not None:
            return "rotating"
        return "connected" if self.lead.live else self.lead.connection.state

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
            self._sift_leg(leg)
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
        if was_live:
            self._mark_loss(self.wanted.places(), leg, reason, at_ns)
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
                self._sift_leg(leg)
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
        places = [(wanted.channel, symbol) for symbol in wanted.symbols]
        for leg in self._staying():
            leg.connection.remove(wanted, at_ns)
            if wanted.channel == "book_deltas":
                for symbol in wanted.symbols:
                    leg.joining.pop(symbol, None)
            self._sort(leg, at_ns)
        self._mark_loss(places, self.lead, "removed", at_ns, "removed")

    def ask_anew(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """End a stream on the leading leg, and ask for it again."""
        self.lead.connection.ask_anew(channel, symbol, at_ns)
        self._sort(self.lead, at_ns)

    def stop(self, at_ns: int) -> None:
        """End for good."""
        self._handover = None
        live = self._live()
        for leg in self.legs.values():
            self._leave(leg, "stopped")
        if live:
            newest = max(live, key=lambda leg: leg.heard_ns or 0)
            self._mark_loss(self.wanted.places(), newest, "stopped", at_ns, "stopped")

    def _look_for_twins(self) -> None:
        self._have_twins(twins=True)
        self._sift_leg(self.lead)

    def _fill_holes(self, at_ns: int) -> None:
        """Let every leg take from the others what it lost; a lost book from who still has it."""
        live = self._live()
        for leg in self._staying():
            if leg.connection.books.holes:
                others = [other.connection for other in live if other is not leg]
                leg.connection.fill_holes(others, at_ns - FILL_WITHIN_NS)
                self._sort(leg, at_ns)
        if any(leg.connection.books.holes for leg in live):
            self._plan_wake(at_ns)
        if self.lead.connection.beginning and (found := better(self.lead, live)) is not None:
            self._lead_by(found, at_ns)

    def _sift_leg(self, leg: Leg) -> None:
        self._sift(leg, self._handover.note if self._handover is not None else None)

    def _sort(self, leg: Leg, at_ns: int) -> None:
        """Pass a leg's commands on, but for what the shard does itself."""
        for place, reason, cause in leg.connection.take_interruptions():
            self._mark_loss([place], leg, reason, at_ns, cause)
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
            self._sift_leg(leg)
            self.sieve.passed += baselines(self.exchange, leg.connection, at_ns)
        self._join_books(at_ns)

    def _go_on(self, at_ns: int) -> None:
        """Do what others have made possible."""
        if not self.sieve.in_use:
            return
        self._fill_holes(at_ns)
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
            self._have_twins(twins=False)

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
            self._sift_leg(leg)
        del self.legs[leg.number]
        leg.leaving = True
        self._lingers_ns = at_ns + _LINGER_NS

    def _plan_wake(self, at_ns: int) -> None:
        """Ask to be woken for what is to be done next."""
        due: list[int] = []
        legs = self.legs.values()
        if self._handover is not None or any(
            leg.joining or leg.connection.books.holes for leg in legs
        ):
            due = [at_ns + _LOOK_NS]
        if self._handover is None:
            due += [leg.rotates_ns for leg in self._staying() if leg.rotates_ns is not None]
        if self.sieve.in_use and len(self.legs) == 1:
            due.append(self._lingers_ns)
        next_ns = min(due, default=None)
        if next_ns is not None and (self._wakes_ns is None or next_ns < self._wakes_ns):
            self._wakes_ns = next_ns
            self._commands.append((SHARD, WakeAt(next_ns)))
