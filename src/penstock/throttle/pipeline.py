"""A pipeline is one named limit with a usage threshold and a pace.

Its window decides what can be sent; the pipeline adds two things. It sends an event when the usage
crosses a threshold, once per crossing. And it paces: from ``pace_from`` on, requests are spaced so
that the remaining capacity lasts until more is freed, instead of being used in one burst. The pace
is a schedule, not a sleep: a request that comes later than it is due does not wait at all.
"""

from math import ceil
from typing import Any, Literal

from penstock.errors import BadLimit
from penstock.throttle.events import LOG, CapacityLow, Listener, Listeners
from penstock.throttle.rules import FAR, FixedUsage
from penstock.throttle.windows import SECOND_NS, Window, whole_ns


class Pipeline:
    """One limit of a throttler: a window, its name, its threshold and its pace."""

    __slots__ = (
        "_listeners", "_low_in", "_max_soft_ns", "_pace_share", "_paced_at",
        "_paces_from", "_warn_at",
        "care_from", "low_from", "per_request", "threshold", "timeframe", "window",
    )  # fmt: skip

    def __init__(
        self,
        timeframe: str,
        window: Window[Any],
        *,
        threshold: float | None = 0.5,
        max_soft_delay: float = 0.5,
        pace_from: float = 0.5,
        unit: Literal["weight", "request"] = "weight",
    ) -> None:
        """``threshold`` None sends no events; ``max_soft_delay`` 0 does not pace.

        ``unit`` is whether a request counts with its cost, or as 1.
        """
        for name, share in (("threshold", threshold), ("pace_from", pace_from)):
            if share is not None and not 0 < share <= 1:
                raise BadLimit(f"{name} is the share used, above 0 and at most 1, not {share!r}.")
        self.timeframe = timeframe
        self.window = window
        self.threshold = threshold
        self.per_request = unit == "request"
        self._max_soft_ns = whole_ns(max_soft_delay) if max_soft_delay else 0
        self._listeners = Listeners()
        self._paced_at = self._warn_at = -FAR
        self._pace_share = pace_from
        self._low_in: int | None = None
        self.relimit()

    def relimit(self) -> None:
        """Recompute the thresholds from the window's current limit."""
        limit, threshold = self.window.limit, self.threshold
        self.low_from = FAR if threshold is None else max(1, ceil(limit * threshold))
        self._paces_from = max(1, ceil(limit * self._pace_share)) if self._max_soft_ns else FAR
        self.care_from = min(self._paces_from, limit + 1)
        """Below this usage there is capacity, and nothing to pace."""
        self._low_in = None

    @property
    def limit(self) -> int:
        """The most that can be used at once."""
        return self.window.limit

    @property
    def remaining(self) -> int:
        """What can be used now."""
        return self.window.remaining

    def can_send(self, cost: int = 1) -> bool:
        """Whether a request of this cost fits now, regardless of the pace."""
        return self.window.can_send(cost)

    def wait_time(self, cost: int = 1) -> float:
        """Seconds until a request of this cost fits, if no other goes first."""
        return self.window.wait_time(cost)

    def consume(self, cost: int = 1) -> int:
        """Spend ``cost`` now; see ``Window.consume``. Sends an event on crossing the threshold."""
        at = self.window.consume(cost)
        self.charged(cost, at)
        return at

    def refund(self, timestamp: int, cost: int) -> None:
        """Refund one ``consume``; see ``Window.refund``."""
        self.window.refund(timestamp, cost)

    def soft_delay(self, cost: int = 1) -> float:
        """Seconds by which a request of this cost follows the previous one; 0 below ``pace_from``.

        Logs a warning when the even pace would be slower than ``max_soft_delay``: at this demand
        the rest is used up before more is freed. Request less, or less often.
        """
        now = self.window.clock.monotonic_ns()
        usage = self.window.rule.as_of(self.window.usage, now)
        return self._spacing(usage, usage[0], cost, now) / SECOND_NS

    def add_listener(self, listener: Listener) -> None:
        """Send this listener an event when capacity is low."""
        self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop sending it events."""
        self._listeners.remove(listener)

    def charge(self, cost: int) -> int:
        """What a request of this cost adds to this limit."""
        return 1 if self.per_request else cost

    def due(self, charge: int, before: int) -> int:
        """When a request is due if ``before`` is used; it may be in the past."""
        if before < self._paces_from:
            return -FAR
        # At high usage nothing has been freed all at once, so the stored usage is current.
        delay = self._spacing(self.window.usage, before, charge, self._paced_at)
        return self._paced_at + delay

    def charged(self, charge: int, at: int) -> None:
        """Record a charge to the window, for a request that was due at ``at``."""
        used: int = self.window.usage[0]
        if used >= self._paces_from:
            self._paced_at = at
        if used >= self.low_from and used - charge < self.low_from:
            self._emit_low(used)

    def observe(self, used: int, at: int | None) -> None:
        """Apply the exchange's own count. Sends an event if the threshold is crossed."""
        before = self.limit - self.remaining
        self.window.observe(used, at)
        after = self.limit - self.remaining
        if before < self.low_from <= after:
            self._emit_low(after)

    def _spacing(self, usage: tuple[Any, ...], before: int, charge: int, since: int) -> int:
        if before < self._paces_from:
            return 0
        spacing: int = self.window.rule.spacing(usage, charge, since)
        if spacing <= self._max_soft_ns:
            return spacing
        self._warn(charge, spacing)
        return self._max_soft_ns

    def _warn(self, charge: int, spacing: int) -> None:
        """Log a warning, at most once a period."""
        now = self.window.clock.monotonic_ns()
        if now < self._warn_at:
            return
        self._warn_at = now + round(self.window.period_s * SECOND_NS)
        LOG.warning(
            "%s: spreading what is left would delay a request of cost %d by %.3f s; it is delayed"
            " by %.3f s instead. Ask for less, or less often.",
            self.timeframe, charge, spacing / SECOND_NS, self._max_soft_ns / SECOND_NS,
        )  # fmt: skip

    def _emit_low(self, used: int) -> None:
        usage = self.window.usage
        if isinstance(usage, FixedUsage):
            # Its usage may go down and up again while the exchange's count catches up with
            # requests in flight; each window has one event.
            if usage.number == self._low_in:
                return
            self._low_in = usage.number
        left = max(0, self.limit - used)
        self._listeners.emit(CapacityLow(self.timeframe, left / self.limit, left))

    def __repr__(self) -> str:
        return f"<Pipeline {self.timeframe}: {self.window!r}>"
