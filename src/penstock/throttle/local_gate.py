"""The gateway's gate within one process: a throttler of aligned windows and token buckets.

A request is charged to the only window in which it can arrive: none is granted in the last moments
of a window (it might arrive in the next), nor in the first moments while the exchange's clock is
known only roughly. Requests within the limits are not paced: callers of the gateway need their page
now.
"""

from collections.abc import Sequence
from math import ceil

from penstock.clock import Clock
from penstock.errors import RateLimited
from penstock.throttle.bucket import TokenBucket
from penstock.throttle.events import Listener
from penstock.throttle.gate import GateGrant, Limit
from penstock.throttle.pipeline import Pipeline
from penstock.throttle.throttler import BaseThrottler
from penstock.throttle.windows import FixedWindow


class LocalGate:
    """A ``Gate`` for one process. A cancelled waiter spends nothing."""

    def __init__(
        self,
        clock: Clock,
        limits: Sequence[Limit],
        *,
        acquire_timeout_ms: int = 300_000,
        guard_ms: int = 250,
    ) -> None:
        """``guard_ms`` is how long a request may take to arrive in the window it is charged to."""
        self._clock = clock
        self._acquire_timeout_ms, self._guard_ms = acquire_timeout_ms, guard_ms
        self._offset_ms = self._error_ms = 0.0
        # A limit that is separate for each category is here as given, and once for each category
        # that was requested.
        self._windows = {limit: self._window(limit) for limit in limits}
        self._pipelines = {limit: self._pipeline(limit) for limit in limits}
        self._throttler = BaseThrottler(self._by_category())

    async def acquire(self, cost: int, category: str = "") -> GateGrant:
        """See ``Gate``."""
        known = self._known(category)
        grant = self._throttler.try_acquire(cost, known)
        if grant is None:
            self._check_timeout(cost, category)
            timeout_s = self._acquire_timeout_ms / 1000
            grant = await self._throttler.acquire(cost, known, timeout=timeout_s)
        return grant

    def observe(self, category: str, used: int, window_ms: int, at_ms: int) -> None:
        """See ``Gate``. The count of a window that has ended is ignored."""
        known = self._known(category)
        if (known or "") == category:
            self._throttler.observe(known, used, _timeframe(window_ms), at_ms)

    def block_until(self, at_ms: int) -> None:
        """See ``Gate``."""
        self._throttler.block_until(at_ms)

    def align(self, offset_ms: float, error_ms: float) -> None:
        """See ``Gate``."""
        self._offset_ms, self._error_ms = offset_ms, error_ms
        for window in self._windows.values():
            if isinstance(window, FixedWindow):
                window.align(offset_ms, error_ms)
        self._throttler.adopt(self._by_category())

    def adopt(self, limits: Sequence[Limit]) -> None:
        """See ``Gate``. Recent usage counts in the new windows too."""
        old, old_pipelines = self._windows, self._pipelines
        now_ns = self._clock.monotonic_ns()
        for window in old.values():
            if isinstance(window, FixedWindow):
                window.usage = window.rule.as_of(window.usage, now_ns)
        asked_for = dict.fromkeys(limit.category for limit in old if not limit.is_for_each)
        own = [
            each.of(name)
            for each in limits
            if each.is_for_each
            for name in asked_for
            if each.counts(name)
        ]
        self._windows, self._pipelines = {}, {}
        for limit in dict.fromkeys([*limits, *own]):
            same = next((each for each in old if _key(each) == _key(limit)), None)
            if same is not None and isinstance(window := old[same], FixedWindow):
                window.relimit(limit.amount)
                old_pipelines[same].relimit()
                self._windows[limit], self._pipelines[limit] = window, old_pipelines[same]
            else:
                self._windows[limit] = self._window(limit)
                self._inherit(limit, old)
                self._pipelines[limit] = self._pipeline(limit)
        self._throttler.adopt(self._by_category())

    def used(self) -> dict[Limit, int]:
        """How much of each limit is used in its current window, or missing from its bucket."""
        return {limit: window.used for limit, window in self._windows.items()}

    def add_listener(self, listener: Listener) -> None:
        """Send this listener an event when half of a limit is used."""
        self._throttler.add_listener(listener)

    def _window(self, limit: Limit) -> FixedWindow | TokenBucket:
        period_s = limit.period_ms / 1000
        if limit.kind == "paced":
            return TokenBucket(limit.most, limit.amount / period_s, self._clock)
        window = FixedWindow(
            limit.amount, period_s, self._clock, guard_ms=self._guard_ms, answers=True
        )
        window.align(self._offset_ms, self._error_ms)
        return window

    def _pipeline(self, limit: Limit) -> Pipeline:
        # A bucket is half empty at every other request: that needs no event.
        return Pipeline(
            "paced" if limit.kind == "paced" else _timeframe(limit.period_ms),
            self._windows[limit],
            threshold=None if limit.kind == "paced" else 0.5,
            max_soft_delay=0,
            unit=limit.unit,
        )

    def _by_category(self) -> dict[str | None, list[Pipeline]]:
        found: dict[str | None, list[Pipeline]] = {None: []}
        for limit, pipeline in self._pipelines.items():
            found.setdefault(limit.category or None, []).append(pipeline)
        return found

    def _known(self, category: str) -> str | None:
        """The category, if it has limits of its own; else None."""
        if not category:
            return None
        new = [
            limit.of(category)
            for limit in self._windows
            if limit.is_for_each and limit.counts(category)
        ]
        new = [limit for limit in new if limit not in self._windows]
        if new:
            self._windows |= {limit: self._window(limit) for limit in new}
            self._pipelines |= {limit: self._pipeline(limit) for limit in new}
            self._throttler.adopt(self._by_category())
        return category if any(limit.category == category for limit in self._windows) else None

    def _inherit(self, limit: Limit, old: dict[Limit, FixedWindow | TokenBucket]) -> None:
        """Count the usage of related windows, and of those just before, in a new window."""
        spent = 0
        for each, earlier in old.items():
            if (each.unit, each.category) == (limit.unit, limit.category):
                before = earlier.usage.before if isinstance(earlier, FixedWindow) else 0
                spent = max(spent, earlier.used + before)
        window = self._windows[limit]
        if isinstance(window, TokenBucket):
            window.observe(min(spent, window.limit))
            return
        usage = window.rule.as_of(window.usage, self._clock.monotonic_ns())
        window.usage = usage._replace(used=spent, spent=spent)

    def _check_timeout(self, cost: int, category: str) -> None:
        """Raise at once if the wait behind all queued requests would exceed the timeout."""
        queue = self._throttler.queue()
        wait_s = self._throttler.stats().blocked_for_s
        for limit, window in self._windows.items():
            charge = 0 if limit.is_for_each else limit.charge(cost, category)
            if charge:
                ahead = sum(
                    cost_of_all if limit.unit == "weight" else count
                    for kind, count, cost_of_all in queue
                    if limit.counts(kind or "")
                )
                wait_s = max(wait_s, window.wait_behind(ahead, charge))
        wait_ms = ceil(round(wait_s * 1000, 3))
        if wait_ms > self._acquire_timeout_ms:
            retry_at_ms = self._clock.now_ms() + wait_ms
            raise RateLimited(
                f"The limit has no capacity for {wait_ms} ms", retry_at_ms=retry_at_ms
            )


def _key(limit: Limit) -> tuple[str, str, str, int]:
    return limit.kind, limit.unit, limit.category, limit.period_ms


def _timeframe(period_ms: int) -> str:
    return f"{period_ms}ms"
