"""Pacing: when feeds speak, and how they find out cheaply that they need not.

A feed is asked every few milliseconds and has mostly nothing to say, so the first thing it does is
to see, at the cost of a division or a comparison, that nothing can be due.
"""

from collections.abc import Callable

from penstock.simulator.market.market import Market, Trade

Frames = Callable[[int, int], list[bytes]]
"""The frames that fall due in (after_ms, upto_ms]."""
At = Callable[[int], bytes | None]
"""The frame that falls due at an instant, if any."""


class IdleSpan:
    """The stretch in which a market is known not to trade, so that asking again costs nothing."""

    def __init__(self) -> None:
        self._after_ms = self._before_ms = 0

    def covers(self, after_ms: int, upto_ms: int) -> bool:
        """Whether (after_ms, upto_ms] is known to be without a trade."""
        return self._after_ms <= after_ms and upto_ms < self._before_ms

    def learn(self, after_ms: int, before_ms: int) -> None:
        """Nothing happens between these instants, both excluded."""
        self._after_ms, self._before_ms = after_ms, before_ms


class DueTrades:
    """The trades of a market that fall due in a stretch."""

    def __init__(self, market: Market) -> None:
        self._market, self._idle = market, IdleSpan()

    def __call__(self, after_ms: int, upto_ms: int) -> list[Trade]:
        """Those in (after_ms, upto_ms]."""
        if self._idle.covers(after_ms, upto_ms):
            return []
        first, end = self._market.id_at(after_ms + 1), self._market.id_at(upto_ms + 1)
        *due, following = self._market.trades(first, end - first + 1)
        self._idle.learn(upto_ms, following.at_ms)
        return due


def instants(every_ms: int, after_ms: int, upto_ms: int, since_ms: int = 0) -> range:
    """The whole multiples of ``every_ms`` in (after_ms, upto_ms], those up to ``since_ms`` not."""
    first = max(after_ms, since_ms) // every_ms + 1
    return range(first * every_ms, upto_ms + 1, every_ms)


def every(every_ms: int, at: At, since_ms: int = 0) -> Frames:
    """One frame, or none, per whole ``every_ms`` after ``since_ms``."""

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        if after_ms // every_ms == upto_ms // every_ms:
            return []
        due = map(at, instants(every_ms, after_ms, upto_ms, since_ms))
        return [frame for frame in due if frame is not None]

    return frames
