"""Measures the usage of foreign clients at the same address, and predicts it for the next window.

An exchange counts per address and returns the count with each response. What exceeds our own usage
is foreign. The same amount is left free in the next window: if we used the whole budget, the
foreign clients would be rejected, and their rejections block this address as ours do.

Foreign usage is known only as a lower bound. A response's count may lack requests of ours that are
still in flight, so what exceeds all of ours is certainly foreign. Usage from before the first
response may be our own, from before a restart: only what is added later is expected again.
"""

from dataclasses import dataclass

# A short observation is a weak sample of a window: it is extrapolated by at most this factor.
_MOST_STRETCH = 4.0
# Foreign usage varies between windows: the forecast is multiplied by this.
_MARGIN = 1.1
# A foreign client that was stopped uses little for a while, then resumes: the estimate decays
# slowly.
_KEPT = 0.75
# Foreign usage is unknown between two of our responses: this many ms of it are added.
_AHEAD_MS = 1000


@dataclass(slots=True)
class ForeignUsage:
    """Foreign usage in windows of one length. Times are the exchange's, in ms."""

    period_ms: int
    _window: int = -2
    """Initially a number that no window follows."""
    _ours: int = 0
    _theirs: int = 0
    _heard_ms: int = 0
    _from: tuple[int, int] | None = None
    """(time, foreign usage) at the first observation of this window."""
    _expected: int = 0

    def sent(self, cost: int, at_ms: int) -> None:
        """Count our own usage."""
        self._turn(at_ms)
        self._ours += cost

    def unsent(self, cost: int, at_ms: int) -> None:
        """Subtract our own usage at that time: the request was never sent."""
        if at_ms // self.period_ms == self._window:
            self._ours -= cost

    def plan(self, used: int, at_ms: int) -> int:
        """The count to apply: ``used``, plus the foreign usage that is still expected.

        ``at_ms`` is when the request was sent whose response has ``used``.
        """
        self._turn(at_ms)
        if at_ms // self.period_ms != self._window:
            return used  # A late response, with the count of a window that has ended.
        self._theirs = max(self._theirs, used - self._ours)
        self._heard_ms = max(self._heard_ms, at_ms)
        if self._from is None:
            self._from = at_ms, self._theirs
        return used + max(self._soon(), self._expected - self._theirs)

    def _soon(self) -> int:
        from_ms, theirs = self._from or (0, self._theirs)
        length_ms = max(_AHEAD_MS, self._heard_ms - from_ms)
        return -((theirs - self._theirs) * _AHEAD_MS // length_ms)

    def _turn(self, at_ms: int) -> None:
        window = at_ms // self.period_ms
        if window <= self._window:
            return
        follows = window == self._window + 1
        self._expected = max(self._forecast(), int(self._expected * _KEPT)) if follows else 0
        self._window, self._ours, self._theirs = window, 0, 0
        # If the previous window was observed, this one is known to begin at zero.
        self._from = (window * self.period_ms, 0) if follows else None

    def _forecast(self) -> int:
        if self._from is None:
            return 0
        from_ms, theirs = self._from
        length_ms = max(1, self._heard_ms - from_ms)
        stretch = min(self.period_ms / length_ms, _MOST_STRETCH)
        return round((self._theirs - theirs) * stretch * _MARGIN)
