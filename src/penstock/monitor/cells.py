"""The cells of the coverage map: what is complete of a series in each day or hour. Pure.

Times decide, not positions: ids have the times of the records around them. A series is expected
from its first known time to its last. What no interval covers in between was neither recorded nor
reported as a gap yet.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.coverage.ledger import Interval, State

_HELD = ("complete", "filled")
_ALMOST = 0.999999
"""The share of a series with a gap too short to count."""


class Columns(NamedTuple):
    """The columns of a map."""

    from_ms: int
    step_ms: int
    size: int

    @property
    def until_ms(self) -> int:
        return self.from_ms + self.size * self.step_ms


class Row(NamedTuple):
    """The cells of a series, and the share that is complete."""

    cells: str
    share: float | None
    """None if nothing is expected in these columns."""


_Span = tuple[int, int, State]
"""Since, until, state."""


def row_of(intervals: Collection[Interval], columns: Columns) -> Row:
    """The row of a series; see ``MapSeries.cells`` for the characters."""
    spans = list(_spans(intervals))
    if not spans:
        return Row("." * columns.size, None)
    touched = _Touched(*(bytearray(columns.size) for _ in range(4)))
    for span in spans:
        _mark(touched, span, columns)
    held = _lengths(_joined(span for span in spans if span[2] in _HELD), columns)
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    expected = _lengths([(begin, end)], columns)
    cells = "".join(map(_cell, expected, held, *touched))
    share = _share(sum(held), sum(expected), cells)
    if share is not None and any(map(_is_unplaced, intervals)):
        share = min(share, _ALMOST)
    return Row(cells, share)


class _Touched(NamedTuple):
    """By state: for each column 1 if an interval is in it."""

    gap: bytearray
    unfillable: bytearray
    filled: bytearray
    complete: bytearray


def _spans(intervals: Iterable[Interval]) -> Iterator[_Span]:
    """The times of intervals; those without any time cannot be placed."""
    for each in intervals:
        since_ms, until_ms = each.since_ms, each.until_ms
        if since_ms is None:
            since_ms = until_ms
        if since_ms is not None:
            # Records of one id after the other may have times in another order.
            yield since_ms, max(since_ms, until_ms or since_ms), each.state


def _is_unplaced(interval: Interval) -> bool:
    """Whether something is missing at an unknown time, perhaps in any column."""
    return interval.state not in _HELD and interval.since_ms is None and interval.until_ms is None


def _cell(
    expected_ms: int, held_ms: int, gap: int, unfillable: int, filled: int, complete: int
) -> str:
    if gap:
        return "g"
    if unfillable:
        return "u"
    if held_ms < expected_ms:
        return str(10 * held_ms // expected_ms)
    if filled:
        return "F"
    return "f" if expected_ms or complete else "."


def _share(held_ms: int, expected_ms: int, cells: str) -> float | None:
    is_missing = "g" in cells or "u" in cells
    if not expected_ms:
        return None if cells.strip(".") == "" else float(not is_missing)
    share = held_ms / expected_ms
    return min(share, _ALMOST) if is_missing or held_ms < expected_ms else share


def _mark(touched: _Touched, span: _Span, columns: Columns) -> None:
    """Mark the columns that a span is in; one without a length is at its time."""
    since_ms, until_ms, state = span
    first = max(0, (since_ms - columns.from_ms) // columns.step_ms)
    last = (max(since_ms, until_ms - 1) - columns.from_ms) // columns.step_ms
    last = min(columns.size - 1, last)
    if first <= last:
        getattr(touched, state)[first : last + 1] = b"\x01" * (last + 1 - first)


def _joined(spans: Iterable[_Span]) -> list[tuple[int, int]]:
    """The union of times, in order."""
    joined: list[tuple[int, int]] = []
    for since_ms, until_ms, _ in sorted(spans):
        if joined and since_ms <= joined[-1][1]:
            if until_ms > joined[-1][1]:
                joined[-1] = joined[-1][0], until_ms
        else:
            joined.append((since_ms, until_ms))
    return joined


def _lengths(times: Sequence[tuple[int, int]], columns: Columns) -> list[int]:
    """How much of each column disjoint times cover, in milliseconds."""
    lengths = [0] * columns.size
    from_ms, step_ms = columns.from_ms, columns.step_ms
    for since_ms, until_ms in times:
        since_ms, until_ms = max(since_ms, from_ms), min(until_ms, columns.until_ms)  # noqa: PLW2901
        if since_ms >= until_ms:
            continue
        first, last = (since_ms - from_ms) // step_ms, (until_ms - 1 - from_ms) // step_ms
        if first == last:
            lengths[first] += until_ms - since_ms
            continue
        lengths[first] += from_ms + (first + 1) * step_ms - since_ms
        lengths[last] += until_ms - (from_ms + last * step_ms)
        for between in range(first + 1, last):
            lengths[between] += step_ms
    return lengths
