"""Which parts of which series are complete, as a map: one character per series and day or hour."""

import asyncio
from typing import NamedTuple

from msgspec import Struct

from penstock.coverage.ledger import by_series
from penstock.coverage.model import GapRow, SlotCoverage, as_coverage, as_gap
from penstock.monitor.cells import Columns, row_of
from penstock.monitor.series import (
    SeriesFilter,
    SeriesKey,
    key_of,
    read_ordered,
    readable,
    unified,
)
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore
from penstock.storage.state.schema import COVERAGE, GAPS


class MapSeries(Struct, frozen=True, kw_only=True):
    """One row of the map."""

    exchange: str
    channel: str
    symbol: str
    share: float | None
    """The share of the expected time that is complete, from 0 to 1; 1 only if nothing is missing.
    Null if nothing is expected in these columns."""
    cells: str
    """One character per column: ``.`` nothing is expected, ``g`` an open gap, ``u`` a gap that
    cannot be filled, ``f`` complete, ``F`` complete after filling, else the share that is complete
    in tenths: what is missing was not reported as a gap yet."""


class CoverageMap(Struct, frozen=True, kw_only=True):
    """A page of the map."""

    from_ms: int
    """The beginning of the first column."""
    step_ms: int
    columns: int
    series: list[MapSeries]
    """By exchange, channel and symbol."""
    more: str | None
    """The ``after`` of the next page; null on the last."""


async def read_map(
    store: StateStore,
    columns: Columns,
    wanted: SeriesFilter,
    limit: int,
    after: SeriesKey | None = None,
) -> CoverageMap:
    """The map of the first ``limit`` series after one of them.

    Raises:
        StorageError: the store failed.
    """
    page = await _read_page(store, wanted, limit, after)
    # In a thread: of many series it takes a while, and others are served meanwhile.
    series = await asyncio.to_thread(_rows, page, columns)
    return CoverageMap(
        from_ms=columns.from_ms,
        step_ms=columns.step_ms,
        columns=columns.size,
        series=series,
        more=key_of(page.last) if page.last is not None else None,
    )


class _Page(NamedTuple):
    """The documents of some series."""

    coverage: list[SlotCoverage]
    gaps: list[GapRow]
    last: Stream | None
    """The last series, if there are more after it."""


async def _read_page(
    store: StateStore, wanted: SeriesFilter, limit: int, after: SeriesKey | None
) -> _Page:
    """The documents of the first ``limit`` series: those with coverage, and with gaps alone."""
    series: set[Stream] = set()
    coverage: list[SlotCoverage] = []
    async for document in read_ordered(store, COVERAGE, wanted, after):
        found = readable(as_coverage, document)
        if found is None:
            continue
        if found.stream not in series and len(series) > limit:
            break
        series.add(found.stream)
        coverage.append(found)
    end = max(series) if len(series) > limit else None
    gaps: list[GapRow] = []
    of_gaps: set[Stream] = set()
    async for document in read_ordered(store, GAPS, wanted, after):
        gap = readable(as_gap, document)
        if gap is None:
            continue
        # Those of series without coverage count too.
        if (end is not None and gap.stream > end) or (
            gap.stream not in of_gaps and len(of_gaps) > limit
        ):
            break
        of_gaps.add(gap.stream)
        gaps.append(gap)
    shown = sorted(series | of_gaps)
    if len(shown) <= limit:
        return _Page(coverage, gaps, None)
    last = shown[limit - 1]
    return _Page(
        [each for each in coverage if each.stream <= last],
        [each for each in gaps if each.stream <= last],
        last,
    )


def _rows(page: _Page, columns: Columns) -> list[MapSeries]:
    rows = []
    for (stream, _), intervals in by_series(page.coverage, page.gaps).items():
        cells, share = row_of(intervals, columns)
        rows.append(
            MapSeries(
                exchange=stream.exchange,
                channel=stream.channel,
                symbol=unified(stream.symbol),
                share=share,
                cells=cells,
            )
        )
    return rows
