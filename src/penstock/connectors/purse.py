"""The purse: what a process can pay with, and how it gets more.

Requests that only aligned windows count are paid with tokens that are held (``holdings.py``);
requests that a paced limit counts are paid with tickets, each for one instant.
"""

from collections.abc import Sequence
from math import inf, nextafter

from penstock.connectors.clocks import Clocks, Place
from penstock.connectors.fleet import NEVER, Fleet
from penstock.connectors.holdings import Holdings
from penstock.connectors.lanes import Charge, Lane, Ticket, Waiter
from penstock.connectors.limits import name_of, paced_by
from penstock.storage.state import Grant
from penstock.storage.state.budget import Window
from penstock.throttle.gate import Limit


class Purse:
    """Tokens and tickets of one process, for one exchange."""

    def __init__(self, fleet: Fleet, clocks: Clocks, guard_ms: int) -> None:
        self._fleet, self._clocks, self._guard_ms = fleet, clocks, guard_ms
        self._holdings = Holdings()

    def due_ms(self, lane: Lane, first: Waiter, now_ms: float) -> float:
        """When the first of a lane can pay; NEVER if that takes a lease that may be asked for."""
        may_lease = now_ms >= lane.retry_at_ms
        if not lane.is_paced:
            closed_ms = max((p.opens_in_ms for p in self._places(lane, now_ms)), default=0.0)
            if closed_ms:
                # A wait shorter than a float of this size can tell is a wait all the same.
                return max(now_ms + closed_ms, nextafter(now_ms, inf))
            if self._can_pay(lane, first.cost, now_ms):
                return now_ms
            return NEVER if may_lease else lane.retry_at_ms
        self._forget_useless_tickets(lane, first, now_ms)
        ready_ms = lane.tickets[0].at_ms if lane.tickets else inf
        if ready_ms <= now_ms:
            return now_ms
        if lane.at(len(lane.tickets)) is None:
            return ready_ms
        return NEVER if may_lease else min(ready_ms, lane.retry_at_ms)

    def pay(self, lane: Lane, cost: int, now_ms: float) -> tuple[Charge, ...] | None:
        """Pay for one request, if that is due; what was taken of which windows."""
        if lane.is_paced:
            is_due = lane.tickets and lane.tickets[0].at_ms <= now_ms
            return lane.tickets.popleft().charges if is_due else None
        if not self._can_pay(lane, cost, now_ms):
            return None
        charges = []
        for limit in lane.limits:
            window = self._clocks.place(limit.period_ms, now_ms).window
            charge = Charge(name_of(limit), window, limit.period_ms, lane.charge(limit, cost))
            self._holdings.take(charge.name, window, charge.tokens)
            charges.append(charge)
        return tuple(charges)

    def holds(self, charges: Sequence[Charge], now_ms: float) -> bool:
        """Whether what leaves now is counted where it was paid."""
        places = [(charge, self._clocks.place(charge.period_ms, now_ms)) for charge in charges]
        return all(
            not place.opens_in_ms and place.window == charge.window for charge, place in places
        )

    def give_back(self, charges: Sequence[Charge]) -> None:
        """What never left is there for the next in line, while its window lasts."""
        for charge in charges:
            self._holdings.give_back(charge.name, charge.window, charge.tokens)

    def cap(self, limit: Limit, window: int, used: int) -> int:
        """The exchange counts so much: no more than the rest is worth anything. What is held."""
        return self._holdings.cap(name_of(limit), window, limit.amount - used)

    def relimit(self, before: Sequence[Limit], after: Sequence[Limit]) -> None:
        """Hold nothing that was leased while more was allowed than now."""
        kept = {name_of(limit): limit.amount for limit in after}
        for limit in before:
            if kept.get(name_of(limit), 0) < limit.amount:
                self._holdings.drop(name_of(limit))

    async def lease(self, lane: Lane) -> None:
        """Lease for the first in a lane who cannot pay, and for those behind as far as blocks go.

        Raises:
            StorageError: the store cannot be reached.
        """
        limits, waiter = lane.limits, lane.at(len(lane.tickets))
        if waiter is None:
            return
        cost = waiter.cost
        windows = [self._asked(lane, limit, cost) for limit in limits if limit.kind == "aligned"]
        paced = [limit for limit in limits if limit.kind == "paced"]
        leased = await self._fleet.lease(
            windows, [paced_by(limit, lane.charge(limit, cost)) for limit in paced]
        )
        if limits != lane.limits:
            return  # They were changed meanwhile; what was leased by the old ones is left to die.
        if not leased.ok:
            lane.retry_at_ms = self._clocks.now_ms() + leased.wait_ms
        elif paced:
            self._take_ticket(lane, cost, leased)
        else:
            for window, block in zip(windows, leased.blocks, strict=False):
                self._holdings.put(window.limit, block.window, block.tokens)

    def _can_pay(self, lane: Lane, cost: int, now_ms: float) -> bool:
        for limit, place in zip(lane.limits, self._places(lane, now_ms), strict=True):
            held = self._holdings.of(name_of(limit), place.window)
            if place.opens_in_ms or held < lane.charge(limit, cost):
                return False
        return True

    def _places(self, lane: Lane, now_ms: float) -> list[Place]:
        return [self._clocks.place(limit.period_ms, now_ms) for limit in lane.limits]

    def _asked(self, lane: Lane, limit: Limit, cost: int) -> Window:
        charge = lane.charge(limit, cost)
        if lane.is_paced:
            return self._fleet.asked(limit, charge, 0)
        name, place = name_of(limit), self._clocks.place(limit.period_ms, self._clocks.now_ms())
        held = self._holdings.of(name, place.window)
        left = self._fleet.open_to_us(limit) - self._fleet.used(name, place.window)
        demand = max(0, lane.demand(limit) - held)
        most = self._holdings.block(limit, name, demand, (place.window, place.left_share))
        most = min(most, self._holdings.part(left))
        # What would not be enough for the next in line is left to others.
        want = most if most >= demand else lane.fitting(limit, held + most) - held
        return self._fleet.asked(limit, max(0, charge - held), max(0, want))

    def _take_ticket(self, lane: Lane, cost: int, leased: Grant) -> None:
        aligned = [limit for limit in lane.limits if limit.kind == "aligned"]
        charges = []
        for limit, block in zip(aligned, leased.blocks, strict=False):
            charges.append(Charge(name_of(limit), block.window, limit.period_ms, block.tokens))
        # Counted from the answer, which is later than the instant it tells; not from what is known
        # of the store's clock, which may have been set since.
        at_ms = self._clocks.now_ms() + leased.wait_ms
        lane.tickets.append(Ticket(at_ms, cost, tuple(charges)))

    def _forget_useless_tickets(self, lane: Lane, first: Waiter, now_ms: float) -> None:
        """An instant that passed unused is gone, and so is one paid too low for who is next."""
        while lane.tickets:
            ticket = lane.tickets[0]
            is_late = ticket.at_ms < now_ms - self._guard_ms
            if not is_late and ticket.cost >= first.cost:
                return
            lane.tickets.popleft()
            self.give_back(ticket.charges)
