"""Limits as data: how much per period, and from which day on.

Exchanges change their limits and announce the day. A table that keeps the old ones beside the new
says what is known and when it was true; code that asks it needs no change.
"""

from collections.abc import Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")


class LimitSpec(NamedTuple):
    """So much per period."""

    timeframe: str
    """What people call it; it stands in events and statistics."""
    amount: int
    period_s: float
    unit: Literal["weight", "request"] = "weight"
    """Whether a request counts with its cost, or as one."""


class ValidFrom(NamedTuple, Generic[T]):
    """What holds from an instant on."""

    from_ms: int
    what: T


def valid_at(history: Sequence[ValidFrom[T]], at_ms: int) -> T:
    """What held at an instant; the history begins at 0 and rises."""
    return next(known.what for known in reversed(history) if known.from_ms <= at_ms)
