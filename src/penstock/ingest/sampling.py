"""Estimates how many rows a range has from pages of parts of it. Pure.

The range is divided into strata of equal size, and one page shows the density of each.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import variance
from typing import NamedTuple

from penstock.ingest.id_ranges import IdRange


class Sample(NamedTuple):
    """A page of one stratum."""

    size: int
    """The places for a row in the stratum: ids, or intervals."""
    covered: int
    """How many of them the page covers."""
    rows: int
    """How many rows it has in these."""

    @property
    def estimate(self) -> float:
        """The rows of the stratum."""
        return self.rows / self.covered * self.size if self.covered else 0.0

    @property
    def is_exact(self) -> bool:
        """Whether the page covers all of the stratum."""
        return self.covered >= self.size


class Estimate(NamedTuple):
    """A number of rows, and its standard error as a share of it; 0 if it is exact."""

    rows: int
    error: float


def strata(part: IdRange, count: int) -> list[IdRange]:
    """Up to so many strata of a part of a range, in order."""
    count = max(1, min(count, part.size))
    ends = [part.first + part.size * number // count for number in range(count + 1)]
    return [IdRange(one, other - 1) for one, other in pairwise(ends)]


def estimated(samples: Sequence[Sample]) -> Estimate:
    """The rows of all strata together."""
    rows = round(sum(each.estimate for each in samples))
    guessed = [each for each in samples if not each.is_exact]
    if not guessed or not rows:
        return Estimate(rows, 0.0)
    densities = [each.rows / each.covered if each.covered else 0.0 for each in guessed]
    spread = sqrt(variance(densities)) if len(densities) > 1 else densities[0]
    return Estimate(rows, spread * sqrt(sum(each.size**2 for each in guessed)) / rows)
