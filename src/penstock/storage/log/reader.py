"""The reader merges all slots.

Slots are merged by key. If several hold a key, the record received first is shown; for a candle
that the exchange corrected, its last correction. A search by time finds in each slot the batches
received then, reads their key ranges from all slots, and drops what was received at another time.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter

from penstock.storage.log import (
    EVERYTHING,
    ReceivedPart,
    SlotStats,
    Span,
    Stored,
    StreamStats,
    keys,
    received_at_ns,
    spans,
)
from penstock.storage.log.by_time import SecondIndex
from penstock.storage.log.corrections import first_received, has_corrections, last_corrected
from penstock.storage.log.following import SlotFollower
from penstock.storage.log.index import (
    find_batches,
    find_streams,
    last_batch,
    last_of,
    lowest_key,
    number_before,
)
from penstock.storage.log.key_values import KeyValues, Slots
from penstock.storage.log.keys import SECOND_NS, Stream
from penstock.storage.log.spans import Interval, Intervals

_StreamsOf = Callable[[KeyValues], dict[Stream, int]]


class _HeldSlots:
    """The slots as they were at one moment."""

    def __init__(self, slots: dict[str, KeyValues]) -> None:
        self._slots = slots

    def current(self) -> dict[str, KeyValues]:
        return self._slots

    def names(self) -> Collection[str]:
        return self._slots.keys()

    def follow(self, name: str) -> KeyValues:
        return self._slots[name]

    def close(self) -> None: ...


class MergedReader:
    """All slots as one, on any ordered map of bytes."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._streams_of: _StreamsOf = find_streams

    def held(self) -> "MergedReader":
        slots = self._slots.current()
        found, streams = MergedReader(_HeldSlots(slots)), {}
        for kv in slots.values():
            streams[id(kv)] = find_streams(kv)
        found._streams_of = lambda kv: streams[id(kv)]
        return found

    def slots(self) -> list[str]:
        return sorted(self._slots.current())

    def streams(self) -> list[Stream]:
        found = [self._streams_of(kv) for kv in self._slots.current().values()]
        return sorted(set[Stream]().union(*found))

    def scan(
        self,
        stream: Stream,
        span: Span = EVERYTHING,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Stored]:
        return islice(self._scan(stream, span, reverse), limit)

    def _scan(self, stream: Stream, span: Span, reverse: bool) -> Iterator[Stored]:
        sources = [
            (slot, kv, streams[stream])
            for slot, kv in sorted(self._slots.current().items())
            if stream in (streams := self._streams_of(kv))
        ]
        span = spans.by_keys(stream, span, lambda key, back: _nearest(sources, stream, key, back))
        whole = (span.first or b"", span.end or keys.AFTER_ALL)
        intervals = [whole]
        received = spans.received(span)
        if received is not None:
            found = Intervals(whole)
            for _, kv, stream_id in sources:
                for interval in _intervals(kv, stream_id, *received):
                    found.add(interval)
            intervals = found.united()
        wanted = spans.times_wanted(span)
        for begin, end in reversed(intervals) if reverse else intervals:
            parts = [
                _records(kv, stream, slot, keys.prefix(b"r", stream_id), (begin, end), reverse)
                for slot, kv, stream_id in sources
            ]
            records = parts[0] if len(parts) == 1 else _merged(stream, parts, reverse)
            yield from records if wanted is None else filter(wanted, records)

    def keys_in(self, stream: Stream, spans: Iterable[Span]) -> Iterator[bytes]:
        wanted = [(span.first or b"", span.end or keys.AFTER_ALL) for span in spans]
        for kv in self._slots.current().values():
            stream_id = self._streams_of(kv).get(stream)
            if stream_id is None:
                continue
            base = keys.prefix(b"r", stream_id)
            end = keys.past(base)
            intervals = [(base + first, min(base + last, end)) for first, last in wanted]
            yield from (key[len(base) :] for key in kv.keys_within(intervals))

    def numbers(
        self, stream: Stream, slot: str, first: int, last: int | None = None
    ) -> Iterator[Stored]:
        kv = self._slots.current().get(slot)
        stream_id = None if kv is None else self._streams_of(kv).get(stream)
        if kv is None or stream_id is None:
            return
        base = keys.prefix(b"r", stream_id)
        for batch in find_batches(kv, stream_id, first):
            if last is not None and batch.first_number > last:
                return
            low = max(first, batch.first_number)
            high = batch.last_number if last is None else min(last, batch.last_number)
            interval = (batch.low, keys.key_after(batch.high))
            found = _records(kv, stream, slot, base, interval, reverse=False)
            # Later records may lie between the batch's keys; their numbers differ.
            yield from sorted(
                (s for s in found if low <= s.number <= high), key=attrgetter("number")
            )

    def received(
        self, streams: Collection[Stream], since_ns: int, until_ns: int, most: int
    ) -> ReceivedPart:
        return self._by_time(streams).received(since_ns, until_ns, most)

    def next_received_ns(self, streams: Collection[Stream], since_ns: int) -> int | None:
        second = self._by_time(streams).next_second(since_ns)
        return None if second is None else max(since_ns, second * SECOND_NS)

    def end_ns(self, streams: Collection[Stream]) -> int | None:
        second = self._by_time(streams).last_second()
        return None if second is None else (second + 1) * SECOND_NS

    def _by_time(self, streams: Collection[Stream]) -> SecondIndex:
        return SecondIndex(self._slots.current(), streams)

    def number_before(self, stream: Stream, slot: str, received_ns: int) -> int:
        kv = self._slots.current().get(slot)
        stream_id = None if kv is None else self._streams_of(kv).get(stream)
        return 0 if kv is None or stream_id is None else number_before(kv, stream_id, received_ns)

    def lowest_key(self, stream: Stream, slot: str, first: int) -> bytes | None:
        kv = self._slots.current().get(slot)
        stream_id = None if kv is None else self._streams_of(kv).get(stream)
        return None if kv is None or stream_id is None else lowest_key(kv, stream_id, first)

    def lacks_any(self, slot: str, records: Mapping[Stream, bytes]) -> bool:
        kv = self._slots.current().get(slot)
        ids = {} if kv is None else self._streams_of(kv)
        return kv is None or any(
            stream not in ids or kv.get(keys.prefix(b"r", ids[stream]) + key) is None
            for stream, key in records.items()
        )

    def shown(self, records: Sequence[Stored]) -> list[Stored]:
        if not records or not has_corrections(records[0].stream):
            return list(records)
        found = [stored.key for stored in records]
        span = Span(min(found), keys.key_after(max(found)))
        shown = {stored.key: stored for stored in self.scan(records[0].stream, span)}
        return [shown.get(stored.key, stored) for stored in records]

    def follower(self) -> SlotFollower:
        return SlotFollower(self._slots)

    def stats(self) -> list[SlotStats]:
        return [stats_of(slot, kv) for slot, kv in sorted(self._slots.current().items())]

    def close(self) -> None:
        self._slots.close()


