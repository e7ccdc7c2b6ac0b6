"""Reads what was received in a time range, of many streams at once.

A reader by time, as replay is, reads ranges of seconds one after the other. So the indexes of each
stream are read in order, once per range, and the receive time is taken from a fixed place of the
record's bytes: decoding every record would take most of the time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat, starmap
from operator import itemgetter
from struct import unpack

import msgspec

from penstock.storage.log import Received, ReceivedPart, Stored, keys, received_at_ns
from penstock.storage.log.corrections import first_received, has_corrections, last_corrected
from penstock.storage.log.index import find_batches, find_streams, last_of
from penstock.storage.log.key_values import KeyValues
from penstock.storage.log.keys import SECOND_NS, Batch, Stream
from penstock.storage.log.spans import Interval

_Source = tuple[str, KeyValues, int]
"""A slot that holds a stream, and the stream's number in it."""
_FAR = 4096
"""Numbers between two batches from which on the index is searched again instead of read on."""
_NEAR = 64
"""Ids between two intervals that are read too, as a seek takes longer."""
_FIELD = b'"received_at_ns":'
_DIGITS = 19
"""Digits of a time in nanoseconds, from the year 2001 to 2286."""


class SecondIndex:
    """The index of times of all slots, as of one moment."""

    def __init__(self, slots: Mapping[str, KeyValues], streams: Iterable[Stream]) -> None:
        found = [(slot, kv, find_streams(kv)) for slot, kv in sorted(slots.items())]
        self._sources = {
            stream: [(slot, kv, ids[stream]) for slot, kv, ids in found if stream in ids]
            for stream in streams
        }

    def received(self, since_ns: int, until_ns: int, most: int) -> ReceivedPart:
        """What was received in [since, until), or in a shorter range if that is more than most."""
        found = {
            stream: [
                batch
                for _, kv, stream_id in sources
                for batch in self._batches(kv, stream_id, since_ns, until_ns)
                if batch.span_ns[1] >= since_ns
            ]
            for stream, sources in self._sources.items()
        }
        count = sum(batch.records for batches in found.values() for batch in batches)
        half_ns = (since_ns + until_ns) // 2 // SECOND_NS * SECOND_NS
        if count > most and half_ns > since_ns:
            return self.received(since_ns, half_ns, most)
        until_ns = _between_batches(chain.from_iterable(found.values()), since_ns, until_ns)
        records: list[Received] = []
        for stream, some in found.items():
            batches = [batch for batch in some if batch.span_ns[0] < until_ns]
            for part in self._records(stream, batches, since_ns, until_ns):
                records += part
        return ReceivedPart(records, until_ns)

    def next_second(self, since_ns: int) -> int | None:
        """The first second at or after a time in which anything was received; None if none."""
        first = _second(since_ns)
        found = (
            next(kv.scan(times + first, keys.past(times)), None) for kv, times in self._times()
        )
        return min((_second_of(*entry) for entry in found if entry), default=None)

    def last_second(self) -> int | None:
        """The last second in which anything was received; None if nothing was."""
        found = (last_of(kv, times, keys.past(times)) for kv, times in self._times())
        return max((_second_of(*entry) for entry in found if entry), default=None)

    def _times(self) -> Iterator[tuple[KeyValues, bytes]]:
        for _, kv, stream_id in chain.from_iterable(self._sources.values()):
            yield kv, keys.prefix(b"t", stream_id)

    def _records(
        self, stream: Stream, batches: list[Batch], since_ns: int, until_ns: int
    ) -> Iterator[Iterable[Received]]:
        # A record may have a copy in another slot that was received at another time: so the same
        # keys are read in all slots.
        intervals = _joined((batch.low, keys.key_after(batch.high)) for batch in batches)
        sources = self._sources[stream]
        topic = str(stream)
        if len(sources) == 1:
            ((slot, kv, stream_id),) = sources
            parts = {slot: _values(kv, keys.prefix(b"r", stream_id), intervals)}
        else:
            parts = _without_copies(stream, sources, intervals)
        for slot, values in parts.items():
            numbers, records = _numbers_of(values), list(map(_RECORD, values))
            times = _times_of(records)
            found: Iterable[Received]
            found = map(Received, times, repeat(slot), numbers, repeat(topic), records)
            if times and not (since_ns <= min(times) and max(times) < until_ns):
                found = compress(found, (since_ns <= each < until_ns for each in times))
            yield found

    def _batches(
        self, kv: KeyValues, stream_id: int, since_ns: int, until_ns: int
    ) -> Iterator[Batch]:
        """The batches that hold anything received in [since, until)."""
        times = keys.prefix(b"t", stream_id)
        begin, end = times + _second(since_ns), times + _second(until_ns - 1 + SECOND_NS)
        seconds: dict[int, set[int]] = {}
        for entry, _ in kv.scan(begin, end):
            number = int.from_bytes(entry[13:], "big")
            seconds.setdefault(number, set()).add(_second_of(entry))
        starts = sorted(seconds)
        place = 0
        while place < len(starts):
            current: set[int] = set()
            for batch in find_batches(kv, stream_id, starts[place]):
                first = batch.first_number
                while place < len(starts) and starts[place] <= first:
                    place += 1
                # Batches that follow one within the same second have no entry of their own.
                current = seconds.get(first, current)
                if any(batch.within_second(each) for each in current) or first in seconds:
                    yield batch
                    continue
                current = set()
                if place == len(starts) or starts[place] - batch.last_number > _FAR:
                    break
            else:
                return


