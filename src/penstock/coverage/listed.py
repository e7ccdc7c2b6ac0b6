"""Compares the positions that are stored of a series with those that the ledger lists. Pure.

Live detection finds what was not received. It does not find what was recorded and lost later, with
damaged files of the log or because it was deleted: the ledger still lists that as complete.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.model import By, GapRow, SlotCoverage


class Missing(NamedTuple):
    """Positions that are not stored, as ranges with both ends included."""

    lost: list[IdGap]
    """Those that were recorded."""
    unreported: list[IdGap]
    """Those between recorded ones that no slot holds and no gap has."""


class Listed(NamedTuple):
    """What the ledger lists of one series."""

    recorded: IdRuns
    """What the slots of this log hold, and what was filled."""
    others: IdRuns
    """What the slots of other logs hold."""
    unfilled: IdRuns
    """What is known to be missing."""
    just_filled: IdRuns
    """What was filled so recently that the slot that holds it may not be listed yet."""

    def batch(self, first: int, most: int) -> IdGap | None:
        """The range from ``first`` on that has so many recorded positions; None at the end.

        What lies between these positions belongs to it, at no cost.
        """
        end = first - 1
        for low, high in self.recorded.runs():
            if high < first:
                continue
            start = max(low, first)
            if high - start + 1 >= most:
                return IdGap(first, start + most - 1)
            most, end = most - (high - start + 1), high
        return IdGap(first, end) if end >= first else None

    def missing(self, wanted: IdGap, stored: IdRuns) -> Missing:
        """What is missing of a range, of which this log and the lake hold ``stored``."""
        gone = _without([wanted], stored, self.others, self.unfilled)
        unlisted = _without(gone, self.recorded)
        return Missing(_without(gone, _runs(unlisted)), _without(unlisted, self.just_filled))


def listed(
    coverage: Iterable[SlotCoverage], rows: Iterable[GapRow], by: By, log_id: int, settled_ms: int
) -> Listed:
    """What the documents of one stream say, by these positions.

    Slots are listed that hold what was filled before ``settled_ms``.
    """
    found = Listed(IdRuns(), IdRuns(), IdRuns(), IdRuns())
    for each in coverage:
        if each.by == by:
            held = found.recorded if each.log_id == log_id else found.others
            for run in each.runs:
                held.add_run(run.first, run.last)
    for row in rows:
        if row.by == by:
            known = found.unfilled
            if row.state == "filled":
                is_settled = (row.closed_ms or 0) <= settled_ms
                known = found.recorded if is_settled else found.just_filled
            known.add_run(row.first, row.last)
    return found


def _without(ranges: Sequence[IdGap], *others: IdRuns) -> list[IdGap]:
    """The parts of ranges outside of all others."""
    found = list(ranges)
    for other in others:
        found = [IdGap(*part) for each in found for part in other.lacking(*each)]
    return found


def _runs(ranges: Iterable[IdGap]) -> IdRuns:
    runs = IdRuns()
    for each in ranges:
        runs.add_run(*each)
    return runs