def stats_of(slot: str, kv: KeyValues) -> SlotStats:
    """The statistics of a slot."""
    streams = (
        _stream_stats(kv, stream, stream_id)
        for stream, stream_id in sorted(find_streams(kv).items())
    )
    return SlotStats(slot, kv.size_bytes(), tuple(found for found in streams if found))


def _stream_stats(kv: KeyValues, stream: Stream, stream_id: int) -> StreamStats | None:
    base, numbers = keys.prefix(b"r", stream_id), keys.prefix(b"n", stream_id)
    first = next(iter(kv.scan(base, keys.past(base))), None)
    last = last_of(kv, base, keys.past(base))
    oldest = next(iter(kv.scan(numbers, keys.past(numbers))), None)
    newest = last_batch(kv, stream_id)
    if first is None or last is None or oldest is None or newest is None:
        return None
    return StreamStats(
        stream,
        records=newest.last_number - keys.read_batch(*oldest).first_number + 1,
        last_number=newest.last_number,
        first_key=first[0][5:],
        last_key=last[0][5:],
        first_received_ns=received_at_ns(first[1][8:]),
        last_received_ns=received_at_ns(last[1][8:]),
        record_bytes=(len(first[1]) + len(last[1])) // 2,
    )


def _intervals(kv: KeyValues, stream_id: int, since_ns: int, until_ns: int) -> Iterator[Interval]:
    """The intervals of keys that include everything a slot received in [since, until)."""
    times = keys.prefix(b"t", stream_id)
    begin = times + (max(since_ns, 0) // SECOND_NS).to_bytes(8, "big")
    end = times + (max(until_ns, 0) // SECOND_NS + 1).to_bytes(8, "big")
    for entry, _ in kv.scan(begin, end):
        second = int.from_bytes(entry[5:13], "big")
        number = int.from_bytes(entry[13:], "big")
        for batch in find_batches(kv, stream_id, number):
            if batch.first_number != number and not batch.within_second(second):
                break
            yield batch.low, keys.key_after(batch.high)


def _records(
    kv: KeyValues, stream: Stream, slot: str, base: bytes, interval: Interval, reverse: bool
) -> Iterator[Stored]:
    begin, end = base + interval[0], min(base + interval[1], keys.past(base))
    topic = str(stream)
    for entry, value in kv.scan(begin, end, reverse=reverse):
        number = int.from_bytes(value[:8], "big")
        yield Stored(stream, slot, number, entry[5:], value[8:], topic)


def _nearest(
    sources: list[tuple[str, KeyValues, int]], stream: Stream, key: bytes, back: bool
) -> Stored | None:
    """The first record at or after a key; with ``back``, the last one before it."""
    interval = (b"", key) if back else (key, keys.AFTER_ALL)
    found = [
        next(_records(kv, stream, slot, keys.prefix(b"r", stream_id), interval, back), None)
        for slot, kv, stream_id in sources
    ]
    there = [stored for stored in found if stored is not None]
    return (max if back else min)(there, key=_key, default=None)


_key: Callable[[Stored], bytes] = attrgetter("key")


def _merged(stream: Stream, parts: list[Iterator[Stored]], reverse: bool) -> Iterator[Stored]:
    choose = last_corrected if has_corrections(stream) else first_received
    for _, same in groupby(heapq.merge(*parts, key=_key, reverse=reverse), _key):
        first, *others = same
        yield choose([first, *others]) if others else first
