"""Reports candles that the log does not hold as gaps in the ledger."""

from collections.abc import Iterable

from msgspec.structs import replace

from penstock.coverage.candles import CandleGap
from penstock.coverage.causes import Why, gap_row
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.id_scan import GONE, read_listed
from penstock.coverage.model import MISSING
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore


async def report_candles(
    store: StateStore,
    log_id: int,
    stream: Stream,
    gaps: Iterable[CandleGap],
    *,
    only_lost: bool = False,
) -> list[CandleGap]:
    """Report candles that this log does not hold; return what is missing now.

    Those that another log holds are not missing. With ``only_lost``, those that were never recorded
    are left out too.

    Raises:
        StorageError: the store failed.
    """
    known, rows = await read_listed(store, stream, log_id, "open_ms"), GapRows(store)
    times = {"log_id": log_id, "opened_ms": await store.now_ms()}
    reported: list[CandleGap] = []
    for gap in gaps:
        missing = known.missing(IdGap(gap.since_ms, gap.until_ms - 1), IdRuns())
        for part in missing.lost:
            await rows.lose(replace(gap_row(stream, "open_ms", part, GONE), **times))
        unreported = [] if only_lost else missing.unreported
        for part in unreported:
            await rows.open(replace(gap_row(stream, "open_ms", part, Why(MISSING)), **times))
        reported += [CandleGap(first, last + 1) for first, last in (*missing.lost, *unreported)]
    return sorted(reported)
