"""Messages per second of a fleet, from the counts in the statuses of its processes. Pure.

A process counts from its start, and its status has the time of the count by its own clock. So a
rate is the difference of two counts by the difference of their times, whenever they are read, and
a process that was restarted has counted from its start on.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

POINT_MS = 5_000
"""Time between two points of the history."""
KEPT_MS = 600_000
_LEAST_MS = 1_000
"""A rate over a shorter time than this is not computed: a few messages would decide it."""


class Reading(NamedTuple):
    """What a process has counted of an exchange."""

    process: str
    """The id of its status."""
    exchange: str
    started_ms: int
    at_ms: int
    """When it was counted, by the clock of ``started_ms``."""
    messages: int


class Point(NamedTuple):
    """The rate of all exchanges at a time."""

    at_ms: int
    messages_per_s: float


class _Known(NamedTuple):
    reading: Reading
    per_s: float | None
    """None until two counts are known."""


class RateSampler:
    """Computes rates from readings as they come. For one event loop."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}
        self._points = deque[Point](maxlen=KEPT_MS // POINT_MS)
        self._is_fresh = True

    def observe(self, readings: Iterable[Reading], now_ms: int) -> None:
        """Take the readings of all processes that run now; others have ended."""
        known = {}
        for each in readings:
            key = each.process, each.exchange
            known[key] = _next(self._known.get(key), each)
        self._known, self._is_fresh = known, False
        self._add_point(now_ms)

    def rate(self, exchange: str) -> float | None:
        """Messages per second of an exchange; None if they are not known."""
        found = [
            known.per_s
            for (_, name), known in self._known.items()
            if name == exchange and known.per_s is not None
        ]
        return sum(found) if found else None

    def process_rate(self, process: str) -> float | None:
        """Messages per second of a process, by the id of its status; None if not known."""
        found = [
            known.per_s
            for (id_, _), known in self._known.items()
            if id_ == process and known.per_s is not None
        ]
        return sum(found) if found else None

    @property
    def total(self) -> float | None:
        """Messages per second of all; 0 if nothing runs, None if it is not known."""
        if not self._known:
            return None if self._is_fresh else 0.0
        found = [known.per_s for known in self._known.values() if known.per_s is not None]
        return sum(found) if found else None

    @property
    def points(self) -> list[Point]:
        """The totals of the last ten minutes, oldest first."""
        return list(self._points)

    def _add_point(self, now_ms: int) -> None:
        points = self._points
        while points and points[-1].at_ms > now_ms:  # the clock was set back
            points.pop()
        while points and points[0].at_ms <= now_ms - KEPT_MS:
            points.popleft()
        if self.total is not None and (not points or now_ms - points[-1].at_ms >= POINT_MS):
            points.append(Point(now_ms, self.total))


def _next(known: _Known | None, new: Reading) -> _Known:
    if known is None:
        return _Known(new, None)
    old = known.reading
    is_same = new.started_ms == old.started_ms
    since_ms, before = (old.at_ms, old.messages) if is_same else (new.started_ms, 0)
    elapsed_ms = new.at_ms - since_ms
    if elapsed_ms >= _LEAST_MS:
        return _Known(new, max(0, new.messages - before) * 1000 / elapsed_ms)
    if is_same and elapsed_ms >= 0:
        return known
    # It was just restarted, or its clock was set back.
    return _Known(new, known.per_s if is_same else None)
