"""The gaps of all series, and why each can be filled or not."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from penstock.coverage.ledger import pieces, visible
from penstock.coverage.model import By, GapRow, GapState, Origin, as_gap
from penstock.errors import UnknownGap
from penstock.ingest.gap_fill import why_not
from penstock.monitor.series import SeriesFilter, readable, unified
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import GAPS

_ORDER = ("exchange", "channel", "symbol", "by", "last")
"""That of an index."""
_PAGE = 500
_PART = "@"
"""Separates the id of a row from the position of a part of it."""


class GapView(Struct, frozen=True, kw_only=True):
    """A gap. Positions are those of ``by``, both ends included."""

    id: str
    exchange: str
    channel: str
    symbol: str
    by: By
    first: int
    last: int
    size: int
    since_ms: int | None
    """The market time of the record before it."""
    until_ms: int | None
    """The market time of the record after it."""
    state: GapState
    cause: str
    origin: Origin
    reason: str
    source: str
    """What filled it."""
    opened_ms: int
    closed_ms: int | None
    job_id: str | None
    """The job that fills it."""
    fillable: bool
    """Whether a job can be made for it."""
    why_not: str
    """Why not; empty if it can be filled."""


class Gaps(Struct, frozen=True, kw_only=True):
    """A page of gaps, by series and where they end."""

    items: list[GapView]
    more: str | None
    """The ``after`` of the next page; null on the last."""


class GapCounts(Struct, frozen=True, kw_only=True):
    """The number of gaps, by state."""

    changed_ms: int
    """When one of the numbers was last seen to change."""
    gaps_open: int
    gaps_filled: int
    gaps_unfillable: int


class GapFilter(NamedTuple):
    """Which gaps are wanted; None for any."""

    series: SeriesFilter = SeriesFilter()
    state: GapState | None = None
    from_ms: int | None = None
    """Gaps that end before this are left out …"""
    until_ms: int | None = None
    """… and those that begin at this or later."""

    def query(self) -> Query:
        """A query for rows that may be wanted: those by id are compared when they are read."""
        where = self.series.conditions()
        if self.state is not None:
            where.append(Condition("state", "=", self.state))
        if self.from_ms is None and self.until_ms is None:
            return [where]
        return [
            [*where, Condition("by", "=", "id")],
            [*where, Condition("by", "=", "open_ms"), *self._positions(1)],
            [*where, Condition("by", "=", "received_ns"), *self._positions(1_000_000)],
        ]

    def _positions(self, per_ms: int) -> list[Condition]:
        found = []
        if self.from_ms is not None:
            found.append(Condition("last", ">", self.from_ms * per_ms - 1))
        if self.until_ms is not None:
            found.append(Condition("first", "<=", self.until_ms * per_ms - 1))
        return found

    def has(self, row: GapRow) -> bool:
        """Whether the time of a row is wanted; one of unknown time is."""
        since_ms = row.until_ms if row.since_ms is None else row.since_ms
        until_ms = row.since_ms if row.until_ms is None else row.until_ms
        if since_ms is None or until_ms is None or row.by != "id":
            return True
        is_later = self.from_ms is None or until_ms >= self.from_ms
        return is_later and (self.until_ms is None or since_ms < self.until_ms)


async def read_gaps(
    store: StateStore, wanted: GapFilter, limit: int, after: str | None = None
) -> Gaps:
    """The gaps of the first ``limit`` rows after one of them, by series and where they end.

    Raises:
        StorageError: the store failed.
    """
    rows: list[GapRow] = []
    async for row in _rows(store, wanted.query(), after):
        if wanted.has(row):
            rows.append(row)
        if len(rows) > limit:
            break
    more = _token(rows[limit - 1]) if len(rows) > limit else None
    return Gaps(items=await _views(store, rows[:limit]), more=more)


def is_token(text: str) -> bool:
    """Whether a text is the ``more`` of a page."""
    try:
        msgspec.json.decode(text, type=_Place)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False
    return True


async def find_gap(store: StateStore, id_: str) -> GapRow:
    """The gap with the id that a page has.

    Raises:
        UnknownGap: there is none any more.
        StorageError: the store failed.
    """
    row_id, is_part, position = id_.rpartition(_PART)
    if not is_part or not position.isdecimal():
        row_id, position = id_, ""
    document = await store.get(GAPS, row_id)
    row = None if document is None else readable(as_gap, document)
    if row is None:
        raise UnknownGap(id_)
    at = int(position) if position else row.first
    for found, part in _parts([row, *await _above(store, [row])]):
        if found.id == row.id and part.first <= at <= part.last:
            return part
    raise UnknownGap(id_)


class _Place(NamedTuple):
    """Where a row is in the order of all."""

    exchange: str
    channel: str
    symbol: str
    by: By
    last: int
    id: str


def _token(row: GapRow) -> str:
    place = _Place(*row.stream, row.by, row.last, row.id)
    return msgspec.json.encode(place).decode()


async def _rows(store: StateStore, query: Query, after: str | None = None) -> AsyncIterator[GapRow]:
    last: Document | None = None
    if after is not None:
        last = msgspec.json.decode(after, type=_Place)._asdict()
    while page := await store.find(GAPS, query, _ORDER, limit=_PAGE, after=last):
        for document in page:
            if (row := readable(as_gap, document)) is not None:
                yield row
        if len(page) < _PAGE:
            return
        last = page[-1]


async def _above(store: StateStore, rows: Sequence[GapRow]) -> list[GapRow]:
    """The rows that override parts of these: they begin later, within them."""
    ranges: dict[tuple[Stream, By], tuple[int, int]] = {}
    for row in rows:
        first, last = ranges.get((row.stream, row.by), (row.first, row.last))
        ranges[row.stream, row.by] = min(first, row.first), max(last, row.last)
    found = []
    for (stream, by), (first, last) in ranges.items():
        where = [
            *SeriesFilter(*stream).conditions(),
            Condition("by", "=", by),
            Condition("last", ">", first),
            Condition("first", ">", first),
            Condition("first", "<=", last),
        ]
        # One query for each: together they would be too long for some databases.
        found += [row async for row in _rows(store, [where])] if first < last else []
    return found


async def _views(store: StateStore, rows: Sequence[GapRow]) -> list[GapView]:
    """The parts of rows that count, in the order of the rows."""
    known = {row.id: row for row in [*await _above(store, rows), *rows]}
    series: dict[tuple[Stream, By], list[GapRow]] = {}
    for row in known.values():
        series.setdefault((row.stream, row.by), []).append(row)
    wanted = {row.id for row in rows}
    found: dict[str, list[GapView]] = {}
    for of_series in series.values():
        for row, part in _parts(of_series):
            if row.id in wanted:
                found.setdefault(row.id, []).append(_view(row, part))
    return [view for row in rows for view in found.get(row.id, ())]


def _parts(rows: Sequence[GapRow]) -> Iterable[tuple[GapRow, GapRow]]:
    """The parts of one series' rows that count, each with the row that it belongs to."""
    return zip((piece.row for piece in pieces(rows)), visible(rows), strict=True)


def _view(row: GapRow, part: GapRow) -> GapView:
    reason = why_not(part)
    return GapView(
        id=row.id if part.first == row.first else f"{row.id}{_PART}{part.first}",
        exchange=part.exchange,
        channel=part.channel,
        symbol=unified(part.symbol),
        by=part.by,
        first=part.first,
        last=part.last,
        size=part.size,
        since_ms=part.since_ms,
        until_ms=part.until_ms,
        state=part.state,
        cause=part.cause,
        origin=part.origin,
        reason=part.reason,
        source=part.source,
        opened_ms=part.opened_ms,
        closed_ms=part.closed_ms,
        job_id=part.job_id or None,
        fillable=not reason,
        why_not=reason,
    )
