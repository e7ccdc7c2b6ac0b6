"""Heads: where each stream stands, and how what is added to it can be found again.

Hundreds of streams bring a record or two each between one append and the next. What finds records
by number and by time is therefore not written with each append: as long as records rise, an open
batch (see ``keys``) holds them.
"""

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any

from penstock.storage.log import keys
from penstock.storage.log.keys import PLAIN_IDS, SECOND_NS, Batch, Stream
from penstock.storage.log.pairs import PairBatch

_MOST_IN_BATCH = 256
"""Records of an open batch: to find one by its number, so many are read at most."""
_eight_bytes = Layout(">Q").pack


class Head:
    """Where a stream stands, and what the append at hand adds to it."""

    __slots__ = (
        "_batch", "_batch_second", "_last", "_numbers_prefix", "_second", "_times_prefix",
        "highest_id", "highest_ns", "id_of", "keys", "number", "plain_ids", "prefix", "received",
        "rises", "stream", "topic", "values",
    )  # fmt: skip

    def __init__(self, stream: Stream, stream_id: int, id_of: Callable[[Any], int | None]) -> None:
        self.stream, self.topic, self.id_of = stream, str(stream), id_of
        self.prefix = keys.prefix(b"r", stream_id)
        self._numbers_prefix = keys.prefix(b"n", stream_id)
        self._times_prefix = keys.prefix(b"t", stream_id)
        # Candles have ids like any other, but whether one is new takes a closer look.
        self.plain_ids = 0 if stream.channel.startswith("candles_") else PLAIN_IDS
        self.highest_id = -1
        self.highest_ns = -1
        self.number = 0
        self.rises = True
        """Whether all that is added now is newer than all there was."""
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.received: list[int] = []
        self._batch: Batch | None = None
        """The open one; below, its second, and the key and instant of its last record."""
        self._batch_second = -1
        self._last = b"", -1
        self._second = -1
        """The last one by which batches of this stream are found."""

    def write(self, pairs: PairBatch) -> None:
        """Put the records that were added, and what finds them.

        Stream by stream, because RocksDB takes keys that follow each other in half the time.
        """
        found, received, put, prefix = self.keys, self.received, pairs.put, self.prefix
        for key, value in zip(found, self.values, strict=True):
            put(prefix + key, value)
        first = self.number - len(found) + 1
        first_ns, last_ns = min(received), max(received)
        second = last_ns // SECOND_NS
        if not self.rises or first_ns < second * SECOND_NS:
            self.close_batch(first - 1, pairs)
            low, high = min(found), max(found)
            self.put_batch(Batch(first, len(found), low, high, first_ns, last_ns), pairs)
            if second != self._second or first_ns < second * SECOND_NS:
                for each in {at_ns // SECOND_NS for at_ns in received}:
                    self._put_second(each, first, pairs)
                self._second = received[-1] // SECOND_NS
        else:
            if not self._holds(found[0], first, second):
                self._begin_batch(Batch(first, 0, found[0], found[0], first_ns, first_ns), pairs)
            self._last = found[-1], last_ns
        self.keys, self.values, self.received = [], [], []

    def _holds(self, key: bytes, number: int, second: int) -> bool:
        """Whether the open batch takes records that rise from its last one."""
        begun = self._batch
        return (
            begun is not None
            and second == self._batch_second
            and number - begun.first_number < _MOST_IN_BATCH
            and _is_arrival(key) == _is_arrival(begun.low)
        )

    def _begin_batch(self, begun: Batch, pairs: PairBatch) -> None:
        """Open a batch; the one before may stay open if the keys of this one follow its own."""
        if self._batch is not None and _is_arrival(self._batch.low) != _is_arrival(begun.low):
            self.close_batch(begun.first_number - 1, pairs)
        self.put_batch(begun, pairs)
        self._batch, self._batch_second = begun, begun.first_received_ns // SECOND_NS
        # Batches that follow within the same second are found by walking on from this one.
        if self._batch_second != self._second:
            self._second = self._batch_second
            self._put_second(self._second, begun.first_number, pairs)

    def close_batch(self, last_number: int, pairs: PairBatch) -> None:
        """Let the open batch, if there is one, say by itself what it holds."""
        if self._batch is not None:
            high, last_ns = self._last
            records = last_number - self._batch.first_number + 1
            whole = self._batch._replace(records=records, high=high, last_received_ns=last_ns)
            self.put_batch(whole, pairs)
            self._batch = None

    def put_batch(self, batch: Batch, pairs: PairBatch) -> None:
        """Put what finds records by number."""
        pairs.put(self._numbers_prefix + _eight_bytes(batch.first_number), keys.write_batch(batch))

    def _put_second(self, second: int, number: int, pairs: PairBatch) -> None:
        """Put what finds a batch by time."""
        pairs.put(self._times_prefix + _eight_bytes(second) + _eight_bytes(number), b"")


def _is_arrival(key: bytes) -> bool:
    return key >= keys.FIRST_ARRIVAL
