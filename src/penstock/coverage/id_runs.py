"""Gaps are ids that must exist and were not received.

Where an exchange numbers its trades consecutively, all missing ids are known. ``IdRuns`` stores the
ids seen as runs of consecutive ids, so its memory grows with the number of gaps, not of trades.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple


class IdGap(NamedTuple):
    """Consecutive ids that are missing, both ends included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class IdRuns:
    """The ids seen of one stream, and the missing ids between them."""

    __slots__ = ("_begin", "_firsts", "_lasts")

    def __init__(self) -> None:
        # Run i holds every id from _firsts[i] to _lasts[i]; runs are disjoint, rising and never
        # touch. In the usual case there is one, and it grows at its end.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._begin: int | None = None

    def add(self, seen: int) -> bool:
        """Add an id; return whether it was new."""
        return self.add_run(seen, seen)

    def add_run(self, first: int, last: int) -> bool:
        """Add every id from first to last; return whether any was new."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and first == lasts[-1] + 1:
            lasts[-1] = last
            return True
        # Runs that overlap the new one or touch it are joined with it.
        start = bisect_left(lasts, first - 1)
        end = bisect_right(firsts, last + 1)
        if end - start == 1 and firsts[start] <= first and last <= lasts[start]:
            return False
        if end > start:
            first, last = min(first, firsts[start]), max(last, lasts[end - 1])
        firsts[start:end] = [first]
        lasts[start:end] = [last]
        return True

    @property
    def begin(self) -> int | None:
        """The id from which on all are wanted, if it was set."""
        return self._begin

    def begin_with(self, first: int) -> None:
        """Set the id from which on all are wanted: those below the lowest seen are missing."""
        self._begin = first

    @property
    def first(self) -> int | None:
        """The lowest id seen."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The highest id seen."""
        return self._lasts[-1] if self._lasts else None

    def runs(self) -> list[tuple[int, int]]:
        """Every run of consecutive ids seen, both ends included."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def gaps(self, upto: int | None = None) -> list[IdGap]:
        """Return the gaps between the ids seen, and up to ``upto`` if that is known to exist."""
        return [IdGap(*hole) for hole in self.missing(upto)]

    def missing(self, upto: int | None = None) -> list[tuple[int, int]]:
        """Return the same as plain pairs, for speed: thousands may be written every second."""
        firsts, lasts, begin = self._firsts, self._lasts, self._begin
        holes = [(last + 1, first - 1) for last, first in zip(lasts, firsts[1:], strict=False)]
        if begin is not None:
            below = firsts[0] - 1 if firsts else upto or 0
            if begin <= below:
                holes.insert(0, (begin, below))
        if upto is not None and lasts and upto > lasts[-1]:
            holes.append((lasts[-1] + 1, upto))
        return holes

    def lacking(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ids from first to last that were not seen, as ranges with both ends included."""
        found: list[tuple[int, int]] = []
        for index in range(bisect_left(self._lasts, first), bisect_right(self._firsts, last)):
            if first < self._firsts[index]:
                found.append((first, self._firsts[index] - 1))
            first = self._lasts[index] + 1
        return [*found, (first, last)] if first <= last else found

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_left(self._lasts, number)
        return index < len(self._lasts) and self._firsts[index] <= number

    def __len__(self) -> int:
        return sum(b - a + 1 for a, b in zip(self._firsts, self._lasts, strict=True))
