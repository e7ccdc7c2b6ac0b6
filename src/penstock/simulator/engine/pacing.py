"""Determines when the frames of feeds are due, with a cheap check for none.

A feed is queried every few milliseconds and mostly has no frame, so it first checks, with a
division or a comparison, whether any can be due.
"""

from collections.abc import Callable

from penstock.simulator.market.market import Market, Trade

Frames = Callable[[int, int], list[bytes]]
"""The frames that are due in (after_ms, upto_ms]."""
At = Callable[[int], bytes | None]
"""The frame that is due at a time, if any."""


class IdleSpan:
    """The time range in which a market has no trade, cached so that the check is cheap."""

    def __init__(self) -> None:
        self._after_ms = self._before_ms = 0

    def covers(self, after_ms: int, upto_ms: int) -> bool:
        """Whether (after_ms, upto_ms] is within the range without trades."""
        return self._after_ms <= after_ms and upto_ms < self._before_ms

    def learn(self, after_ms: int, before_ms: int) -> None:
        """Store a range without trades, both ends excluded."""
        self._after_ms, self._before_ms = after_ms, before_ms


class DueTrades:
    """The trades of a market within a time range."""

    def __init__(self, market: Market) -> None:
        self._market, self._idle = market, IdleSpan()

    def __call__(self, after_ms: int, upto_ms: int) -> list[Trade]:
        """The trades in (after_ms, upto_ms]."""
        if self._idle.covers(after_ms, upto_ms):
            return []
        first, end = self._market.id_at(after_ms + 1), self._market.id_at(upto_ms + 1)
        *due, following = self._market.trades(first, end - first + 1)
        self._idle.learn(upto_ms, following.at_ms)
        return due


def instants(every_ms: int, after_ms: int, upto_ms: int, since_ms: int = 0) -> range:
    """The multiples of ``every_ms`` in (after_ms, upto_ms] that are later than ``since_ms``."""
    first = max(after_ms, since_ms) // every_ms + 1
    return range(first * every_ms, upto_ms + 1, every_ms)


def every(every_ms: int, at: At, since_ms: int = 0) -> Frames:
    """A feed of one frame, or none, per multiple of ``every_ms`` after ``since_ms``."""

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        if after_ms // every_ms == upto_ms // every_ms:
            return []
        due = map(at, instants(every_ms, after_ms, upto_ms, since_ms))
        return [frame for frame in due if frame is not None]

    return frames
