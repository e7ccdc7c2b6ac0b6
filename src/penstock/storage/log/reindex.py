"""Rebuilds the indexes by number and by time from the records."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import NotOurRecord
from penstock.market.codec import decode
from penstock.storage.log import keys, received_at_ns
from penstock.storage.log.index import put_last_number
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.keys import SECOND_NS, Batch, Stream, eight_bytes

_MOST_IN_BATCH = 256
_MOST_WAITING = 2000


class NumberGap(NamedTuple):
    """Consecutive numbers that no record has, and the records with the adjacent numbers."""

    after: bytes | None
    before: bytes
    since_ns: int | None
    until_ns: int
    size: int


class _Run(NamedTuple):
    """Records with consecutive numbers; their keys need not be adjacent."""

    first: int
    last: int
    first_key: bytes
    first_ns: int
    last_key: bytes
    last_ns: int


class StreamFound:
    """The records of one stream."""

    def __init__(self, name: Stream, stream_id: int) -> None:
        self.name, self.id = name, stream_id
        self.last_key = keys.key_of_id(0)
        self.last_ns = 0
        """When the latest one was received; 0 if there is none."""
        self.last_number = 0
        self._runs: dict[int, _Run] = {}
        """By first number."""
        self._ends: dict[int, int] = {}
        """The first number of the run that ends just before a number."""
        self._batch: Batch | None = None
        self._second = (-1, -1)
        """The second of the batch before, and the number after its last one."""

    def entry(self, key: bytes) -> bytes:
        """The key of a record's entry in the slot."""
        return keys.prefix(b"r", self.id) + key

    def add(self, key: bytes, number: int, at_ns: int, changes: Changes) -> None:
        """Add a record; records are added in the order of their keys."""
        self.last_key, self.last_ns = key, max(self.last_ns, at_ns)
        self.last_number = max(self.last_number, number)
        self._join(_Run(number, number, key, at_ns, key, at_ns))
        batch, second = self._batch, at_ns // SECOND_NS
        if (
            batch is not None
            and number == batch.last_number + 1
            and batch.records < _MOST_IN_BATCH
            and batch.within_second(second)
            and (key >= keys.FIRST_ARRIVAL) is (batch.low >= keys.FIRST_ARRIVAL)
        ):
            self._batch = batch._replace(
                records=batch.records + 1,
                high=key,
                first_received_ns=min(batch.first_received_ns, at_ns),
                last_received_ns=max(batch.last_received_ns, at_ns),
            )
            return
        self.end_batch(changes)
        self._batch = Batch(number, 1, key, key, at_ns, at_ns)

    def end_batch(self, changes: Changes) -> None:
        """Put the batch that contains the last record."""
        batch = self._batch
        if batch is None:
            return
        first, second = eight_bytes(batch.first_number), batch.first_received_ns // SECOND_NS
        changes.put(keys.prefix(b"n", self.id) + first, keys.write_batch(batch))
        # Batches that follow within the same second are found by reading on.
        if self._second != (second, batch.first_number):
            changes.put(keys.prefix(b"t", self.id) + eight_bytes(second) + first, b"")
        self._second, self._batch = (second, batch.last_number + 1), None

    def _join(self, run: _Run) -> None:
        before = self._ends.pop(run.first, None)
        if before is not None:
            left = self._runs[before]
            run = left._replace(last=run.last, last_key=run.last_key, last_ns=run.last_ns)
        right = self._runs.pop(run.last + 1, None)
        if right is not None:
            run = run._replace(last=right.last, last_key=right.last_key, last_ns=right.last_ns)
        self._runs[run.first] = run
        self._ends[run.last + 1] = run.first

    def gaps(self) -> Iterator[NumberGap]:
        """Numbers without a record, below the last."""
        before: _Run | None = None
        for run in sorted(self._runs.values()):
            missing = run.first - (before.last + 1 if before else 1)
            if missing and before is not None:
                yield NumberGap(
                    before.last_key, run.first_key, before.last_ns, run.first_ns, missing
                )
            elif missing:
                yield NumberGap(None, run.first_key, None, run.first_ns, missing)
            before = run


class Reindexed:
    """All streams of a slot."""

    def __init__(self) -> None:
        self.streams: dict[int, StreamFound] = {}
        self.records = 0

    def skip_numbers(self, kv: KeyValues, stream: Stream, margin: int) -> None:
        """Skip numbers of a stream that lost records may have had."""
        found = next(each for each in self.streams.values() if each.name == stream)
        found.last_number += margin
        changes = kv.batch()
        put_last_number(found.id, found.last_number, found.last_key, found.last_ns, changes)
        kv.write(changes, sync=True)


def reindex(kv: KeyValues, numbers: dict[int, int]) -> Reindexed:
    """Rebuild both indexes. ``numbers`` has the last number known to be assigned, by stream.

    Raises:
        StorageError: it cannot be done.
    """
    _add_known(kv, numbers)
    changes = kv.batch()
    for kind in (b"n", b"t"):
        changes.delete_range(kind, keys.past(kind))
    changes.put(keys.VERSION_KEY, keys.VERSION)
    found, waiting, stream = Reindexed(), 0, None
    for entry, value in kv.scan(b"r", keys.past(b"r")):
        stream_id, key = int.from_bytes(entry[1:5], "big"), entry[5:]
        try:
            at_ns = received_at_ns(value[8:])
            if stream is None or stream.id != stream_id:
                if stream is not None:
                    stream.end_batch(changes)
                stream = StreamFound(_name(kv, stream_id, value[8:], changes), stream_id)
                found.streams[stream_id] = stream
        except NotOurRecord:
            changes.delete_range(entry, keys.key_after(entry))
            continue
        stream.add(key, int.from_bytes(value[:8], "big"), at_ns, changes)
        found.records += 1
        waiting += 1
        if waiting >= _MOST_WAITING:
            kv.write(changes, sync=False)
            changes, waiting = kv.batch(), 0
    if stream is not None:
        stream.end_batch(changes)
    for entry, value in kv.scan(b"s", keys.past(b"s")):
        stream_id = int.from_bytes(entry[1:], "big")
        if stream_id not in found.streams:  # all of its records are lost
            found.streams[stream_id] = StreamFound(keys.read_stream(value), stream_id)
    for stream in found.streams.values():
        if numbers.get(stream.id, 0) > stream.last_number:
            stream.last_number = numbers[stream.id]
            put_last_number(stream.id, stream.last_number, stream.last_key, stream.last_ns, changes)
    kv.write(changes, sync=True)
    return found


def _add_known(kv: KeyValues, numbers: dict[int, int]) -> None:
    """Add the last assigned numbers according to the index."""
    for entry, value in kv.scan(b"n", keys.past(b"n")):
        try:
            batch = keys.read_batch(entry, value)
        except NotOurRecord:
            continue
        stream_id = int.from_bytes(entry[1:5], "big")
        last = max(batch.first_number, batch.last_number)
        numbers[stream_id] = max(last, numbers.get(stream_id, 0))


def _name(kv: KeyValues, stream_id: int, record: bytes, changes: Changes) -> Stream:
    """The name of a stream; if that is lost, it is derived from a record."""
    entry = keys.prefix(b"s", stream_id)
    value = kv.get(entry)
    if value is None:
        value = keys.write_stream(keys.stream_of(decode(record)))
        changes.put(entry, value)
    return keys.read_stream(value)
