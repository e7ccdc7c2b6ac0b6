"""Copies the ledger of what is complete from the state store to the lake.

The ledger is ahead of the lake: it has records that are not sealed yet. So what it says of a series
is copied only once all slots that have records of that series have sealed what they received before
the ledger was read. Until then the lake keeps what it said before.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from penstock.coverage.ledger import Interval, by_series
from penstock.coverage.model import By, GapRow, SlotCoverage, as_coverage, as_gap
from penstock.market.channels import find
from penstock.storage.lake import Lake
from penstock.storage.lake.coverage import COVERAGE_SCHEMA, unified
from penstock.storage.lake.documents import read_all_seals
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import COVERAGE, GAPS, Table

T = TypeVar("T")
_AT_ONCE = 1000


class Blocking(Protocol):
    """Runs a function in a thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class _Pending(NamedTuple):
    """What the ledger said of a stream, when, and the slots that have its records."""

    at_ms: int
    slots: frozenset[tuple[str, str]]
    intervals: tuple[tuple[By, tuple[Interval, ...]], ...]


class CoverageCopy:
    """Copies the ledger, series by series. For one event loop."""

    def __init__(self, store: StateStore, lake: Lake) -> None:
        self._store, self._lake = store, lake
        self._pending: dict[Stream, _Pending] = {}
        self._copied: dict[Stream, tuple[tuple[By, tuple[Interval, ...]], ...]] = {}

    async def copy(self, now_ms: int, blocking: Blocking) -> None:
        """Copy what the ledger said earlier and is sealed by now; then read what it says now.

        Raises:
            StorageError: the store cannot be read, or the lake cannot be written.
        """
        sealed = {
            (state.log_id, state.slot, state.channel): state.sealed_ms
            for state in await read_all_seals(self._store)
        }
        ready = {
            stream: pending.intervals
            for stream, pending in self._pending.items()
            if all(
                sealed.get((log, slot, _table(stream)), 0) >= pending.at_ms
                for log, slot in pending.slots
            )
        }
        changed = {s: found for s, found in ready.items() if self._copied.get(s) != found}
        if changed:
            rows = _rows(changed.items())
            if await blocking(lambda: self._lake.merge_coverage(rows, list(changed))):
                self._copied |= changed
        for stream in ready:
            del self._pending[stream]
        for stream, pending in (await self._read(now_ms)).items():
            self._pending.setdefault(stream, pending)

    async def _read(self, now_ms: int) -> dict[Stream, _Pending]:
        gaps = [as_gap(each) for each in await self._all(GAPS)]
        held = [as_coverage(each) for each in await self._all(COVERAGE)]
        found: dict[Stream, list[tuple[By, tuple[Interval, ...]]]] = {}
        for (stream, by), intervals in by_series(held, gaps).items():
            found.setdefault(stream, []).append((by, tuple(intervals)))
        slots = _slots(held, gaps)
        return {
            stream: _Pending(now_ms, frozenset(slots.get(stream, ())), tuple(intervals))
            for stream, intervals in found.items()
            if find(stream.channel) is not None
        }

    async def _all(self, table: Table) -> list[Document]:
        found: list[Document] = []
        while page := await self._store.find(
            table, limit=_AT_ONCE, after=found[-1] if found else None
        ):
            found += page
        return found


def _slots(
    held: Iterable[SlotCoverage], gaps: Iterable[GapRow]
) -> dict[Stream, set[tuple[str, str]]]:
    found: dict[Stream, set[tuple[str, str]]] = {}
    places = [(each.stream, each.log_id, each.slot) for each in held]
    places += [(each.stream, each.log_id, each.slot) for each in gaps if each.slot]
    for stream, log_id, slot in places:
        found.setdefault(stream, set()).add((f"{log_id:x}", slot))
    return found


def _table(stream: Stream) -> str:
    row = find(stream.channel)
    return row.name if row is not None else stream.channel


def _rows(
    series: Iterable[tuple[Stream, tuple[tuple[By, tuple[Interval, ...]], ...]]],
) -> pa.Table:
    found = [
        {
            "exchange": stream.exchange,
            "channel": stream.channel,
            "symbol": unified(stream),
            "by": by,
            "first": each.first,
            "last": each.last,
            "since": None if each.since_ms is None else each.since_ms * 1000,
            "until": None if each.until_ms is None else each.until_ms * 1000,
            "state": each.state,
            "cause": each.cause,
            "origin": each.origin,
            "reason": each.reason,
            "source": each.source,
        }
        for stream, all_intervals in series
        for by, intervals in all_intervals
        for each in intervals
    ]
    return pa.Table.from_pylist(found, schema=COVERAGE_SCHEMA)
