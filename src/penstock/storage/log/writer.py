"""The writer numbers new records, and writes them with their indexes in one batch.

Per stream it caches the highest key and the last number, so that the usual case, a record newer
than all others, needs no read. After any failure the cache is discarded and read again from the
slot, so a batch that failed has no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from operator import add, attrgetter, lt
from pathlib import Path
from threading import Lock

from msgspec.structs import replace

from penstock.errors import StorageError
from penstock.market.channels import BY_EVENT, SUFFIXES
from penstock.market.codec import encode, encode_many
from penstock.market.events import AnyEvent
from penstock.storage.log import Counts, Durability, SlotStats, Stored, keys
from penstock.storage.log.corrections import corrects
from penstock.storage.log.heads import StreamHead
from penstock.storage.log.keys import SECOND_NS, Stream, eight_bytes
from penstock.storage.log.pairs import PairBatch, Pairs
from penstock.storage.log.reader import find_batches, find_streams, last_batch, last_of, stats_of

_prefix_of, _stream_of, _topic_of = map(attrgetter, ("prefix", "stream", "topic"))


class _Work:
    """One append in progress."""

    __slots__ = ("_looked_at", "_pending", "batch", "changes", "events", "heads", "keys", "numbers",
                 "stored")  # fmt: skip

    def __init__(self, batch: PairBatch) -> None:
        self.batch = batch
        self.changes = False
        """Whether there is anything to write besides records."""
        self.stored: list[Stored] = []
        # Of records with rising keys, as columns: each step is done for all of them at once.
        self.heads: list[StreamHead] = []
        self.keys: list[bytes] = []
        self.numbers: list[int] = []
        self.events: list[AnyEvent] = []
        self._pending: dict[tuple[Stream, bytes], bytes] = {}
        """Records of this batch by key, filled on lookup."""
        self._looked_at = 0

    def record_at(self, stream: Stream, key: bytes) -> bytes | None:
        for stored in self.stored[self._looked_at :]:
            self._pending[stored.stream, stored.key] = stored.record
        self._looked_at = len(self.stored)
        return self._pending.get((stream, key))

    def put_rising(self, slot: str) -> None:
        """Put all records with rising keys.

        Stream by stream, because RocksDB takes half the time for keys in order.
        """
        heads, found, numbers, put = self.heads, self.keys, self.numbers, self.batch.put
        records = encode_many(self.events)
        entries = map(add, map(_prefix_of, heads), found)
        values = map(add, map(eight_bytes, numbers), records)
        for entry, value in zip(entries, values, strict=True):
            put(entry, value)
        streams, topics = map(_stream_of, heads), map(_topic_of, heads)
        self.stored += map(
            Stored, streams, repeat(slot), numbers, found, records, topics, self.events
        )


class SlotWriter:
    """The owner of one slot, on any ordered map of bytes."""

    def __init__(self, slot: str, open_pairs: Callable[[], Pairs], *, on_disk: bool = True) -> None:
        self._slot, self._open_pairs, self.on_disk = slot, open_pairs, on_disk
        self._counts = Counts()
        self._heads: dict[tuple[object, ...], StreamHead] = {}
        self._stream_ids: dict[Stream, int] = {}
        self._pairs: Pairs | None = None
        self._distrusted = False
        """Whether a sync failed: the data may not be on the disk."""
        self._not_both = Lock()
        """Held during a sync, and during a close."""
        self._opened()

    @property
    def slot(self) -> str:
        return self._slot

    @property
    def counts(self) -> Counts:
        return self._counts

    def append(
        self, events: Sequence[AnyEvent], durability: Durability = "flushed"
    ) -> list[Stored]:
        pairs = self._opened()
        before = replace(self._counts)
        work = _Work(pairs.batch())
        try:
            self._add_new(events, work, pairs)
            work.put_rising(self._slot)
            if work.stored or work.changes:
                pairs.write(work.batch, sync=durability == "synced")
        except BaseException as error:
            self._counts = before
            self._distrust(error)
            raise
        self._counts.recorded += len(work.stored)
        return work.stored

    def _add_new(self, events: Sequence[AnyEvent], work: _Work, pairs: Pairs) -> None:
        """Assign key and number to every new event, stream by stream."""
        groups: dict[tuple[object, ...], list[AnyEvent]] = {}
        for event in events:
            kind = type(event)
            address: tuple[object, ...] = (kind, event.symbol, event.exchange)
            if kind in SUFFIXES:
                address += (SUFFIXES[kind](event),)
            group = groups.get(address)
            if group is None:
                groups[address] = [event]
            else:
                group.append(event)
        for address, group in groups.items():
            head = self._heads.get(address)
            if head is None:
                head = self._heads[address] = self._load_head(group[0], work, pairs)
            if len(group) == 1:
                added = _add_next(group[0], head, work)
            else:
                added = _add_rising(group, head, work)
            if not added:
                self._add_carefully(group, head, work)

    def _add_carefully(self, events: Sequence[AnyEvent], head: StreamHead, work: _Work) -> None:
        """Add those events that are new, whatever the order of their keys."""
        found, received = list[bytes](), list[int]()
        for event in events:
            record = encode(event)
            key = self._place(event, record, head, work)
            if key is None:
                continue
            head.number = number = head.number + 1
            found.append(key)
            received.append(event.received_at_ns)
            work.batch.put(head.prefix + key, eight_bytes(number) + record)
            work.stored.append(
                Stored(head.stream, self._slot, number, key, record, head.topic, event)
            )
        if found:
            head.add_batch(found, received, work.batch)

    def _place(self, event: AnyEvent, record: bytes, head: StreamHead, work: _Work) -> bytes | None:
        """The key of an event that may be a duplicate; None if it is to be dropped."""
        if head.is_final is not None and not head.is_final(event):
            self._counts.unclosed += 1
            return None
        number = head.id_of(event)
        if number is None:
            return self._place_arrival(event.received_at_ns, record, head, work)
        key = keys.key_of_id(number)
        if number > head.highest_id:
            head.highest_id = number
            return key
        held = self._held(head, key, work)
        if held is None:
            return key
        if head.is_final is not None and corrects(event, held):
            self._counts.replaced += 1
            return key
        self._counts.repeated += 1
        return None

    def _place_arrival(
        self, at_ns: int, record: bytes, head: StreamHead, work: _Work
    ) -> bytes | None:
        counter = 0
        key = keys.key_of_arrival(at_ns)
        if at_ns > head.highest_ns:
            head.highest_ns = at_ns
            return key
        while (held := self._held(head, key, work)) is not None:
            if held == record:
                self._counts.repeated += 1
                return None
            counter += 1
            key = keys.key_of_arrival(at_ns, counter)
        return key

    def _held(self, head: StreamHead, key: bytes, work: _Work) -> bytes | None:
        """The record under this key in the slot, or in this batch."""
        record = work.record_at(head.stream, key)
        if record is not None:
            return record
        value = self._opened().get(head.prefix + key)
        return None if value is None else value[8:]

    def _load_head(self, event: AnyEvent, work: _Work, pairs: Pairs) -> StreamHead:
        stream = keys.stream_of(event)
        stream_id = self._stream_ids.get(stream)
        if stream_id is None:
            stream_id = max(self._stream_ids.values(), default=0) + 1
            self._stream_ids[stream] = stream_id
            work.batch.put(keys.prefix(b"s", stream_id), keys.write_stream(stream))
            work.changes = True
        head = StreamHead(stream, stream_id, BY_EVENT[type(event)])
        base = head.prefix
        for begin, end in (
            (base + keys.FIRST_LONG_ID, keys.past(base)),
            (base, base + keys.FIRST_ARRIVAL),
        ):
            entry = last_of(pairs, begin, end)
            if entry is not None:
                head.highest_id = keys.id_of_key(entry[0][5:]) or 0
                break
        entry = last_of(pairs, base + keys.FIRST_ARRIVAL, base + keys.FIRST_LONG_ID)
        if entry is not None:
            head.highest_ns = keys.arrival_of_key(entry[0][5:]) or 0
        batch = last_batch(pairs, stream_id)
        if batch is not None:
            head.number = batch.last_number
            head.put_batch(batch, work.batch)  # closed: the next keys may not rise from it
            work.changes = True
        return head

    def sync(self) -> None:
        # Does not open the slot: ``append`` does, and may be running in another thread.
        with self._not_both:
            if self._pairs is None or self._distrusted:
                problem = "was closed after a failure; the next record opens it again"
                raise StorageError(self._slot, problem)
            try:
                self._pairs.sync()
            except StorageError:
                self._distrusted = True
                raise

    def last_numbers(self) -> Mapping[Stream, int]:
        numbers = {head.stream: head.number for head in self._heads.values()}
        for stream, stream_id in self._stream_ids.items():
            if stream not in numbers:
                numbers[stream] = _last_number(self._opened(), stream_id)
        return numbers

    def delete_below(self, stream: Stream, key: bytes) -> None:
        stream_id = self._stream_ids.get(stream)
        if stream_id is None:
            return
        pairs = self._opened()
        batch = pairs.batch()
        base = keys.prefix(b"r", stream_id)
        batch.delete_range(base, base + key)
        # The last batch stays, whatever it held: numbers continue from it. So it is closed.
        last = last_batch(pairs, stream_id)
        numbers, times = keys.prefix(b"n", stream_id), keys.prefix(b"t", stream_id)
        found = find_batches(pairs, stream_id, 0)
        kept = next((each for each in found if each.high >= key or each == last), None)
        if last is not None and kept is not None:
            number = eight_bytes(kept.first_number)
            batch.delete_range(numbers, numbers + number)
            for entry, _ in pairs.scan(times, keys.past(times)):
                if entry[13:] >= number:
                    batch.delete_range(times, entry)
                    break
            # The index entry by which it was found may be one of those deleted.
            second = eight_bytes(kept.first_received_ns // SECOND_NS)
            batch.put(times + second + number, b"")
            batch.put(numbers + eight_bytes(last.first_number), keys.write_batch(last))
        for head in self._heads.values():
            if head.stream == stream:
                head.close_batch(head.number, batch)
        try:
            pairs.write(batch, sync=True)
        except StorageError as error:
            self._distrust(error)
            raise

    def checkpoint(self, path: Path) -> None:
        if path.exists():
            raise StorageError(str(path), "is there already", "Name a folder that does not exist.")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._opened().checkpoint(str(path))

    def stats(self) -> SlotStats:
        return stats_of(self._slot, self._opened())

    def close(self) -> None:
        with self._not_both:
            if self._pairs is not None:
                pairs, self._pairs = self._pairs, None
                with suppress(StorageError):
                    pairs.close()

    def _opened(self) -> Pairs:
        """The slot, opened again if a failure closed it.

        What it holds then is on the disk: RocksDB writes it to a table first.
        """
        if self._distrusted:
            self.close()
            self._distrusted = False
        if self._pairs is None:
            pairs = self._open_pairs()
            try:
                self._heads = {}
                self._stream_ids = find_streams(pairs)
                _mark_version(pairs)
            except BaseException:
                pairs.close()
                raise
            self._pairs = pairs
        return self._pairs

    def _distrust(self, error: BaseException) -> None:
        """Discard the cache after a failure, so that it is read again from the slot."""
        self._heads = {}
        if isinstance(error, StorageError):
            # RocksDB rejects all writes after a failed one, and the kernel may have dropped what it
            # could not sync: only what is found when the slot is opened again is on the disk.
            self.close()
        elif self._pairs is not None:
            self._stream_ids = find_streams(self._pairs)


def _add_next(event: AnyEvent, head: StreamHead, work: _Work) -> bool:
    """Add an event that is newer than all others; False if it is not."""
    own_id, at_ns = head.id_of(event), event.received_at_ns
    if own_id is None:
        if at_ns <= head.highest_ns:
            return False
        head.highest_ns = at_ns
        key, below = keys.key_of_arrival(at_ns), head.arrivals_below
    elif head.highest_id < own_id < head.plain_ids:
        head.highest_id = own_id
        key, below = eight_bytes(own_id), head.ids_below
    else:
        return False
    head.number = number = head.number + 1
    if number >= below or at_ns // SECOND_NS != head.batch_second:
        head.begin_batch(number, key, at_ns, work.batch)
    work.heads.append(head)
    work.keys.append(key)
    work.numbers.append(number)
    work.events.append(event)
    return True


def _add_rising(events: Sequence[AnyEvent], head: StreamHead, work: _Work) -> bool:
    """Add events, each newer than the one before and all others; False if they are not."""
    ids = list(map(head.id_of, events))
    received = [event.received_at_ns for event in events]
    if None not in ids:
        if not (_rise(ids, head.highest_id) and ids[-1] < head.plain_ids):  # type: ignore[operator]
            return False
        head.highest_id = ids[-1]  # type: ignore[assignment]
        found, below = list(map(eight_bytes, ids)), head.ids_below
    elif any(each is not None for each in ids) or not _rise(received, head.highest_ns):
        return False
    else:
        head.highest_ns = received[-1]
        found, below = list(map(keys.key_of_arrival, received)), head.arrivals_below
    first = head.number + 1
    head.number += len(events)
    first_ns, second = min(received), max(received) // SECOND_NS
    if first_ns // SECOND_NS != second:
        head.add_batch(found, received, work.batch)
    elif first >= below or second != head.batch_second:
        head.begin_batch(first, found[0], first_ns, work.batch)
    work.heads += repeat(head, len(events))
    work.keys += found
    work.numbers += range(first, first + len(events))
    work.events += events
    return True


def _rise(numbers: Sequence[int | None], above: int) -> bool:
    """Whether each is greater than the one before, and the first than ``above``."""
    return all(map(lt, chain((above,), numbers), numbers))  # type: ignore[arg-type]


def _last_number(pairs: Pairs, stream_id: int) -> int:
    batch = last_batch(pairs, stream_id)
    return batch.last_number if batch is not None else 0


def _mark_version(pairs: Pairs) -> None:
    if pairs.get(keys.VERSION_KEY) in keys.OLDER:
        batch = pairs.batch()
        batch.put(keys.VERSION_KEY, keys.VERSION)
        pairs.write(batch, sync=True)
