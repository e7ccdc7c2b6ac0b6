"""Computes when a fetch loop runs next. Pure: instants in, instants out.

After a success a loop runs one interval after its last start, however long the run took. A run that
takes longer than the interval is followed by the next at once, and missed runs are not made up for.
After each failure the delay doubles, up to a limit; the first success resets it.
"""

from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class FetchTiming:
    """How often a loop runs."""

    every_s: float
    first_delay_s: float = 1.0
    """The delay after a failure; doubled after each further one …"""
    longest_delay_s: float = 60.0
    """… up to this."""


class FetchSchedule:
    """When one loop runs next."""

    def __init__(self, timing: FetchTiming) -> None:
        self._timing = timing
        self.failures = 0
        """Consecutive failures."""

    def succeeded(self, began_ns: int, ended_ns: int, *, more: bool = False) -> int:
        """The time of the next run; at once, if more is available."""
        self.failures = 0
        if more:
            return ended_ns
        return max(ended_ns, began_ns + round(self._timing.every_s * SECOND_NS))

    def failed(self, ended_ns: int) -> int:
        """The time of the next run after a failure."""
        self.failures += 1
        return ended_ns + round(self.delay_s() * SECOND_NS)

    def delay_s(self) -> float:
        """The delay after the current number of failures."""
        if not self.failures:
            return 0.0
        # The exponent is bounded because a float overflows at about the thousandth failure.
        grown_s = self._timing.first_delay_s * 2.0 ** min(self.failures - 1, 64)
        return min(self._timing.longest_delay_s, grown_s)


class Spacing:
    """Spaces the requests of one process evenly, so that no window has more than its limit."""

    def __init__(self, max_requests: int, window_s: float) -> None:
        # Rounded up: a nanosecond less per request could let one more into the window.
        self._space_ns = -(-round(window_s * SECOND_NS) // max_requests)
        self._free_ns: int | None = None

    def take(self, now_ns: int) -> int:
        """Reserve and return the instant at which the next request may be sent."""
        at_ns = now_ns if self._free_ns is None else max(now_ns, self._free_ns)
        self._free_ns = at_ns + self._space_ns
        return at_ns
