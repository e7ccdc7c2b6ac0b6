"""Combines what all slots hold of a series with its gaps into one list of intervals.

Rows of gaps may overlap while a row is being split or merged: of several rows at one position, the
one with the greatest ``first`` counts. So a part of a gap is filled by one row above it, written at
once, and readers need no lock.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from penstock.coverage.model import DAMAGED, By, GapRow, Origin, Run, SlotCoverage
from penstock.storage.log.keys import Stream

State = Literal["complete", "gap", "filled", "unfillable"]


class Interval(Struct, frozen=True, kw_only=True):
    """A range of a series in one state, both ends included."""

    first: int
    last: int
    since_ms: int | None
    """Market time of its first record; of a gap, of the record before it. None if unknown."""
    until_ms: int | None
    state: State
    cause: str = ""
    origin: Origin | Literal[""] = ""
    reason: str = ""
    source: str = ""

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Piece(NamedTuple):
    """A part of a gap's row that no other row overrides."""

    first: int
    last: int
    row: GapRow


def pieces(rows: Iterable[GapRow]) -> list[Piece]:
    """The parts of one series' rows that count, in order."""
    waiting = sorted(rows, key=lambda row: row.first)
    edges = sorted({row.first for row in waiting} | {row.last + 1 for row in waiting})
    found: list[Piece] = []
    above: list[tuple[int, int, GapRow]] = []  # a heap; the greatest first comes first
    index = 0
    for start, end in pairwise(edges):
        while index < len(waiting) and waiting[index].first <= start:
            heappush(above, (-waiting[index].first, -index, waiting[index]))
            index += 1
        while above and above[0][2].last < start:
            heappop(above)
        if above:
            row = above[0][2]
            if found and found[-1].row is row and found[-1].last == start - 1:
                found[-1] = Piece(found[-1].first, end - 1, row)
            else:
                found.append(Piece(start, end - 1, row))
    return found


def visible(rows: Iterable[GapRow]) -> list[GapRow]:
    """The same gaps as disjoint rows, in order."""
    return [
        replace(row, first=first, last=last, **_times(row, first, last))
        for first, last, row in pieces(rows)
    ]


def _times(row: GapRow, first: int, last: int) -> dict[str, int | None]:
    """Market times of a part of a row: exact by time, else the bounds of the whole."""
    if row.by == "id":
        return {}
    return {"since_ms": time_ms(row.by, first), "until_ms": time_ms(row.by, last + 1)}


def time_ms(by: By, position: int) -> int | None:
    """The time of a position; None for an id."""
    match by:
        case "id":
            return None
        case "open_ms":
            return position
        case "received_ns":
            return position // 1_000_000


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """The union of runs; those that overlap or touch are one."""
    found: list[Run] = []
    for run in sorted(runs):
        if found and run.first <= found[-1].last + 1:
            before = found[-1]
            if run.last > before.last:
                found[-1] = Run(before.first, run.last, before.since_ms, run.until_ms)
        else:
            found.append(run)
    return found


def intervals(coverage: Iterable[SlotCoverage], rows: Iterable[GapRow]) -> list[Interval]:
    """The ordered, disjoint intervals of one series, from what all slots hold and its gaps.

    What a slot holds is complete although a row calls it missing: the row is closed later than its
    records are written. Not so what was lost after it was recorded: the slot still lists that. What
    lies between two intervals is in no slot and was not reported as a gap yet.
    """
    gaps = visible(rows)
    runs = joined_runs(run for each in coverage for run in each.runs)
    found = [_of_gap(gap) for gap in gaps if _counts_before_runs(gap)]
    found += _without(map(_complete, runs), found)
    missing = (_of_gap(gap) for gap in gaps if not _counts_before_runs(gap))
    found += _without(missing, found)
    return _merged(sorted(found, key=lambda interval: interval.first))


def by_series(
    coverage: Iterable[SlotCoverage], rows: Iterable[GapRow]
) -> dict[tuple[Stream, By], list[Interval]]:
    """The intervals of every series in these documents."""
    held: dict[tuple[Stream, By], list[SlotCoverage]] = {}
    gaps: dict[tuple[Stream, By], list[GapRow]] = {}
    for each in coverage:
        held.setdefault((each.stream, each.by), []).append(each)
    for row in rows:
        gaps.setdefault((row.stream, row.by), []).append(row)
    return {
        series: intervals(held.get(series, ()), gaps.get(series, ()))
        for series in sorted({*held, *gaps})
    }


def _counts_before_runs(gap: GapRow) -> bool:
    return gap.state == "filled" or gap.cause == DAMAGED


def _complete(run: Run) -> Interval:
    return Interval(**run._asdict(), state="complete")


def _of_gap(gap: GapRow) -> Interval:
    return Interval(
        first=gap.first,
        last=gap.last,
        since_ms=gap.since_ms,
        until_ms=gap.until_ms,
        state="gap" if gap.state == "open" else gap.state,
        cause=gap.cause,
        origin=gap.origin,
        reason=gap.reason,
        source=gap.source,
    )


def _without(found: Iterable[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The parts of intervals outside of the others; both are disjoint, the first are sorted."""
    left: list[Interval] = []
    others, index = sorted(others, key=lambda other: other.first), 0
    for interval in found:
        while index < len(others) and others[index].last < interval.first:
            index += 1
        rest, at = interval, index
        while at < len(others) and others[at].first <= interval.last:
            other = others[at]
            if rest.first < other.first:
                left.append(replace(rest, last=other.first - 1, until_ms=other.since_ms))
            rest = replace(rest, first=other.last + 1, since_ms=other.until_ms)
            at += 1
        if rest.first <= rest.last:
            left.append(rest)
    return left


def _merged(found: Iterable[Interval]) -> list[Interval]:
    """The same intervals; those that touch and are equal otherwise are one."""
    merged: list[Interval] = []
    for interval in found:
        before = merged[-1] if merged else None
        if (
            before is not None
            and before.last + 1 == interval.first
            and _kind(before) == _kind(interval)
        ):
            merged[-1] = replace(before, last=interval.last, until_ms=interval.until_ms)
        else:
            merged.append(interval)
    return merged


def _kind(interval: Interval) -> tuple[str, ...]:
    return interval.state, interval.cause, interval.origin, interval.reason, interval.source
