"""The gaps of all series, in the state store.

Collectors open gaps, workers fill them, at the same time and on several machines. Each write
changes one document, on the condition that it is as it was read, and at every moment the rows
together are right: see ``ledger`` for rows that overlap.
"""

from collections.abc import Callable
from itertools import product

from msgspec.structs import replace

from penstock.coverage.ledger import Piece, pieces, visible
from penstock.coverage.model import By, GapRow, GapState, as_document, as_gap
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, StateStore
from penstock.storage.state.documents import Condition, Query
from penstock.storage.state.schema import GAPS

_PAGE = 500
_PER_MS: dict[By, int] = {"open_ms": 1, "received_ns": 1_000_000}
"""By position that is a time: how many there are in a millisecond."""

Change = Callable[[GapRow], GapRow | None]
"""Returns the new row of a part of a gap; None leaves it unchanged."""


class GapRows:
    """The gaps of all series. Every method raises StorageError if the store fails."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def open(self, gap: GapRow) -> None:
        """Add a gap, except for the parts that have a row already.

        It extends the row before it, if that has the same cause and no job yet.
        """
        while free := _free(gap, await self._overlapping(gap.stream, gap.by, gap.first, gap.last)):
            if not await self._extend(free):
                await self._store.insert_if_absent(GAPS, as_document(free))

    async def lose(self, gap: GapRow) -> None:
        """Add a gap of records that were lost later, also where a gap was filled before."""

        def change(row: GapRow) -> GapRow | None:
            if row.state != "filled":
                return None
            return replace(gap, first=row.first, last=row.last)

        await self._change(gap.stream, gap.by, gap.first, gap.last, change)
        await self.open(gap)

    async def find(
        self,
        *,
        exchange: str | None = None,
        channel: str | None = None,
        symbol: str | None = None,
        state: GapState | None = None,
    ) -> list[GapRow]:
        """The gaps of these series in this state, as disjoint rows: by series, then in order."""
        asked = {"exchange": exchange, "channel": channel, "symbol": symbol}
        where = [Condition(name, "=", value) for name, value in asked.items() if value is not None]
        if state is None:
            rows = await self._read([where])
        else:
            # Rows in other states may lie above these.
            having = await self._read([[*where, Condition("state", "=", state)]])
            rows = []
            for stream, by in sorted({(row.stream, row.by) for row in having}):
                mine = [row for row in having if (row.stream, row.by) == (stream, by)]
                first, last = min(row.first for row in mine), max(row.last for row in mine)
                rows += await self._overlapping(stream, by, first, last)
        series: dict[tuple[Stream, By], list[GapRow]] = {}
        for row in rows:
            series.setdefault((row.stream, row.by), []).append(row)
        return [
            row
            for key in sorted(series)
            for row in visible(series[key])
            if state in (None, row.state)
        ]

    async def around(self, stream: Stream, by: By, first: int, last: int) -> list[GapRow]:
        """The gaps of one series in a range or next to it, as disjoint rows in order."""
        return visible(await self._overlapping(stream, by, first, last))

    async def within(self, stream: Stream, since_ms: int, until_ms: int) -> list[GapRow]:
        """The gaps of one series in a range of market time or next to it, as disjoint rows.

        Gaps elsewhere are not read, however many there are.
        """
        where = [*_of(stream), Condition("by", "=", "id")]
        ends = Condition("until_ms", ">", since_ms), Condition("until_ms", "=", None)
        begins = Condition("since_ms", "<=", until_ms - 1), Condition("since_ms", "=", None)
        found = visible(await self._read([[*where, *both] for both in product(ends, begins)]))
        for by, per_ms in _PER_MS.items():
            found += await self.around(stream, by, since_ms * per_ms, until_ms * per_ms - 1)
        return found

    async def attach(self, stream: Stream, by: By, first: int, last: int, job_id: str) -> None:
        """Note the job that fills the open gaps in a range; empty: none does any more."""

        def change(row: GapRow) -> GapRow | None:
            return replace(row, job_id=job_id) if row.state == "open" else None

        await self._change(stream, by, first, last, change)

    async def mark_filled(
        self,
        stream: Stream,
        by: By,
        first: int,
        last: int,
        *,
        source: str = "backfill",
        rows: int | None = None,
    ) -> None:
        """Close what is missing in a range, once its records are durable.

        ``rows`` is how many records there are; by default one for each id.
        """
        now_ms = await self._store.now_ms()
        counted_at: int | None = None

        def change(row: GapRow) -> GapRow | None:
            nonlocal counted_at
            if row.state == "filled":
                return None
            count = row.size if by == "id" else 0
            if rows is not None:
                # All are counted in the first row; it may be tried again.
                counted_at = row.first if counted_at is None else counted_at
                count = rows if counted_at == row.first else 0
            return replace(
                row, state="filled", source=source, closed_ms=now_ms, filled_rows=count, job_id=""
            )

        await self._change(stream, by, first, last, change)

    async def mark_unfillable(
        self, stream: Stream, by: By, first: int, last: int, reason: str
    ) -> None:
        """Close the open gaps in a range: the exchange has no such data, in its own words."""
        now_ms = await self._store.now_ms()

        def change(row: GapRow) -> GapRow | None:
            if row.state != "open":
                return None
            closed = {"state": "unfillable", "origin": "exchange", "closed_ms": now_ms}
            return replace(row, reason=reason, job_id="", **closed)

        await self._change(stream, by, first, last, change)

    async def _change(self, stream: Stream, by: By, first: int, last: int, change: Change) -> None:
        """Change all gaps within a range; a row that reaches beyond it is split."""
        at = first
        while at <= last:
            rows = await self._overlapping(stream, by, at, last)
            piece = next((each for each in pieces(rows) if each.last >= at), None)
            if piece is None or piece.first > last:
                return
            start, end = max(piece.first, at), min(piece.last, last)
            part = replace(piece.row, first=start, last=end)
            new = change(part)
            if (
                new is None
                or new == part
                or await self._put(Piece(start, end, piece.row), new, rows)
            ):
                at = end + 1

    async def _put(self, part: Piece, new: GapRow, rows: list[GapRow]) -> bool:
        """Replace a part of a row; False if another process was faster."""
        row = part.row
        if part.first == row.first and part.last < row.last:
            # The rest needs a row of its own: this one ends earlier now.
            for rest in pieces(rows):
                if rest.row is row and rest.last > part.last:
                    first = max(rest.first, part.last + 1)
                    copy = replace(row, first=first, last=rest.last)
                    if not (await self._store.insert_if_absent(GAPS, as_document(copy))).created:
                        return False  # the row that is there now may be shorter than the rest
        if before := _mergeable(new, rows):
            longer = replace(
                before,
                last=max(before.last, new.last),
                until_ms=new.until_ms,
                closed_ms=new.closed_ms,
                filled_rows=before.filled_rows + new.filled_rows,
            )
            if not await self._replace(before, longer):
                return False
            if part.first > row.first:
                return True
            expect = {"state": row.state, "last": row.last, "job_id": row.job_id}
            return await self._store.delete(GAPS, row.id, expect)
        if part.first > row.first:
            return (await self._store.insert_if_absent(GAPS, as_document(new))).created
        return await self._replace(row, new)

    async def _extend(self, gap: GapRow) -> bool:
        """Extend the row that ends where an open gap begins, if it is of the same kind."""
        near = await self._overlapping(gap.stream, gap.by, gap.first - 1, gap.first - 1)
        top = pieces(near)[-1:]
        if not top or top[0].last != gap.first - 1 or top[0].row.last != gap.first - 1:
            return False
        row = top[0].row
        if row.job_id or _kind(row) != _kind(gap):
            return False
        return await self._replace(row, replace(row, last=gap.last, until_ms=gap.until_ms))

    async def _replace(self, row: GapRow, new: GapRow) -> bool:
        """Write a row if it is still as it was read."""

        def change(document: Document) -> Document | None:
            return {**document, **as_document(new)} if as_gap(document) == row else None

        return await self._store.update(GAPS, row.id, change) is not None

    async def _overlapping(self, stream: Stream, by: By, first: int, last: int) -> list[GapRow]:
        """All rows in a range or next to it, and all in the ranges of those."""
        low, high = first - 1, last + 1
        while True:
            where = [
                *_of(stream),
                Condition("by", "=", by),
                Condition("last", ">", low - 1),
                Condition("first", "<=", high),
            ]
            rows = await self._read([where])
            lowest = min((row.first for row in rows), default=low)
            highest = max((row.last for row in rows), default=high)
            if low <= lowest and highest <= high:
                return rows
            low, high = min(low, lowest), max(high, highest)

    async def _read(self, query: Query) -> list[GapRow]:
        rows: list[GapRow] = []
        after: Document | None = None
        while page := await self._store.find(GAPS, query, limit=_PAGE, after=after):
            rows += map(as_gap, page)
            after = {"id": page[-1]["id"]}
        return rows


def _of(stream: Stream) -> list[Condition]:
    return [Condition(name, "=", value) for name, value in stream._asdict().items()]


def _free(gap: GapRow, rows: list[GapRow]) -> GapRow | None:
    """The first part of a gap that has no row; None if there is none."""
    first = gap.first
    for piece in pieces(rows):
        if piece.first > first:
            last = min(gap.last, piece.first - 1)
            break
        first = max(first, piece.last + 1)
    else:
        last = gap.last
    return replace(gap, first=first, last=last) if first <= last else None


def _mergeable(new: GapRow, rows: list[GapRow]) -> GapRow | None:
    """The closed row of the same kind that ends where a closed row begins."""
    if new.state != "open":
        for piece in pieces(rows):
            if piece.last == new.first - 1 and _kind(piece.row) == _kind(new):
                return piece.row
    return None


def _kind(row: GapRow) -> tuple[str | int, ...]:
    """What rows have in common that are merged."""
    return row.state, row.cause, row.origin, row.reason, row.source, row.slot, row.log_id
