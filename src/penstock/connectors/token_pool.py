"""A token pool has the tokens and timed grants of a process, and leases more.

Requests that only aligned windows count use held tokens (``held_tokens.py``); requests that a paced
limit counts use grants, each for a given time.
"""

from collections.abc import Sequence
from math import inf, nextafter

from penstock.connectors.budget_client import NEVER, BudgetClient
from penstock.connectors.clocks import Clocks, WindowPosition
from penstock.connectors.held_tokens import HeldTokens
from penstock.connectors.limits import name_of, paced_by
from penstock.connectors.queues import Charge, QueuedRequest, RequestQueue, TimedGrant
from penstock.storage.state import LeaseReply
from penstock.storage.state.budget import WindowDemand
from penstock.throttle.gate import Limit


class TokenPool:
    """Tokens and timed grants of one process, for one exchange."""

    def __init__(self, budget_client: BudgetClient, clocks: Clocks, guard_ms: int) -> None:
        self._budget_client, self._clocks, self._guard_ms = budget_client, clocks, guard_ms
        self._tokens = HeldTokens()

    def due_ms(self, queue: RequestQueue, first: QueuedRequest, now_ms: float) -> float:
        """When the first of a queue can be charged; NEVER if a lease is needed and possible."""
        may_lease = now_ms >= queue.retry_at_ms
        if not queue.is_paced:
            closed_ms = max((p.opens_in_ms for p in self._positions(queue, now_ms)), default=0.0)
            if closed_ms:
                # A wait below the float resolution at this magnitude is still a wait.
                return max(now_ms + closed_ms, nextafter(now_ms, inf))
            if self._can_pay(queue, first.cost, now_ms):
                return now_ms
            return NEVER if may_lease else queue.retry_at_ms
        self._drop_useless_grants(queue, first, now_ms)
        ready_ms = queue.grants[0].at_ms if queue.grants else inf
        if ready_ms <= now_ms:
            return now_ms
        if queue.at(len(queue.grants)) is None:
            return ready_ms
        return NEVER if may_lease else min(ready_ms, queue.retry_at_ms)

    def charge(self, queue: RequestQueue, cost: int, now_ms: float) -> tuple[Charge, ...] | None:
        """Charge one request if it is due; the charges to each window, else None."""
        if queue.is_paced:
            is_due = queue.grants and queue.grants[0].at_ms <= now_ms
            return queue.grants.popleft().charges if is_due else None
        if not self._can_pay(queue, cost, now_ms):
            return None
        charges = []
        for limit in queue.limits:
            window = self._clocks.position(limit.period_ms, now_ms).window
            charge = Charge(name_of(limit), window, limit.period_ms, queue.charge(limit, cost))
            self._tokens.take(charge.name, window, charge.tokens)
            charges.append(charge)
        return tuple(charges)

    def may_send(self, charges: Sequence[Charge], now_ms: float) -> bool:
        """Whether a request sent now counts in the windows it was charged to."""
        positions = [
            (charge, self._clocks.position(charge.period_ms, now_ms)) for charge in charges
        ]
        return all(
            not position.opens_in_ms and position.window == charge.window
            for charge, position in positions
        )

    def give_back(self, charges: Sequence[Charge]) -> None:
        """Return the tokens of a request that was never sent, for use in the same window."""
        for charge in charges:
            self._tokens.give_back(charge.name, charge.window, charge.tokens)

    def cap(self, limit: Limit, window: int, used: int) -> int:
        """Discard held tokens beyond what the exchange's count leaves; the tokens still held."""
        return self._tokens.cap(name_of(limit), window, limit.amount - used)

    def replace_limits(self, before: Sequence[Limit], after: Sequence[Limit]) -> None:
        """Discard tokens that were leased under a higher limit."""
        kept = {name_of(limit): limit.amount for limit in after}
        for limit in before:
            if kept.get(name_of(limit), 0) < limit.amount:
                self._tokens.drop(name_of(limit))

    async def lease(self, queue: RequestQueue) -> None:
        """Lease for the first request without tokens, and for those behind it within the block.

        Raises:
            StorageError: the store cannot be reached.
        """
        limits, waiter = queue.limits, queue.at(len(queue.grants))
        if waiter is None:
            return
        cost = waiter.cost
        windows = [self._asked(queue, limit, cost) for limit in limits if limit.kind == "aligned"]
        paced = [limit for limit in limits if limit.kind == "paced"]
        leased = await self._budget_client.lease(
            windows, [paced_by(limit, queue.charge(limit, cost)) for limit in paced]
        )
        if limits != queue.limits:
            return  # The limits changed meanwhile; what was leased under the old ones expires.
        if not leased.ok:
            queue.retry_at_ms = self._clocks.now_ms() + leased.wait_ms
        elif paced:
            self._add_grant(queue, cost, leased)
        else:
            for window, block in zip(windows, leased.blocks, strict=False):
                self._tokens.put(window.limit, block.window, block.tokens)

    def _can_pay(self, queue: RequestQueue, cost: int, now_ms: float) -> bool:
        for limit, position in zip(queue.limits, self._positions(queue, now_ms), strict=True):
            held = self._tokens.of(name_of(limit), position.window)
            if position.opens_in_ms or held < queue.charge(limit, cost):
                return False
        return True

    def _positions(self, queue: RequestQueue, now_ms: float) -> list[WindowPosition]:
        return [self._clocks.position(limit.period_ms, now_ms) for limit in queue.limits]

    def _asked(self, queue: RequestQueue, limit: Limit, cost: int) -> WindowDemand:
        charge = queue.charge(limit, cost)
        if queue.is_paced:
            return self._budget_client.asked(limit, charge, 0)
        name = name_of(limit)
        position = self._clocks.position(limit.period_ms, self._clocks.now_ms())
        held = self._tokens.of(name, position.window)
        left = self._budget_client.open_to_us(limit) - self._budget_client.used(
            name, position.window
        )
        waiting = queue.demand(limit)
        demand, spare = max(0, waiting - held), max(0, held - waiting)
        time_left = position.window, position.left_share
        most = self._tokens.block(limit, name, demand, time_left, spare)
        most = min(most, self._tokens.part(left))
        # Tokens that do not cover another whole request are left to other processes.
        want = most if most >= demand else queue.fitting(limit, held + most) - held
        return self._budget_client.asked(limit, max(0, charge - held), max(0, want))

    def _add_grant(self, queue: RequestQueue, cost: int, leased: LeaseReply) -> None:
        aligned = [limit for limit in queue.limits if limit.kind == "aligned"]
        charges = []
        for limit, block in zip(aligned, leased.blocks, strict=False):
            charges.append(Charge(name_of(limit), block.window, limit.period_ms, block.tokens))
        # Counted from the arrival of the response, which is later than the time in it; not from the
        # estimate of the store's clock, which may have been stepped since.
        at_ms = self._clocks.now_ms() + leased.wait_ms
        queue.grants.append(TimedGrant(at_ms, cost, tuple(charges)))

    def _drop_useless_grants(
        self, queue: RequestQueue, first: QueuedRequest, now_ms: float
    ) -> None:
        """Drop grants whose time has passed, or whose cost is too low for the next request."""
        while queue.grants:
            grant = queue.grants[0]
            is_late = grant.at_ms < now_ms - self._guard_ms
            if not is_late and grant.cost >= first.cost:
                return
            queue.grants.popleft()
            self.give_back(grant.charges)
