"""The writer numbers new records, and writes them with their indexes in one batch.

Per stream it caches the highest key and the last number, so that the usual case, a record newer
than all others, needs no read. After any failure the cache is discarded and read again from the
slot, so a batch that failed has no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec.structs import replace

from penstock.errors import StorageError
from penstock.market.channels import BY_EVENT, SUFFIXES
from penstock.market.codec import encode
from penstock.market.events import Event
from penstock.storage.log import Counts, Durability, SlotStats, Stored, keys
from penstock.storage.log.appending import Append, add_ascending, add_next
from penstock.storage.log.compiled_appending import CompiledAppending
from penstock.storage.log.corrections import corrects
from penstock.storage.log.deleting import delete_records
from penstock.storage.log.heads import StreamHead
from penstock.storage.log.index import (
    find_streams,
    last_batch,
    last_of,
    lowest_key,
    skip_numbers,
)
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.keys import Stream, eight_bytes
from penstock.storage.log.reader import stats_of


class SlotWriter:
    """The owner of one slot, on any ordered map of bytes."""

    def __init__(
        self, slot: str, open_key_values: Callable[[], KeyValues], *, on_disk: bool = True
    ) -> None:
        self._slot, self._open_key_values, self.on_disk = slot, open_key_values, on_disk
        self._counts = Counts()
        self._heads: dict[tuple[object, ...], StreamHead] = {}
        self._compiled = CompiledAppending()
        self._stream_ids: dict[Stream, int] = {}
        self._kv: KeyValues | None = None
        self._sync_failed = False
        """Whether a sync failed: the data may not be on the disk."""
        self._sync_close_lock = Lock()
        """Held during a sync, and during a close."""
        self._compact_lock = Lock()
        """Held during a compaction, and during a close."""
        self._checkpoint_lock = Lock()
        """Held during a checkpoint, and during a close."""
        self._opened()

    @property
    def slot(self) -> str:
        return self._slot

    @property
    def counts(self) -> Counts:
        return self._counts

    def append(
        self, events: Sequence[Event], durability: Durability = "flushed"
    ) -> Sequence[Stored]:
        kv = self._opened()
        before, work = self._counts, Append(kv.batch())
        try:
            stored, rest = self._compiled.add(events, work.batch, self._slot)
            if rest:
                self._counts = replace(before)
                work.stored += stored
                self._add_new(rest, work, kv)
                work.put_ascending(self._slot)
                stored = work.stored
            if stored or work.changes:
                kv.write(work.batch, sync=durability == "synced")
        except BaseException as error:
            self._counts = before
            self._reset_after(error)
            raise
        self._counts.recorded += len(stored)
        return stored

    def _add_new(self, events: Sequence[Event], work: Append, kv: KeyValues) -> None:
        """Assign key and number to every new event, stream by stream."""
        groups: dict[tuple[object, ...], list[Event]] = {}
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
                head = self._heads[address] = self._load_head(group[0], work, kv)
                self._compiled.learn(group[0], head)
            if len(group) == 1:
                added = add_next(group[0], head, work)
            else:
                added = add_ascending(group, head, work)
            if not added:
                self._add_with_lookup(group, head, work)

    def _add_with_lookup(self, events: Sequence[Event], head: StreamHead, work: Append) -> None:
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

    def _place(self, event: Event, record: bytes, head: StreamHead, work: Append) -> bytes | None:
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
        self, at_ns: int, record: bytes, head: StreamHead, work: Append
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

    def _held(self, head: StreamHead, key: bytes, work: Append) -> bytes | None:
        """The record under this key in the slot, or in this batch."""
        record = work.record_at(head.stream, key)
        if record is not None:
            return record
        value = self._opened().get(head.prefix + key)
        return None if value is None else value[8:]

    def _load_head(self, event: Event, work: Append, kv: KeyValues) -> StreamHead:
        stream = keys.stream_of(event)
        stream_id = self._stream_ids.get(stream)
        if stream_id is None:
            stream_id = self._name_stream(stream, work.batch)
            work.changes = True
        head = StreamHead(stream, stream_id, BY_EVENT[type(event)])
        base = head.prefix
        for begin, end in (
            (base + keys.FIRST_LONG_ID, keys.past(base)),
            (base, base + keys.FIRST_ARRIVAL),
        ):
            entry = last_of(kv, begin, end)
            if entry is not None:
                head.highest_id = keys.id_of_key(entry[0][5:]) or 0
                break
        entry = last_of(kv, base + keys.FIRST_ARRIVAL, base + keys.FIRST_LONG_ID)
        if entry is not None:
            head.highest_ns = keys.arrival_of_key(entry[0][5:]) or 0
        batch = last_batch(kv, stream_id)
        if batch is not None:
            head.number = batch.last_number
            head.put_batch(batch, work.batch)  # closed: the next keys may not rise from it
            work.changes = True
        return head

    def _name_stream(self, stream: Stream, changes: Changes) -> int:
        """Give a new stream of this slot a number within it."""
        stream_id = max(self._stream_ids.values(), default=0) + 1
        self._stream_ids[stream] = stream_id
        changes.put(keys.prefix(b"s", stream_id), keys.write_stream(stream))
        return stream_id

    def sync(self) -> None:
        # Does not open the slot: ``append`` does, and may be running in another thread.
        with self._sync_close_lock:
            if self._kv is None or self._sync_failed:
                problem = "was closed after a failure; the next record opens it again"
                raise StorageError(self._slot, problem)
            try:
                self._kv.sync()
            except StorageError:
                self._sync_failed = True
                raise

    def last_numbers(self) -> Mapping[Stream, int]:
        numbers = {head.stream: head.number for head in self._heads.values()}
        for stream, stream_id in self._stream_ids.items():
            if stream not in numbers:
                numbers[stream] = _last_number(self._opened(), stream_id)
        return numbers

    def skip_numbers(self, numbers: Mapping[Stream, int]) -> None:
        kv, known = self._opened(), self.last_numbers()
        changes = kv.batch()
        for stream, number in numbers.items():
            if number > known.get(stream, 0):
                stream_id = self._stream_ids.get(stream) or self._name_stream(stream, changes)
                skip_numbers(kv, stream_id, number, changes)
        self._forget_heads()
        try:
            kv.write(changes, sync=True)
        except StorageError as error:
            self._reset_after(error)
            raise

    def delete_below(self, stream: Stream, key: bytes, *, seen: int | None = None) -> bool:
        stream_id = self._stream_ids.get(stream)
        if stream_id is None:
            return False
        kv = self._opened()
        if seen is not None and (lowest_key(kv, stream_id, seen + 1) or key) < key:
            return False
        base = keys.prefix(b"r", stream_id)
        if next(iter(kv.scan(base, base + key)), None) is None:
            return False
        batch = kv.batch()
        delete_records(kv, stream_id, key, batch)
        for head in self._heads.values():
            if head.stream == stream:
                head.close_batch(head.number, batch)
        try:
            kv.write(batch, sync=False)  # what a power cut restores is deleted again
        except StorageError as error:
            self._reset_after(error)
            raise
        return True

    def compact(self) -> None:
        with self._compact_lock:
            if (kv := self._kv) is not None:
                kv.compact()

    def checkpoint(self, path: Path) -> None:
        if path.exists():
            raise StorageError(str(path), "already exists", "Name a folder that does not exist.")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Does not open the slot, as ``sync``.
        with self._checkpoint_lock:
            if self._kv is None:
                problem = "was closed after a failure; the next record opens it again"
                raise StorageError(self._slot, problem)
            self._kv.checkpoint(str(path))

    def stats(self) -> SlotStats:
        return stats_of(self._slot, self._opened())

    def close(self) -> None:
        with self._compact_lock, self._checkpoint_lock, self._sync_close_lock:
            if self._kv is not None:
                kv, self._kv = self._kv, None
                with suppress(StorageError):
                    kv.close()

    def _opened(self) -> KeyValues:
        """The slot, opened again if a failure closed it.

        What it holds then is on the disk: RocksDB writes it to a table first.
        """
        if self._sync_failed:
            self.close()
            self._sync_failed = False
        if self._kv is None:
            kv = self._open_key_values()
            try:
                self._forget_heads()
                self._stream_ids = find_streams(kv)
                _mark_version(kv)
            except BaseException:
                kv.close()
                raise
            self._kv = kv
        return self._kv

    def _reset_after(self, error: BaseException) -> None:
        """Discard the cache after a failure, so that it is read again from the slot."""
        self._forget_heads()
        if isinstance(error, StorageError):
            # RocksDB rejects all writes after a failed one, and the kernel may have dropped what it
            # could not sync: only what is found when the slot is opened again is on the disk.
            self.close()
        elif self._kv is not None:
            self._stream_ids = find_streams(self._kv)

    def _forget_heads(self) -> None:
        self._heads = {}
        self._compiled.forget_heads()


def _last_number(kv: KeyValues, stream_id: int) -> int:
    batch = last_batch(kv, stream_id)
    return batch.last_number if batch is not None else 0


def _mark_version(kv: KeyValues) -> None:
    if kv.get(keys.VERSION_KEY) in keys.OLDER:
        batch = kv.batch()
        batch.put(keys.VERSION_KEY, keys.VERSION)
        kv.write(batch, sync=True)
