"""Pace: when a loop that asks again and again asks next. Pure: instants in, instants out.

While all goes well a loop begins every so often, however long its work takes; work that takes
longer than that is followed by the next at once, and what was missed is not made up for. While it
fails it waits twice as long each time, up to a limit, and the first success forgets that.
"""

from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class FetchTiming:
    """How often a loop asks."""

    every_s: float
    first_delay_s: float = 1.0
    """How long to wait after a failure; twice as long after each further one …"""
    longest_delay_s: float = 60.0
    """… but never longer."""


class FetchSchedule:
    """When one loop asks next."""

    def __init__(self, timing: FetchTiming) -> None:
        self._timing = timing
        self.failures = 0
        """How often it failed in a row."""

    def succeeded(self, began_ns: int, ended_ns: int, *, more: bool = False) -> int:
        """When to begin next; at once, if there is more to be had."""
        self.failures = 0
        if more:
            return ended_ns
        return max(ended_ns, began_ns + round(self._timing.every_s * SECOND_NS))

    def failed(self, ended_ns: int) -> int:
        """When to begin next."""
        self.failures += 1
        return ended_ns + round(self.delay_s() * SECOND_NS)

    def delay_s(self) -> float:
        """How long to wait after so many failures."""
        if not self.failures:
            return 0.0
        # The exponent is bounded because a float overflows at about the thousandth failure.
        grown_s = self._timing.first_delay_s * 2.0 ** min(self.failures - 1, 64)
        return min(self._timing.longest_delay_s, grown_s)


class Spacing:
    """Spreads the requests of one process evenly, so that no stretch of the window holds more."""

    def __init__(self, max_requests: int, window_s: float) -> None:
        # Rounded up: a nanosecond too little, often enough, would let one more into the window.
        self._space_ns = -(-round(window_s * SECOND_NS) // max_requests)
        self._free_ns: int | None = None

    def take(self, now_ns: int) -> int:
        """The instant at which the next request may leave; it is taken by whoever asks."""
        at_ns = now_ns if self._free_ns is None else max(now_ns, self._free_ns)
        self._free_ns = at_ns + self._space_ns
        return at_ns
