"""One append in progress: records with rising keys, the usual case, are added without a read."""

from collections.abc import Sequence
from itertools import chain, repeat
from operator import add, attrgetter, lt

from penstock.market.codec import encode_many
from penstock.market.events import Event
from penstock.storage.log import Stored, keys
from penstock.storage.log.heads import StreamHead
from penstock.storage.log.key_values import Changes
from penstock.storage.log.keys import SECOND_NS, Stream, eight_bytes

_prefix_of, _stream_of, _topic_of = map(attrgetter, ("prefix", "stream", "topic"))


class Append:
    """One append in progress."""

    __slots__ = ("_indexed", "_pending", "batch", "changes", "events", "heads", "keys", "numbers",
                 "stored")  # fmt: skip

    def __init__(self, batch: Changes) -> None:
        self.batch = batch
        self.changes = False
        """Whether there is anything to write besides records."""
        self.stored: list[Stored] = []
        # Of records with rising keys, as columns: each step is done for all of them at once.
        self.heads: list[StreamHead] = []
        self.keys: list[bytes] = []
        self.numbers: list[int] = []
        self.events: list[Event] = []
        self._pending: dict[tuple[Stream, bytes], bytes] = {}
        """Records of this batch by key, filled on lookup."""
        self._indexed = 0

    def record_at(self, stream: Stream, key: bytes) -> bytes | None:
        for stored in self.stored[self._indexed :]:
            self._pending[stored.stream, stored.key] = stored.record
        self._indexed = len(self.stored)
        return self._pending.get((stream, key))

    def put_ascending(self, slot: str) -> None:
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


def add_next(event: Event, head: StreamHead, work: Append) -> bool:
    """Add an event that is newer than all others; False if it is not."""
    own_id, at_ns = head.id_of(event), event.received_at_ns
    if own_id is None:
        if at_ns <= head.highest_ns:
            return False
        head.highest_ns = at_ns
        key, batch_end = keys.key_of_arrival(at_ns), head.arrival_batch_end
    elif head.highest_id < own_id < head.ascending_ids_below:
        head.highest_id = own_id
        key, batch_end = eight_bytes(own_id), head.id_batch_end
    else:
        return False
    head.number = number = head.number + 1
    if number >= batch_end or at_ns // SECOND_NS != head.batch_second:
        head.begin_batch(number, key, at_ns, work.batch)
    work.heads.append(head)
    work.keys.append(key)
    work.numbers.append(number)
    work.events.append(event)
    return True


def add_ascending(events: Sequence[Event], head: StreamHead, work: Append) -> bool:
    """Add events, each newer than the one before and all others; False if they are not."""
    ids = list(map(head.id_of, events))
    received = [event.received_at_ns for event in events]
    if None not in ids:
        if not (_is_ascending(ids, head.highest_id) and ids[-1] < head.ascending_ids_below):  # type: ignore[operator]
            return False
        head.highest_id = ids[-1]  # type: ignore[assignment]
        found, batch_end = list(map(eight_bytes, ids)), head.id_batch_end
    elif any(each is not None for each in ids) or not _is_ascending(received, head.highest_ns):
        return False
    else:
        head.highest_ns = received[-1]
        found, batch_end = list(map(keys.key_of_arrival, received)), head.arrival_batch_end
    first = head.number + 1
    head.number += len(events)
    first_ns, second = min(received), max(received) // SECOND_NS
    if first_ns // SECOND_NS != second:
        head.add_batch(found, received, work.batch)
    elif first >= batch_end or second != head.batch_second:
        head.begin_batch(first, found[0], first_ns, work.batch)
    work.heads += repeat(head, len(events))
    work.keys += found
    work.numbers += range(first, first + len(events))
    work.events += events
    return True


def _is_ascending(numbers: Sequence[int | None], above: int) -> bool:
    """Whether each is greater than the one before, and the first than ``above``."""
    return all(map(lt, chain((above,), numbers), numbers))  # type: ignore[arg-type]
