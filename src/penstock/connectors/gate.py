"""A rate limiter whose usage all processes share through the state store.

Requests that aligned windows count use tokens that this process has leased; requests that a paced
limit counts are sent at times that the store assigns (``token_pool.py``). Before a request is sent
with held tokens, the store is checked for a block by the exchange, if the last check is older than
``BLOCK_CHECK_MS``. One task serves the gate while requests wait: it reads the store, leases and
grants, one step at a time, so that a process never has two leases in progress.

What cannot be verified is not allowed: while the store is away nothing is granted, and grants that
have not been sent expire soon.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from math import ceil, inf
from typing import Literal

from penstock.clock import Clock
from penstock.connectors.budget_client import CONNECTOR_AGE_MS, NEVER, BudgetClient
from penstock.connectors.clocks import Clocks
from penstock.connectors.limits import GateReport, ServerCount, name_of, state_of
from penstock.connectors.queues import Charge, QueuedRequest, RequestQueue
from penstock.connectors.token_pool import TokenPool
from penstock.errors import ConnectorPaused, CostExceedsLimit, PenstockError
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import GateGrant, Limit

BLOCK_CHECK_MS = 25
# A process that only waits reads the connector this often: an operator may pause it.
_CONNECTOR_POLL_MS = 1_000
# For a grant that is not sent by then, the store is no longer checked.
_UNSENT_MS = 5_000

_Step = RequestQueue | Literal["read"] | float
"""The next step: lease for a queue, read the store, or sleep until a time."""


class _SharedGrant:
    """A ``GateGrant``."""

    __slots__ = ("_gate", "_is_open", "charges")

    def __init__(self, gate: "SharedGate", charges: tuple[Charge, ...]) -> None:
        self._gate, self.charges = gate, charges
        self._is_open = True

    def good(self) -> bool:
        is_good = self._is_open and self._gate.may_send(self.charges)
        if is_good:
            self._gate.forget_unsent(self)
        return is_good

    def answered(self) -> None:
        self._is_open = False
        self._gate.forget_unsent(self)

    def refund(self) -> None:
        if self._is_open:
            self._is_open = False
            self._gate.forget_unsent(self)
            self._gate.give_back(self.charges)


class SharedGate:
    """A ``Gate`` on a shared budget. A cancelled waiter spends nothing."""

    def __init__(  # noqa: PLR0913 - a store and what a LocalGate takes
        self,
        store: StateStore,
        exchange_id: str,
        limits: Sequence[Limit],
        clock: Clock,
        *,
        acquire_timeout_ms: int = 300_000,
        guard_ms: int = 250,
        listener: Listener = quiet,
        depends_on_key: bool = False,
    ) -> None:
        """``limits`` apply if there is no connector; its own are read before anything is sent.

        If they depend on this process's API key, they apply in place of those that the connector
        has of the exchange; what an operator chose applies in any case.
        """
        self._clock, self._exchange_id = clock, exchange_id
        self._acquire_timeout_ms, self._guard_ms = acquire_timeout_ms, guard_ms
        self._clocks = Clocks(clock, guard_ms)
        self._budget_client = BudgetClient(store, exchange_id, self._clocks, clock, listener)
        self._budget_client.limits = self._limits = tuple(limits)
        if depends_on_key:
            self._budget_client.of_key = self._limits
        self._pool = TokenPool(self._budget_client, self._clocks, guard_ms)
        self._queues: dict[str, RequestQueue] = {}
        self._numbers = count()
        self._unsent: dict[_SharedGrant, float] = {}
        self._serving: asyncio.Task[None] | None = None
        self._sleeping: asyncio.Task[None] | None = None
        self._seen_ms: dict[str, int] = {}

    async def acquire(self, cost: int, category: str = "") -> GateGrant:
        """See ``Gate``.

        Raises:
            RateLimited: the wait would exceed the gate's timeout. Nothing was spent.
            CostExceedsLimit: no wait would ever be long enough.
            ConnectorPaused: the connector is paused or deleted.
            StorageError: the store of the budget cannot be reached; nothing is sent without it.
        """
        queue, now_ms = self._queue(category), self._clocks.now_ms()
        if self._budget_client.document_at_ms > NEVER:
            queue.check(cost)
        if self._is_fresh(now_ms) and not self._has_waiters() and not queue.is_paced:
            grant = self._try_grant(queue, cost, now_ms)
            if grant is not None:
                self._start()
                return grant
        future: asyncio.Future[GateGrant] = asyncio.get_running_loop().create_future()
        deadline_ms = now_ms + self._acquire_timeout_ms
        queue.waiters.append(QueuedRequest(next(self._numbers), cost, deadline_ms, future))
        self._wake()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().refund()
            self._wake()
            raise

    def observe(self, category: str, used: int, window_ms: int, at_ms: int) -> None:
        """See ``Gate``. The count of a window that has ended is ignored."""
        now_ms = self._clocks.now_ms()
        for limit in self._budget_client.limits:
            counted = (limit.category, limit.period_ms) == (category, window_ms)
            if counted and limit.unit == "weight" and limit.kind == "aligned":
                window = self._clocks.position(window_ms, at_ms).window
                if window == self._clocks.position(window_ms, now_ms).window:
                    held = self._pool.cap(limit, window, used)
                    self._budget_client.record_server_count(limit, ServerCount(window, used), held)
                    self._seen_ms[name_of(limit)] = self._clock.now_ms()

    def block_until(self, at_ms: int) -> None:
        """See ``Gate``. The stop applies to every process."""
        self._budget_client.block_until(at_ms)
        self._wake()

    def align(self, offset_ms: float, error_ms: float) -> None:
        """See ``Gate``."""
        self._clocks.record_exchange_offset(offset_ms, error_ms)
        self._budget_client.publish_offset()

    def used(self) -> Mapping[Limit, int]:
        """How much of each limit the fleet had used when the store was last read."""
        now_ms = self._clocks.to_store(self._clocks.now_ms())
        budget, offset_ms = self._budget_client.budget, self._clocks.offset_ms()
        return {
            limit: state_of(limit, budget, now_ms, offset_ms).used
            for limit in self._budget_client.limits
        }

    def report(self) -> GateReport:
        """How many requests wait, and when the exchange reported its counts."""
        waiting = sum(1 for queue in self._queues.values() for _ in queue.waiting())
        return GateReport(waiting=waiting, seen_ms=dict(self._seen_ms))

    def adopt(self, limits: Sequence[Limit]) -> None:
        """See ``Gate``. Every process applies them from its next lease on."""
        self._budget_client.announce(limits)
        self._wake()

    async def check(self) -> None:
        """Check whether requests are possible now. Nothing is spent.

        Raises:
            ConnectorPaused: the connector is paused or deleted.
            StorageError: the store of the budget cannot be used.
        """
        await self._budget_client.check()
        if self._budget_client.status != "active":
            raise ConnectorPaused(self._exchange_id, self._budget_client.status)

    async def aclose(self) -> None:
        """Cancel waiting requests, and finish pending writes to the store."""
        for task in (self._serving, self._sleeping):
            if task is not None:
                task.cancel()
        for queue in self._queues.values():
            for waiter in queue.waiting():
                waiter.future.cancel()
        await self._budget_client.aclose()

    def may_send(self, charges: Sequence[Charge]) -> bool:
        """Whether a charged request may still be sent."""
        now_ms, client = self._clocks.now_ms(), self._budget_client
        if client.status != "active" or now_ms < client.blocked_until_ms:
            return False
        if now_ms - client.block_checked_at_ms > max(self._guard_ms, 10 * BLOCK_CHECK_MS):
            return False  # The last response of the store is too old.
        return self._pool.may_send(charges, now_ms)

    def forget_unsent(self, grant: _SharedGrant) -> None:
        """Stop checking the store for this grant."""
        self._unsent.pop(grant, None)

    def give_back(self, charges: Sequence[Charge]) -> None:
        """Return the tokens of a request that was never sent, for use in the same window."""
        self._pool.give_back(charges)
        self._wake()

    def _wake(self) -> None:
        if self._sleeping is not None:
            self._sleeping.cancel()
        self._start()

    def _start(self) -> None:
        if self._serving is None and self._has_work():
            self._serving = asyncio.get_running_loop().create_task(self._serve_all())

    def _has_work(self) -> bool:
        return bool(self._unsent) or self._has_waiters()

    def _has_waiters(self) -> bool:
        return any(queue.first() for queue in self._queues.values())

    async def _serve_all(self) -> None:
        try:
            while self._has_work():
                step = self._step(self._clocks.now_ms())
                if step == "read":
                    await self._budget_client.read_store()
                elif isinstance(step, RequestQueue):
                    await self._pool.lease(step)
                elif self._has_work():
                    await self._sleep_until(step)
        except Exception as error:
            self._reject_all(error)
        finally:
            self._serving = None
            self._drop_idle_queues()

    async def _sleep_until(self, at_ms: float) -> None:
        seconds = ceil((at_ms - self._clocks.now_ms()) * 1000) / 1_000_000
        self._sleeping = asyncio.get_running_loop().create_task(
            self._clock.sleep(max(0.0, seconds))
        )
        try:
            await asyncio.wait({self._sleeping})
        finally:
            self._sleeping = None

    def _step(self, now_ms: float) -> _Step:
        """Grant all requests that are due; the next step."""
        client = self._budget_client
        self._apply_limits()
        if now_ms - client.document_at_ms >= _CONNECTOR_POLL_MS:
            return "read"
        if client.status != "active":
            if now_ms - client.document_at_ms >= CONNECTOR_AGE_MS:
                return "read"
            self._reject_all(ConnectorPaused(self._exchange_id, client.status))
        wake_ms = client.document_at_ms + _CONNECTOR_POLL_MS
        self._unsent = {p: at for p, at in self._unsent.items() if now_ms - at < _UNSENT_MS}
        if self._unsent and now_ms - client.block_checked_at_ms >= BLOCK_CHECK_MS:
            return "read"
        contended: set[str] = set()
        waiting = [
            (first.number, queue) for queue in self._queues.values() if (first := queue.first())
        ]
        for _, queue in sorted(waiting, key=lambda each: each[0]):
            if contended.isdisjoint(queue.names):
                step = self._serve(queue, now_ms)
                if not isinstance(step, float):
                    return step
                wake_ms = min(wake_ms, step)
                contended |= queue.names
        if self._unsent:
            wake_ms = min(wake_ms, client.block_checked_at_ms + BLOCK_CHECK_MS)
        return wake_ms

    def _serve(self, queue: RequestQueue, now_ms: float) -> _Step:
        """Grant the requests of one queue that are due; the next step for the queue."""
        blocked_ms = self._budget_client.blocked_until_ms
        queue.reject_unreachable(blocked_ms)
        queue.reject_expired(now_ms)
        while (waiter := queue.first()) is not None:
            if now_ms < blocked_ms:
                return min(blocked_ms, waiter.deadline_ms)
            due_ms = self._pool.due_ms(queue, waiter, now_ms)
            if due_ms > now_ms:
                queue.reject_unreachable(due_ms, len(queue.grants))
                return min(due_ms, waiter.deadline_ms)
            if due_ms == NEVER:
                budget_is_fresh = now_ms - self._budget_client.budget_at_ms < BLOCK_CHECK_MS
                return queue if budget_is_fresh and self._connector_is_fresh(now_ms) else "read"
            if not self._is_fresh(now_ms):
                return "read"
            grant = self._try_grant(queue, waiter.cost, now_ms)
            assert grant is not None, "it was due"
            waiter.future.set_result(grant)
        return inf

    def _try_grant(self, queue: RequestQueue, cost: int, now_ms: float) -> _SharedGrant | None:
        charges = self._pool.charge(queue, cost, now_ms)
        if charges is None:
            return None
        grant = _SharedGrant(self, charges)
        self._unsent[grant] = now_ms
        return grant

    def _queue(self, category: str) -> RequestQueue:
        self._apply_limits()
        queue = self._queues.get(category)
        if queue is None:
            queue = self._queues[category] = RequestQueue(category)
            queue.set_limits(self._limits)
        return queue

    def _apply_limits(self) -> None:
        """Apply the limits that are in force now."""
        if self._limits is self._budget_client.limits:
            return
        self._pool.replace_limits(self._limits, self._budget_client.limits)
        self._limits = self._budget_client.limits
        for queue in self._queues.values():
            queue.set_limits(self._limits)
            queue.reject(partial(_cost_error, queue))

    def _connector_is_fresh(self, now_ms: float) -> bool:
        return now_ms - self._budget_client.document_at_ms < CONNECTOR_AGE_MS

    def _is_fresh(self, now_ms: float) -> bool:
        """Whether a recent check of the store found no block and no pause."""
        client = self._budget_client
        is_checked = now_ms - client.block_checked_at_ms < BLOCK_CHECK_MS
        is_fresh = is_checked and self._connector_is_fresh(now_ms)
        return is_fresh and client.status == "active" and now_ms >= client.blocked_until_ms

    def _reject_all(self, error: Exception) -> None:
        for queue in self._queues.values():
            queue.reject(lambda _: error)

    def _drop_idle_queues(self) -> None:
        now_ms = self._clocks.now_ms()
        self._queues = {
            name: queue
            for name, queue in self._queues.items()
            if queue.first() or (queue.grants and queue.grants[-1].at_ms >= now_ms)
        }


def _cost_error(queue: RequestQueue, waiter: QueuedRequest) -> PenstockError | None:
    try:
        queue.check(waiter.cost)
    except CostExceedsLimit as error:
        return error
    return None
