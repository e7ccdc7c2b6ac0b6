"""Checks that every record can be read, and that none is missing between two others of its slot.

A slot numbers the records of a stream without a break, so a deleted record is missed, whatever its
channel is. Three kinds of breaks are no defects: a candle that was corrected has a new number,
whole days that retention deleted may hold numbers between others, and so may records that were lost
and are known as a gap.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import polars as pl

from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.dataset.reading import Places
from penstock.dataset.verify.findings import Finding, finding
from penstock.errors import NotOurRecord, StorageError
from penstock.market.channels import Channel
from penstock.publish.endpoints import find_log_id
from penstock.storage.lake.columns import slot_text
from penstock.storage.lake.ids import runs_of
from penstock.storage.log import EventLog
from penstock.storage.log.keys import Stream


class SlotNumbers:
    """The broadcast numbers of one stream, by slot."""

    def __init__(self) -> None:
        self.of: dict[str, IdRuns] = {}

    def add(self, slot: str, numbers: pl.Series) -> None:
        """Add the numbers of some records of a slot."""
        runs = self.of.setdefault(slot, IdRuns())
        for first, last in runs_of(numbers):
            runs.add_run(first, last)

    def gaps(self) -> list[tuple[str, IdGap]]:
        """The numbers that are missing between others, with their slot."""
        return [(slot, gap) for slot, runs in sorted(self.of.items()) for gap in runs.gaps()]

    def __len__(self) -> int:
        return sum(map(len, self.of.values()))


def check_records(
    places: Places,
    row: Channel,
    stream: Stream,
    found: SlotNumbers,
    breaks: Callable[[], bool] = lambda: False,
) -> Iterator[Finding]:
    """Read all records of a stream; the numbers are added to ``found``.

    ``breaks`` returns whether records are known to be missing: then breaks of their numbers are no
    findings.
    """
    try:
        if places.log is not None:
            _read_log(places.log, stream, found)
        table = places.lake.table(row) if places.lake is not None else None
        if table is not None:
            for slot, numbers in table.numbers(stream):
                found.add(slot, numbers)
        gaps = [] if row.is_final is not None else found.gaps()
        if gaps and breaks():
            return
        # Retention may have deleted the first rows since then.
        if gaps and table is not None and table.trimmed():
            return
    except (StorageError, NotOurRecord) as error:
        yield finding("records", stream, f"records cannot be read: {error}")
        return
    for slot, gap in gaps:
        count = "1 record is" if gap.size == 1 else f"{gap.size:,} records are"
        which = f"{gap.first}" if gap.size == 1 else f"{gap.first} to {gap.last}"
        problem = f"{count} missing: number {which} of slot {slot}"
        yield finding("records", stream, problem, ids=(gap.first, gap.last))


def _read_log(log: EventLog, stream: Stream, found: SlotNumbers) -> None:
    log_id = (find_log_id(log.folder) if log.folder is not None else None) or 0
    with closing(log.reader()) as reader:
        for slot in reader.slots():
            numbers = []
            for stored in reader.numbers(stream, slot, 1):
                assert stored.event.received_at_ns, "decoded, so that a damaged record is found"
                numbers.append(stored.number)
            if numbers:
                found.add(slot_text(log_id, slot), pl.Series(numbers, dtype=pl.Int64))
