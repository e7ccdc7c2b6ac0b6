"""Estimates how many trades a range has from its volume. Pure.

Candles show the volume of the whole range, and pages of trades how many trades there are for it.
The pages are those of equal shares of the volume, so that busy times count for as much as they
trade. The number of trades varies more with time than their average size does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import NamedTuple

from penstock.market.events import Candle
from penstock.market.interval import Interval


class Estimate(NamedTuple):
    """A number, and its standard error as a share of it; 0 if it is exact."""

    value: float
    error: float = 0.0


class Bin(NamedTuple):
    """A time, and the volume in it."""

    since_ms: int
    until_ms: int
    volume: float

    def within(self, since_ms: int, until_ms: int) -> "Bin | None":
        """The part of it in [since, until), as if its volume was evenly spread."""
        first_ms, end_ms = max(self.since_ms, since_ms), min(self.until_ms, until_ms)
        if first_ms >= end_ms:
            return None
        share = (end_ms - first_ms) / (self.until_ms - self.since_ms)
        return Bin(first_ms, end_ms, self.volume * share)


@dataclass(frozen=True)
class VolumeCurve:
    """The volume of a market over time."""

    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, candles: Iterable[Candle], interval: Interval, now_ms: int) -> "VolumeCurve":
        """From candles, of which the last may still be open."""
        ends = [(each, min(interval.next_open(each.open_ms), now_ms)) for each in candles]
        return cls(
            tuple(
                Bin(each.open_ms, end_ms, float(each.volume))
                for each, end_ms in ends
                if end_ms > each.open_ms
            )
        )

    def within(self, since_ms: int, until_ms: int) -> "VolumeCurve":
        """The part in [since, until)."""
        found = [each.within(since_ms, until_ms) for each in self.bins]
        return VolumeCurve(tuple(each for each in found if each is not None))

    @property
    def total(self) -> float:
        """The volume of all of it."""
        return sum(each.volume for each in self.bins)

    def times(self, count: int) -> list[int]:
        """The middles of so many equal shares of the volume, in order."""
        share, found, before = self.total / count, list[int](), 0.0
        for since_ms, until_ms, volume in self.bins:
            while len(found) < count and (wanted := (len(found) + 0.5) * share) < before + volume:
                into_ms = int((until_ms - since_ms) * (wanted - before) / volume)
                found.append(min(since_ms + into_ms, until_ms - 1))
            before += volume
        return found

    def bin_at(self, at_ms: int) -> Bin:
        """The bin of a time with volume."""
        return next(each for each in self.bins if each.since_ms <= at_ms < each.until_ms)


def mean_of(values: Sequence[float]) -> Estimate:
    """The mean of a sample."""
    if not values:
        return Estimate(0.0)
    middle = mean(values)
    spread = stdev(values) if len(values) > 1 else middle
    return Estimate(middle, spread / sqrt(len(values)) / middle if middle else 0.0)
