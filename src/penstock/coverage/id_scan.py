"""Reads which ids are stored, batch by batch, and reports as gaps what the ledger lists in vain.

The log is read first, then what was deleted from it after sealing, then the lake: a record moves in
this order, so one that is moved meanwhile is found.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.coverage.causes import Explained, Why, explained, gap_row
from penstock.coverage.facts import RecordsLost
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.listed import Listed, listed
from penstock.coverage.model import DAMAGED, By
from penstock.coverage.stored import logged
from penstock.coverage.writing import read_coverage
from penstock.errors import StorageError
from penstock.market.channels import find
from penstock.storage.lake import Lake
from penstock.storage.lake.documents import read_all_seals
from penstock.storage.log import LogReader
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

BATCH = 10_000
"""Recorded ids to look up before other tasks run."""
SETTLED_MS = 60_000
"""When a gap is reported by live detection, and a filled one listed for its slot, at the latest."""
GONE = Why(DAMAGED, "ours", "it was recorded, and is not stored any more")
"""Why records are missing that the ledger lists."""


class Scanned(NamedTuple):
    """What was compared."""

    next_id: int
    ids: int
    """Ids that are stored."""
    gaps: list[IdGap]
    """What is reported as missing now."""


@dataclass(frozen=True)
class ScannedStores:
    """Where records and the ledger are."""

    store: StateStore
    log: LogReader
    log_id: int
    clock: Clock
    lake: Callable[[], Lake | None] = lambda: None
    """Opens the lake; called if something was sealed."""
    emit: Listener = quiet


class IdScan:
    """The comparison of one stream with consecutive ids."""

    def __init__(self, stores: ScannedStores, stream: Stream, known: Listed) -> None:
        self._stores, self._stream, self._known = stores, stream, known

    @classmethod
    async def begin(cls, stores: ScannedStores, stream: Stream) -> "IdScan":
        """Read what the ledger lists.

        Raises:
            StorageError: the store failed.
        """
        return cls(stores, stream, await read_listed(stores.store, stream, stores.log_id))

    async def batch(self, next_id: int | None, most: int = BATCH) -> Scanned | None:
        """Compare the next ids, from the first one by default; None: there are no more.

        Raises:
            StorageError: the log, the lake or the store failed.
        """
        first = self._known.recorded.first
        # What is before the first recorded id was not wanted.
        wanted = None if first is None else self._known.batch(max(first, next_id or 0), most)
        if wanted is None:
            return None
        stored = logged(self._stream, [wanted], self._stores.log)
        found = self._known.missing(wanted, stored)
        if found.lost:
            await self._add_sealed(stored, IdGap(found.lost[0].first, found.lost[-1].last))
            found = self._known.missing(wanted, stored)
        reported = [*found.lost]
        for gap in found.lost:
            await self._lose(gap)
        for gap in found.unreported:
            if await self._report(gap):
                reported.append(gap)
        await self._stores.clock.sleep(0)
        return Scanned(wanted.last + 1, len(stored), sorted(reported))

    async def _add_sealed(self, stored: IdRuns, wanted: IdGap) -> None:
        """Add the ids that are in the lake, or were before retention deleted them."""
        row, log_id = find(self._stream.channel), f"{self._stores.log_id:x}"
        assert row is not None
        seals = await read_all_seals(self._stores.store)
        if not any(
            each.log_id == log_id and each.channel == row.name and each.verified(self._stream)
            for each in seals
        ):
            return
        lake = self._stores.lake()
        ids = (
            None if lake is None else await asyncio.to_thread(lake.ids, row, self._stream, *wanted)
        )
        if ids is None:
            where = f"lake {lake.url}" if lake is not None else "lake"
            problem = f"it has no {row.name}, although some of this log are sealed"
            raise StorageError(where, problem, "Set storage.lake_url to that of the keeper.")
        for first, last in ids.runs:
            stored.add_run(first, last)
        lowest = self._lowest_in_log() if ids.lowest is None else ids.lowest
        if ids.is_trimmed and lowest is not None and wanted.first < lowest:
            stored.add_run(wanted.first, lowest - 1)  # retention deletes the oldest

    def _lowest_in_log(self) -> int | None:
        found = next(self._stores.log.scan(self._stream, limit=1), None)
        return None if found is None else id_of_key(found.key)

    async def _lose(self, gap: IdGap) -> None:
        exchange, channel, symbol = self._stream
        await self._write(gap, explained(self._stores.log, self._stream, *gap), GONE)
        self._stores.emit(
            RecordsLost(exchange=exchange, channel=channel, symbol=symbol, count=gap.size)
        )

    async def _report(self, gap: IdGap) -> bool:
        """Report ids that were never recorded, unless live detection may still do so."""
        found = explained(self._stores.log, self._stream, *gap)
        now_ms = self._stores.clock.now_ms()
        if found.until_ms is None or found.until_ms > now_ms - SETTLED_MS:
            return False
        await self._write(gap, found, found.why)
        return True

    async def _write(self, gap: IdGap, found: Explained, why: Why) -> None:
        rows, now_ms = GapRows(self._stores.store), await self._stores.store.now_ms()
        row = replace(
            gap_row(self._stream, "id", gap, why),
            since_ms=found.since_ms,
            until_ms=found.until_ms,
            log_id=self._stores.log_id,
            opened_ms=now_ms,
        )
        if why is GONE:
            await rows.lose(row)
        else:
            await rows.open(row)


async def read_listed(store: StateStore, stream: Stream, log_id: int, by: By = "id") -> Listed:
    """What the ledger lists of a stream.

    Raises:
        StorageError: the store failed.
    """
    settled_ms = await store.now_ms() - SETTLED_MS
    rows = await GapRows(store).find(**stream._asdict())
    coverage = await read_coverage(store, **stream._asdict())
    return listed(coverage, rows, by, log_id, settled_ms)
