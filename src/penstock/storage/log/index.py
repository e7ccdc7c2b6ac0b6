"""The indexes of a slot: its streams, and the batches of each by number."""

from collections.abc import Iterator

from penstock.errors import NotOurRecord
from penstock.storage.log import keys, received_at_ns
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.keys import SECOND_NS, Batch, Stream, eight_bytes


def find_streams(kv: KeyValues) -> dict[Stream, int]:
    """Return the streams of a slot and their numbers within it.

    Raises:
        NotOurRecord: it was written by a newer penstock.
    """
    version = kv.get(keys.VERSION_KEY)
    if version != keys.VERSION and version not in keys.OLDER:
        raise NotOurRecord(
            f"a log of layout {version!r}, where this penstock knows {keys.VERSION!r}: it was"
            " written by a newer version (upgrade)"
        )
    return {
        keys.read_stream(value): int.from_bytes(entry[1:], "big")
        for entry, value in kv.scan(b"s", keys.past(b"s"))
    }


def find_batches(kv: KeyValues, stream_id: int, number: int) -> Iterator[Batch]:
    """Batches of a stream in the order of their numbers, from the one that holds ``number``."""
    numbers = keys.prefix(b"n", stream_id)
    begin = numbers + number.to_bytes(8, "big")
    holder = last_of(kv, numbers, keys.key_after(begin))
    if holder is not None:
        begin = holder[0]
    begun: Batch | None = None
    for entry, value in kv.scan(begin, keys.past(numbers)):
        batch = keys.read_batch(entry, value)
        if begun is not None:
            # The next batch begins at a higher key: an upper bound for the keys of this one.
            yield begun._replace(records=batch.first_number - begun.first_number, high=batch.low)
        begun = None if batch.records else batch
        if begun is None:
            yield batch
    if begun is not None:
        yield _as_far_as_it_is(kv, stream_id, begun)


def last_batch(kv: KeyValues, stream_id: int) -> Batch | None:
    """The batch with the last number of a stream; an open one with its present end."""
    numbers = keys.prefix(b"n", stream_id)
    entry = last_of(kv, numbers, keys.past(numbers))
    if entry is None:
        return None
    batch = keys.read_batch(*entry)
    return batch if batch.records else _as_far_as_it_is(kv, stream_id, batch)


def lowest_key(kv: KeyValues, stream_id: int, first: int) -> bytes | None:
    """A key that no record numbered ``first`` or higher is below; None if there is none.

    It may be lower than the lowest of their keys.
    """
    found = find_batches(kv, stream_id, first)
    return min((batch.low for batch in found if batch.last_number >= first), default=None)


def number_before(kv: KeyValues, stream_id: int, received_ns: int) -> int:
    """A number up to which all records were received before this time, but for late ones.

    The records of the second of that time are not among them.
    """
    times = keys.prefix(b"t", stream_id)
    begin = times + (max(received_ns, 0) // SECOND_NS).to_bytes(8, "big")
    for entry, _ in kv.scan(begin, keys.past(times)):
        return int.from_bytes(entry[13:], "big") - 1
    last = last_batch(kv, stream_id)
    return last.last_number if last is not None else 0


def _as_far_as_it_is(kv: KeyValues, stream_id: int, batch: Batch) -> Batch:
    """The open last batch of a stream with its present end: the last key of its kind."""
    base = keys.prefix(b"r", stream_id)
    end = keys.FIRST_LONG_ID if batch.low >= keys.FIRST_ARRIVAL else keys.FIRST_ARRIVAL
    last = last_of(kv, base + batch.low, base + end)
    if last is None:
        raise NotOurRecord("a batch of the log that lacks its records")
    key, value = last
    return batch._replace(
        records=int.from_bytes(value[:8], "big") - batch.first_number + 1,
        high=key[5:],
        last_received_ns=received_at_ns(value[8:]),
    )


def last_of(kv: KeyValues, begin: bytes, end: bytes) -> tuple[bytes, bytes] | None:
    """The highest pair in [begin, end)."""
    return next(iter(kv.scan(begin, end, reverse=True)), None)


def put_last_number(
    stream_id: int, number: int, last_key: bytes, last_ns: int, changes: Changes
) -> None:
    """Put a batch without records that has the last number: numbers continue from it.

    The key and the time are those of the last record.
    """
    batch = Batch(number, 1, last_key, last_key, last_ns, last_ns)
    changes.put(keys.prefix(b"n", stream_id) + eight_bytes(number), keys.write_batch(batch))


def skip_numbers(kv: KeyValues, stream_id: int, number: int, changes: Changes) -> None:
    """Have the numbers of a stream continue above this one, which is not assigned yet."""
    base = keys.prefix(b"r", stream_id)
    key, last_ns = keys.key_of_id(0), 0
    before = last_batch(kv, stream_id)
    if before is not None:
        # Closed, as an open batch has all numbers up to the next one.
        first = eight_bytes(before.first_number)
        changes.put(keys.prefix(b"n", stream_id) + first, keys.write_batch(before))
        key, last_ns = before.high, before.last_received_ns
    last = last_of(kv, base, keys.past(base))
    if last is not None:
        key = max(key, last[0][5:])
    put_last_number(stream_id, number, key, last_ns, changes)
