"""Seals the closed records of a log.

A range is sealed in batches. Each is one transaction in the lake, is read back, and only then
counts as verified. A keeper that is killed in between continues with the range that is sealed and
not verified: nothing has been deleted from the log yet, so it is compared again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa

from penstock.config import Keep
from penstock.errors import SealConflict, StorageError
from penstock.keep.facts import RecordsSealed
from penstock.market.channels import BY_EVENT, Channel, find
from penstock.storage.lake import Lake, NumberRange
from penstock.storage.lake.columns import records_of, slot_text, table_of
from penstock.storage.log import LogReader, SlotStats, Stored
from penstock.storage.log.keys import Stream
from penstock.telemetry import Listener, quiet

_MOST_BYTES = 64 * 1024 * 1024
"""Of the records in one seal; books are large."""


_FOREVER_NS = (1 << 63) - 1


class Verified(NamedTuple):
    """Numbers up to which the streams of a slot are sealed and were read back equal."""

    numbers: Mapping[Stream, int]
    rows: int
    complete: bool = False
    """Whether this is the last part: everything that was asked for is sealed."""


class _Batch(NamedTuple):
    stored: list[Stored]
    ranges: dict[Stream, NumberRange]


def rows_with_streams(slot: SlotStats) -> dict[Channel, list[Stream]]:
    """The streams of a slot by channel; channels of a newer version are left out."""
    found: dict[Channel, list[Stream]] = {}
    for stats in slot.streams:
        row = find(stats.stream.channel)
        if row is not None:
            found.setdefault(row, []).append(stats.stream)
    return {row: found[row] for row in BY_EVENT.values() if row in found}


class Sealer:
    """Seals slots of one log. Its methods block; not thread-safe."""

    def __init__(
        self,
        lake: Lake,
        log: LogReader,
        open_log: Callable[[], LogReader],
        log_id: int,
        settings: Keep,
        emit: Listener = quiet,
    ) -> None:
        self._lake, self._log, self._open_log, self._log_id = lake, log, open_log, log_id
        self._most, self._emit = settings.seal_rows, emit

    def seal(
        self,
        row: Channel,
        slot: str,
        verified: Mapping[Stream, int],
        before_ns: int,
    ) -> Iterator[Verified]:
        """Seal what these streams of a slot received before a time; yield what is verified.

        ``verified`` has the number of each stream that was verified before.

        Raises:
            StorageError: the lake cannot be written, what is read back differs, or the log is read
                differently by another reader.
            NotOurRecord: a record of the log is damaged.
        """
        closed = {stream: self._log.number_before(stream, slot, before_ns) for stream in verified}
        self._check_not_behind(slot, verified, closed)
        streams = [stream for stream in verified if closed[stream] > verified[stream]]
        place = slot_text(self._log_id, slot)
        sealed = self._lake.sealed(row, place, streams)
        unverified = {s: NumberRange(verified[s] + 1, sealed[s]) for s in streams}
        for batch in self._batches(slot, unverified):
            yield self._verify(row, slot, batch, self._rows(row, batch))
        unsealed = {s: NumberRange(sealed[s] + 1, closed[s]) for s in streams}
        for batch in self._batches(slot, unsealed):
            self._check_complete(row, slot, batch)
            rows = self._rows(row, batch)
            try:
                self._lake.seal(row, place, rows, batch.ranges)
            except SealConflict:
                return  # another keeper works on this slot: it goes on from there
            yield self._verify(row, slot, batch, rows)
        yield Verified({}, 0, complete=True)

    def _check_not_behind(
        self, slot: str, verified: Mapping[Stream, int], closed: Mapping[Stream, int]
    ) -> None:
        """Check that the log is not older than what is sealed: its numbers would be used again."""
        for stream, number in verified.items():
            if closed[stream] < number:
                last = self._log.number_before(stream, slot, _FOREVER_NS)
                if last < number:
                    raise StorageError(
                        f"slot {slot}",
                        f"its last record of {stream} has number {last}, but {number} is sealed:"
                        " an older copy of the log was restored",
                        "Start the process that writes this slot: it continues above these"
                        " numbers. Until then, nothing is sealed or deleted of this slot.",
                    )

    def _check_complete(self, row: Channel, slot: str, batch: _Batch) -> None:
        """Check that records which this reader does not find are missing for another one, too.

        Numbers are missing after a repair, for instance. But whatever is not sealed now is deleted
        from the log later, so a reader that overlooks records must be noticed.
        """
        if row.is_final is not None:
            return  # a record that is corrected gets a new number
        found = Counter(stored.stream for stored in batch.stored)
        for stream, (first, last) in batch.ranges.items():
            if found[stream] > last - first:
                continue
            with closing(self._open_log()) as other:
                again = sum(1 for _ in other.numbers(stream, slot, first, last))
            if again != found[stream]:
                raise StorageError(
                    f"slot {slot}",
                    f"of {stream}, numbers {first}–{last}, one reader finds {found[stream]:,}"
                    f" records and another one {again:,}",
                    "They are not sealed, and not deleted from the log; it is tried again. Restart"
                    " the keeper and report a bug if this is repeated.",
                )

    def unsealed(self, row: Channel, slot: str, streams: Sequence[Stream], before_ns: int) -> int:
        """How many numbers of these streams can be sealed now."""
        sealed = self._lake.sealed(row, slot_text(self._log_id, slot), streams)
        closed = (self._log.number_before(stream, slot, before_ns) for stream in streams)
        return sum(
            max(0, last - sealed[stream]) for stream, last in zip(streams, closed, strict=True)
        )

    def _batches(self, slot: str, wanted: Mapping[Stream, NumberRange]) -> Iterator[_Batch]:
        """The records of these ranges, at most so many at a time; also for empty ranges."""
        batch, size = _Batch([], {}), 0
        for stream, (first, last) in wanted.items():
            if last < first:
                continue
            begin = first
            for stored in self._log.numbers(stream, slot, first, last):
                if len(batch.stored) >= self._most or size >= _MOST_BYTES:
                    if batch.stored[-1].stream == stream:
                        end = batch.stored[-1].number
                        batch.ranges[stream] = NumberRange(begin, end)
                        begin = end + 1
                    yield batch
                    batch, size = _Batch([], {}), 0
                batch.stored.append(stored)
                size += len(stored.record)
            batch.ranges[stream] = NumberRange(begin, last)
        if batch.ranges:
            yield batch

    def _rows(self, row: Channel, batch: _Batch) -> pa.Table:
        return table_of(row, batch.stored, self._log_id)

    def _verify(self, row: Channel, slot: str, batch: _Batch, rows: pa.Table) -> Verified:
        if not _equal(records_of(row, rows), batch.stored) or not self._lake.equal(row, rows):
            shown = ", ".join(f"{s} {first}–{last}" for s, (first, last) in batch.ranges.items())
            raise StorageError(
                f"{self._lake.url}/{row.name}",
                f"what was sealed of slot {slot} differs from the log: {shown[:300]}",
                "Nothing is deleted from the log. Look for changes by other programs; report a bug"
                " if there are none.",
            )
        if batch.stored:
            self._emit(RecordsSealed(slot=slot, table=row.name, rows=len(batch.stored)))
        numbers = {stream: last for stream, (_, last) in batch.ranges.items()}
        return Verified(numbers, len(batch.stored))


def _equal(records: Iterable[bytes], stored: Iterable[Stored]) -> bool:
    return list(records) == [each.record for each in stored]