def _second(at_ns: int) -> bytes:
    """The second of a time, as in the index."""
    return keys.eight_bytes(max(at_ns, 0) // SECOND_NS)


def _second_of(entry: bytes, _: bytes = b"") -> int:
    return int.from_bytes(entry[5:13], "big")


def _between_batches(batches: Iterable[Batch], since_ns: int, until_ns: int) -> int:
    """A time close to the end of a range that no batch spans; the end itself if there is none.

    A batch that two ranges share is read twice.
    """
    end_ns = until_ns
    for first_ns, last_ns in sorted((batch.span_ns for batch in batches), reverse=True):
        if first_ns < end_ns <= last_ns:
            end_ns = first_ns
    return end_ns if end_ns - since_ns > (until_ns - since_ns) // 2 else until_ns


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """The same intervals in order, without overlaps; neighbours that are close are joined."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and (begin <= joined[-1][1] or _is_near(joined[-1][1], begin)):
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _is_near(end: bytes, begin: bytes) -> bool:
    """Whether few keys, or only those of records received in between, are between two."""
    if begin >= keys.FIRST_ARRIVAL:
        return end >= keys.FIRST_ARRIVAL and begin < keys.FIRST_LONG_ID
    return int.from_bytes(begin, "big") - int.from_bytes(end[:8], "big") <= _NEAR


def _ranges(base: bytes, intervals: list[Interval]) -> list[Interval]:
    """Intervals of keys as those of entries."""
    past = keys.past(base)
    return [(base + begin, min(base + end, past)) for begin, end in intervals]


def _values(kv: KeyValues, base: bytes, intervals: list[Interval]) -> list[bytes]:
    parts = list(starmap(kv.values, _ranges(base, intervals)))
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def _without_copies(
    stream: Stream, sources: list[_Source], intervals: list[Interval]
) -> dict[str, list[bytes]]:
    """The values of each slot; of a key that several slots hold, only the one readers show."""
    parts: dict[str, dict[bytes, bytes]] = {}
    for slot, kv, stream_id in sources:
        base = keys.prefix(b"r", stream_id)
        pairs = chain.from_iterable(starmap(kv.scan, _ranges(base, intervals)))
        parts[slot] = {key[len(base) :]: value for key, value in pairs}
    choose = last_corrected if has_corrections(stream) else first_received
    held = Counter(chain.from_iterable(parts.values()))
    for key in (key for key, slots in held.items() if slots > 1):
        same = [
            Stored(stream, slot, int.from_bytes(value[:8], "big"), key, value[8:], str(stream))
            for slot, part in parts.items()
            if (value := part.get(key)) is not None
        ]
        shown = choose(same)
        for each in same:
            if each is not shown:
                del parts[each.slot][key]
    return {slot: list(part.values()) for slot, part in parts.items()}


# A value is the number in eight bytes, then the record. Each step is done for all of them at once:
# that takes a third of the time of a loop.
_NUMBER, _RECORD = itemgetter(slice(8)), itemgetter(slice(8, None))


def _numbers_of(values: list[bytes]) -> Sequence[int]:
    if values and sorted(values) == values:
        first, last = (int.from_bytes(value[:8], "big") for value in (values[0], values[-1]))
        if last - first == len(values) - 1:
            return range(first, last + 1)  # numbers are never used twice
    return unpack(f">{len(values)}Q", b"".join(map(_NUMBER, values)))


def _times_of(records: list[bytes]) -> list[int]:
    """The receive times of records."""
    if not records:
        return []
    # Records of one stream begin alike, up to the digits of the time; not those of old versions.
    # Whatever the first and the last in the order of bytes begin with, all others do too.
    begin = records[0].find(_FIELD) + len(_FIELD)
    if min(records)[:begin] == max(records)[:begin]:
        cut = itemgetter(slice(begin, begin + _DIGITS + 1))
        pieces = b"".join(map(cut, records))
        # A time with more or fewer digits leaves out a comma, or adds the quote of the next field.
        try:
            times = _decode_times(b"[%b]" % pieces[:-1])
        except msgspec.DecodeError:
            times = []
        if len(times) == len(records) and pieces.endswith(b","):
            return times
    return list(map(received_at_ns, records))


_decode_times = msgspec.json.Decoder(list[int]).decode
