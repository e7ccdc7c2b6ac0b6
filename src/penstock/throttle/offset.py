"""How far an exchange's clock is ahead of this one, as narrow bounds.

An answer made between its question's sending and its arrival shows the exchange's time at some
instant in between. That bounds the offset from both sides; bounds from many answers are
intersected, so that even ``Date`` headers, which count whole seconds, narrow to about one round
trip. Between answers the bounds widen by what two clocks may drift apart.

An answer that contradicts what is known is doubted until a second one agrees with it: a clock that
was set shows the new time with every answer, a single wrong ``Date`` does not.
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
    """What the latest answer said, if it contradicts this and nothing has confirmed it."""

    @property
    def middle_ms(self) -> float:
        """The best guess."""
        return (self.low_ms + self.high_ms) / 2

    @property
    def error_ms(self) -> float:
        """How far the guess may be off."""
        return (self.high_ms - self.low_ms) / 2


def seen(shown_ms: int, resolution_ms: int, sent_ms: float, received_ms: float) -> Offset:
    """The bounds one answer gives, which shows a time cut off to a resolution."""
    return Offset(shown_ms - received_ms, shown_ms + resolution_ms - sent_ms, received_ms)


def narrowed(known: Offset | None, new: Offset) -> Offset:
    """Both together. What contradicts the known is believed once a second answer agrees with it."""
    if known is None:
        return new
    both = _overlap(known, new)
    if both is None and known.doubt is not None:
        both = _overlap(known.doubt, new)
    return both or replace(known, doubt=new)


def step_ms(before: Offset | None, after: Offset) -> int:
    """How far the clock was set, if what is known now contradicts what was known before."""
    if before is None or _overlap(before, after) is not None:
        return 0
    return round(after.middle_ms - before.middle_ms)


def _overlap(known: Offset, new: Offset) -> Offset | None:
    drift_ms = max(0.0, new.at_ms - known.at_ms) * _DRIFT
    low_ms = max(known.low_ms - drift_ms, new.low_ms)
    high_ms = min(known.high_ms + drift_ms, new.high_ms)
    return Offset(low_ms, high_ms, new.at_ms) if low_ms <= high_ms else None
