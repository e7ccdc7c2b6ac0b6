"""The head of each stream: its highest key and last number, and the batch being written.

Hundreds of streams get a record or two each between one append and the next. The index entries by
number and by time are therefore not written with each append: as long as keys rise, records belong
to an open batch (see ``keys``).
"""

from penstock.market.channels import Channel
from penstock.storage.log import keys
from penstock.storage.log.key_values import Changes
from penstock.storage.log.keys import PLAIN_IDS, SECOND_NS, Batch, Stream, eight_bytes

MOST_IN_BATCH = 256
"""The most records of an open batch, unless one append has more: all are read to find one."""


class StreamHead:
    """The highest key, last number and open batch of a stream."""

    __slots__ = (
        "_batch",
        "_numbers_prefix",
        "_second",
        "_times_prefix",
        "arrival_batch_end",
        "ascending_ids_below",
        "batch_second",
        "highest_id",
        "highest_ns",
        "id_batch_end",
        "id_of",
        "is_final",
        "number",
        "prefix",
        "stream",
        "topic",
    )  # fmt: skip

    def __init__(self, stream: Stream, stream_id: int, channel: Channel) -> None:
        self.stream, self.topic = stream, str(stream)
        self.id_of, self.is_final = channel.id_of, channel.is_final
        self.prefix = keys.prefix(b"r", stream_id)
        self._numbers_prefix = keys.prefix(b"n", stream_id)
        self._times_prefix = keys.prefix(b"t", stream_id)
        # Where records are corrected, whether an event is new must be checked by its contents.
        self.ascending_ids_below = PLAIN_IDS if channel.is_final is None else 0
        self.highest_id = -1
        self.highest_ns = -1
        self.number = 0
        self._batch: tuple[int, bytes, int] | None = None
        """The first number, key and receive time of the open batch."""
        self.batch_second = -1
        """When that was received; below, the numbers up to which it accepts records keyed by ids,
        and by arrival. It accepts only rising keys."""
        self.id_batch_end = self.arrival_batch_end = 0
        self._second = -1
        """The last second with an entry in the index of times."""

    def begin_batch(self, number: int, key: bytes, at_ns: int, kv: Changes) -> None:
        """Open a batch with a record whose key is the highest.

        The batch before stays open too, if the keys of this one follow its own.
        """
        arrival = key >= keys.FIRST_ARRIVAL
        if self._batch is not None and (self._batch[1] >= keys.FIRST_ARRIVAL) is not arrival:
            self.close_batch(number - 1, kv)
        self._batch = number, key, at_ns
        self.put_batch(Batch(number, 0, key, key, at_ns, at_ns), kv)
        batch_end = number + MOST_IN_BATCH
        self.id_batch_end, self.arrival_batch_end = (0, batch_end) if arrival else (batch_end, 0)
        self.batch_second = at_ns // SECOND_NS
        # Batches that follow within the same second are found by reading on from this one.
        if self.batch_second != self._second:
            self._second = self.batch_second
            self._put_second(self._second, number, kv)

    def close_batch(self, last_number: int, kv: Changes) -> None:
        """Close the open batch, if there is one: write its number of records and highest key."""
        if self._batch is not None:
            number, low, at_ns = self._batch
            records, arrival = last_number - number + 1, low >= keys.FIRST_ARRIVAL
            # An upper bound: some records of other batches may be read unnecessarily.
            high = _highest_arrival(self.highest_ns) if arrival else eight_bytes(self.highest_id)
            self.put_batch(Batch(number, records, low, high, at_ns, at_ns), kv)
            self._batch, self.id_batch_end, self.arrival_batch_end = None, 0, 0

    def add_batch(self, found: list[bytes], received: list[int], kv: Changes) -> None:
        """Add a closed batch of the last records."""
        first = self.number - len(found) + 1
        self.close_batch(first - 1, kv)
        first_ns, last_ns = min(received), max(received)
        batch = Batch(first, len(found), min(found), max(found), first_ns, last_ns)
        self.put_batch(batch, kv)
        if not batch.within_second(self._second):
            for each in {at_ns // SECOND_NS for at_ns in received}:
                self._put_second(each, first, kv)
            self._second = received[-1] // SECOND_NS

    def put_batch(self, batch: Batch, kv: Changes) -> None:
        """Put the index entry that finds records by number."""
        kv.put(self._numbers_prefix + eight_bytes(batch.first_number), keys.write_batch(batch))

    def _put_second(self, second: int, number: int, kv: Changes) -> None:
        """Put the index entry that finds a batch by time."""
        kv.put(self._times_prefix + eight_bytes(second) + eight_bytes(number), b"")


def _highest_arrival(at_ns: int) -> bytes:
    """The highest possible key of a record that arrived at this time."""
    return keys.key_of_arrival(at_ns, keys.MOST_AT_ONCE)
