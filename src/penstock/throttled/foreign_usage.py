"""Foreign usage: what other clients at the same address use of a shared budget, and will use again.

An exchange counts per address and tells the count with each answer. What is not ours in it is
somebody else's. That much is left free in the next window too: a budget used to the last by us
alone would have the others refused, and refusals of theirs shut this address out as well as ours.

Others' use is known only from below. An answer's count may miss requests of ours that are still
under way, so what it exceeds all of ours by is surely not ours. What others had used before we
listened may have been ourselves, before a restart: only what they add while we listen is expected
again.
"""

from dataclasses import dataclass

# A short look says little about a whole window; it is stretched no further than this.
_MOST_STRETCH = 4.0
# Nobody is as regular as his last window.
_MARGIN = 1.1
# One who was told to stop uses little for a while, and comes back: he is forgotten slowly.
_KEPT = 0.75
# Between two answers of ours nothing is heard of others; by then they may have used so much more.
_AHEAD_MS = 1000


@dataclass(slots=True)
class ForeignUsage:
    """One aligned window's others. Instants are the exchange's, in ms."""

    period_ms: int
    _window: int = -2
    """At first one that no other follows."""
    _ours: int = 0
    _theirs: int = 0
    _heard_ms: int = 0
    _from: tuple[int, int] | None = None
    """(instant, their use) when this window's listening began."""
    _expected: int = 0

    def sent(self, cost: int, at_ms: int) -> None:
        """We spent so much."""
        self._turn(at_ms)
        self._ours += cost

    def unsent(self, cost: int, at_ms: int) -> None:
        """What was spent at that instant never left."""
        if at_ms // self.period_ms == self._window:
            self._ours -= cost

    def plan(self, used: int, at_ms: int) -> int:
        """The count to go by: what is used, and what others will probably still use.

        ``at_ms`` is when the request was sent whose answer says ``used``.
        """
        self._turn(at_ms)
        if at_ms // self.period_ms != self._window:
            return used  # A late answer: it counts a window that has gone.
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
        # Whoever listened to the window before knows that this one began at nothing.
        self._from = (window * self.period_ms, 0) if follows else None

    def _forecast(self) -> int:
        if self._from is None:
            return 0
        from_ms, theirs = self._from
        length_ms = max(1, self._heard_ms - from_ms)
        stretch = min(self.period_ms / length_ms, _MOST_STRETCH)
        return round((self._theirs - theirs) * stretch * _MARGIN)
