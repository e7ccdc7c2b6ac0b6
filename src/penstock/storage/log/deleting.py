"""Deletes the oldest records of a stream, with their entries in the indexes.

Records are deleted by key, because ranges of keys are deleted at once, whatever their length. But
what may be deleted is known by number: a record with a low key may have been recorded late, by a
job that fills a gap. So the key below which records are deleted is found from the numbers.
"""

from penstock.storage.log import keys
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.keys import SECOND_NS, eight_bytes
from penstock.storage.log.reader import find_batches, last_batch


def delete_records(kv: KeyValues, stream_id: int, key: bytes, batch: Changes) -> None:
    """Delete all records of a stream with lower keys."""
    base = keys.prefix(b"r", stream_id)
    batch.delete_range(base, base + key)
    # The last batch stays, whatever it held: numbers continue from it. So it is closed.
    last = last_batch(kv, stream_id)
    numbers, times = keys.prefix(b"n", stream_id), keys.prefix(b"t", stream_id)
    found = find_batches(kv, stream_id, 0)
    kept = next((each for each in found if each.high >= key or each == last), None)
    if last is None or kept is None:
        return
    number = eight_bytes(kept.first_number)
    batch.delete_range(numbers, numbers + number)
    for entry, _ in kv.scan(times, keys.past(times)):
        if entry[13:] >= number:
            batch.delete_range(times, entry)
            break
    # The index entry by which it was found may be one of those deleted.
    second = eight_bytes(kept.first_received_ns // SECOND_NS)
    batch.put(times + second + number, b"")
    batch.put(numbers + eight_bytes(last.first_number), keys.write_batch(last))
