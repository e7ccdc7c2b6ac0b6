"""Estimates how far an exchange's clock is ahead of this one, as narrow bounds.

A response shows the exchange's time at some point between the sending of its request and its own
arrival. That bounds the offset from both sides. Bounds from many responses are intersected, so
even ``Date`` headers, which have whole seconds, narrow to about one round trip. Between responses
the bounds widen by the possible drift of two clocks.

A response that contradicts the estimate is accepted once a second one agrees with it: a clock that
was stepped shows the new time in every response, a single wrong ``Date`` is not repeated.
"""

from dataclasses import dataclass, replace

_DRIFT = 50e-6


@dataclass(frozen=True, slots=True)
class Offset:
    """The exchange's time minus this machine's, in ms: at least ``low_ms``, at most ``high_ms``."""

    low_ms: float
    high_ms: float
    at_ms: float
    doubt: "Offset | None" = None
    """The bounds from the latest response, if they contradict these and are not confirmed yet."""

    @property
    def middle_ms(self) -> float:
        """The best estimate."""
        return (self.low_ms + self.high_ms) / 2

    @property
    def error_ms(self) -> float:
        """The maximum error of the estimate."""
        return (self.high_ms - self.low_ms) / 2


def seen(shown_ms: int, resolution_ms: int, sent_ms: float, received_ms: float) -> Offset:
    """The bounds from one response, which shows a time truncated to a resolution."""
    return Offset(shown_ms - received_ms, shown_ms + resolution_ms - sent_ms, received_ms)


def narrowed(known: Offset | None, new: Offset) -> Offset:
    """The bounds from both. A contradicting response needs a second one that agrees with it."""
    if known is None:
        return new
    both = _overlap(known, new)
    if both is None and known.doubt is not None:
        both = _overlap(known.doubt, new)
    return both or replace(known, doubt=new)


def step_ms(before: Offset | None, after: Offset) -> int:
    """How far the clock was stepped, if the new bounds contradict the previous ones; else 0."""
    if before is None or _overlap(before, after) is not None:
        return 0
    return round(after.middle_ms - before.middle_ms)


def _overlap(known: Offset, new: Offset) -> Offset | None:
    drift_ms = max(0.0, new.at_ms - known.at_ms) * _DRIFT
    low_ms = max(known.low_ms - drift_ms, new.low_ms)
    high_ms = min(known.high_ms + drift_ms, new.high_ms)
    return Offset(low_ms, high_ms, new.at_ms) if low_ms <= high_ms else None
