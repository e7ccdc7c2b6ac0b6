"""Follows chosen streams of all slots, several times a second.

A reader brings all slots up to date before each read, and that takes a millisecond for each. Here
each slot is brought up to date once for all streams, and only the slots that had something new in
the last second every time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from penstock.errors import NotOurRecord
from penstock.market.codec import decode
from penstock.storage.log import keys
from penstock.storage.log.followed import Followed
from penstock.storage.log.index import find_batches, find_streams, last_batch, number_before
from penstock.storage.log.key_values import KeyValues, Slots
from penstock.storage.log.keys import SECOND_NS, Stream


@dataclass
class _Place:
    """Where one stream of one slot was read up to."""

    stream_id: int
    number: int
    received_ns: int
    """When its latest record was received."""


@dataclass
class _Slot:
    kv: KeyValues
    places: dict[Stream, _Place]
    busy: bool = False
    """Whether it had anything new since the last look at all slots."""


class SlotFollower:
    """Follows the slots of a log. See ``LogFollower``."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._wanted: dict[Stream, int] = {}
        self._followed: dict[str, _Slot] = {}
        self._look_ns: int | None = None
        """When to look at all slots again; None: at once."""

    def follow(self, stream: Stream, since_ns: int) -> None:
        self._wanted[stream] = since_ns
        self._look_ns = None

    def forget(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            self._wanted.pop(stream, None)
            for slot in self._followed.values():
                slot.places.pop(stream, None)

    def new(self, now_ns: int) -> list[Followed]:
        looks = self._look_ns is None or now_ns >= self._look_ns
        if looks:
            self._look_ns = now_ns + SECOND_NS
            self._followed = {name: self._look_at(name) for name in self._slots.names()}
        found: list[Followed] = []
        for name in [*self._followed]:
            slot = self._followed[name]
            if not looks:
                if not slot.busy:
                    continue
                if self._slots.follow(name) is not slot.kv:
                    slot = self._followed[name] = self._look_at(name)
            before = len(found)
            for place in slot.places.values():
                found += _after(slot.kv, name, place)
            slot.busy = len(found) > before or (slot.busy and not looks)
        found.sort(key=itemgetter(0))
        return found

    def _look_at(self, name: str) -> _Slot:
        """A slot with its places of all wanted streams that it holds."""
        slot, kv = self._followed.get(name), self._slots.follow(name)
        if slot is None or slot.kv is not kv:
            slot = _Slot(kv, dict(_moved(slot, kv)))
        if not self._wanted.keys() <= slot.places.keys():
            ids = find_streams(kv)
            for stream in (self._wanted.keys() & ids.keys()) - slot.places.keys():
                since_ns = self._wanted[stream]
                number = number_before(kv, ids[stream], since_ns)
                slot.places[stream] = _Place(ids[stream], number, since_ns)
        return slot


def _moved(slot: _Slot | None, kv: KeyValues) -> Iterator[tuple[Stream, _Place]]:
    """The places of a slot that was opened again; it may have been repaired or replaced."""
    if slot is None:
        return
    ids = find_streams(kv)
    for stream, place in slot.places.items():
        if stream not in ids:
            continue
        last, number = last_batch(kv, ids[stream]), place.number
        if last is None or last.last_number < number:
            number = number_before(kv, ids[stream], place.received_ns)
        yield stream, _Place(ids[stream], number, place.received_ns)


def _after(kv: KeyValues, slot: str, place: _Place) -> Iterator[Followed]:
    """The records of a stream after a place, which is moved behind them."""
    base = keys.prefix(b"r", place.stream_id)
    for batch in find_batches(kv, place.stream_id, place.number + 1):
        if batch.last_number <= place.number:
            continue
        found = (
            (int.from_bytes(value[:8], "big"), value[8:])
            for _, value in kv.scan(base + batch.low, base + keys.key_after(batch.high))
        )
        # Later records may lie between the batch's keys; their numbers differ.
        for number, record in found:
            if place.number < number <= batch.last_number:
                try:
                    event = decode(record)
                except NotOurRecord:
                    continue
                yield Followed(event.received_at_ns, slot, event)
                place.received_ns = max(place.received_ns, event.received_at_ns)
        place.number = batch.last_number
