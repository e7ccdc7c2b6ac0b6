"""Defines limits as data: an amount per period, and the day from which it is valid.

Exchanges change their limits and announce the day. A table has the old limits and the new ones with
their dates; code that reads it needs no change.
"""

from collections.abc import Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")


class LimitSpec(NamedTuple):
    """An amount per period."""

    timeframe: str
    """Its common name, shown in events and statistics."""
    amount: int
    period_s: float
    unit: Literal["weight", "request"] = "weight"
    """Whether a request counts with its cost, or as 1."""


class ValidFrom(NamedTuple, Generic[T]):
    """A value that is valid from a time on."""

    from_ms: int
    what: T


def valid_at(history: Sequence[ValidFrom[T]], at_ms: int) -> T:
    """The value that is valid at a time; the history begins at 0 and is ascending."""
    return next(known.what for known in reversed(history) if known.from_ms <= at_ms)
