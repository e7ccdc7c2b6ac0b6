"""Runs of consecutive positions, with the times of their first and last records."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter

from penstock.coverage.model import Run

_first, _last = attrgetter("first"), attrgetter("last")


class TimedRuns:
    """Disjoint runs in order; those that touch are one. The usual one grows at its end."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs: list[Run] = []
        for run in runs:
            self.add(run)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Run) -> bool:
        """Add a run; return whether any of it was new."""
        runs = self._runs
        if runs and run.first == runs[-1].last + 1:
            before = runs[-1]
            runs[-1] = Run(before.first, run.last, before.since_ms, run.until_ms)
            return True
        start = bisect_left(runs, run.first - 1, key=_last)
        end = bisect_right(runs, run.last + 1, key=_first)
        old = runs[start:end]
        if len(old) == 1 and old[0].first <= run.first and run.last <= old[0].last:
            return False
        if old:
            low = min(run, old[0], key=_first)
            high = max(run, old[-1], key=_last)
            run = Run(low.first, high.last, low.since_ms, high.until_ms)
        runs[start:end] = [run]
        return True

    @property
    def last(self) -> Run | None:
        """The last run; None if there is none."""
        return self._runs[-1] if self._runs else None

    def all(self) -> tuple[Run, ...]:
        """Every run, in order."""
        return tuple(self._runs)
