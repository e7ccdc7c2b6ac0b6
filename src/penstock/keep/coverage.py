"""Copies the ledger of what is complete from the state store to the lake.

The ledger is ahead of the lake: it has records that are not sealed yet. So what it says of a series
is copied only once every slot has sealed the records that were counted in it, and the records that
filled a gap. Until then it is kept here, and the lake has what was said before.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from penstock.coverage.ledger import Interval, by_series
from penstock.coverage.model import By, as_coverage, as_gap
from penstock.market.channels import find
from penstock.storage.lake import Lake
from penstock.storage.lake.coverage import COVERAGE_SCHEMA, unified
from penstock.storage.lake.documents import SealState, read_all_seals
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import COVERAGE, GAPS, Table

T = TypeVar("T")
_AT_ONCE = 1000


class Blocking(Protocol):
    """Runs a function in a thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


_Intervals = tuple[tuple[By, tuple[Interval, ...]], ...]


class _Said(NamedTuple):
    """What the ledger said of a stream, and what has to be sealed before it is true of the lake."""

    intervals: _Intervals
    numbers: dict[tuple[str, str], int]
    """By log and slot, the number up to which records are counted."""
    filled_ms: int
    """When the last gap was filled."""


class CoverageCopy:
    """Copies the ledger, series by series. For one event loop."""

    def __init__(self, store: StateStore, lake: Lake) -> None:
        self._store, self._lake = store, lake
        self._waiting: dict[Stream, _Said] = {}
        self._copied: dict[Stream, _Intervals] = {}

    async def copy(self, blocking: Blocking) -> None:
        """Copy what the ledger says, or said earlier, as far as its records are sealed.

        Raises:
            StorageError: the store cannot be read, or the lake cannot be written.
        """
        said = await self._read()
        seals = {
            (state.log_id, state.slot, state.channel): state
            for state in await read_all_seals(self._store)
        }
        changed: dict[Stream, _Intervals] = {}
        for stream, now in said.items():
            before = self._waiting.get(stream)
            if _is_sealed(stream, now, seals):
                self._waiting.pop(stream, None)
                found = now
            elif before is not None and _is_sealed(stream, before, seals):
                self._waiting[stream] = now
                found = before
            else:
                self._waiting.setdefault(stream, now)
                continue
            if self._copied.get(stream) != found.intervals:
                changed[stream] = found.intervals
        if changed:
            rows = _rows(changed.items())
            if await blocking(lambda: self._lake.merge_coverage(rows, list(changed))):
                self._copied |= changed

    async def _read(self) -> dict[Stream, _Said]:
        gaps = [as_gap(each) for each in await _all(self._store, GAPS)]
        held = [as_coverage(each) for each in await _all(self._store, COVERAGE)]
        found: dict[Stream, list[tuple[By, tuple[Interval, ...]]]] = {}
        for (stream, by), intervals in by_series(held, gaps).items():
            found.setdefault(stream, []).append((by, tuple(intervals)))
        numbers: dict[Stream, dict[tuple[str, str], int]] = {}
        for each in held:
            numbers.setdefault(each.stream, {})[f"{each.log_id:x}", each.slot] = each.number
        filled: dict[Stream, int] = {}
        for gap in gaps:
            if gap.state == "filled":
                filled[gap.stream] = max(filled.get(gap.stream, 0), gap.closed_ms or 0)
        return {
            stream: _Said(tuple(intervals), numbers.get(stream, {}), filled.get(stream, 0))
            for stream, intervals in found.items()
            if find(stream.channel) is not None
        }


def _is_sealed(
    stream: Stream, said: _Said, seals: Mapping[tuple[str, str, str], SealState]
) -> bool:
    row = find(stream.channel)
    assert row is not None
    for (log_id, slot), number in said.numbers.items():
        state = seals.get((log_id, slot, row.name))
        if state is None or state.verified(stream) < number or state.sealed_ms < said.filled_ms:
            return False
    return True


async def covered_numbers(store: StateStore, log_id: int, slot: str) -> dict[Stream, int]:
    """The number up to which the ledger has the records of each stream of a slot.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found = await _all(store, COVERAGE, [[Condition("slot", "=", slot)]])
    held = [as_coverage(each) for each in found]
    return {each.stream: each.number for each in held if each.log_id == log_id}


async def _all(store: StateStore, table: Table, query: Query = ()) -> list[Document]:
    found: list[Document] = []
    while page := await store.find(
        table, query, limit=_AT_ONCE, after=found[-1] if found else None
    ):
        found += page
    return found


def _rows(
    series: Iterable[tuple[Stream, _Intervals]],
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
