"""The broker's registry of streams, with the last record of each. Pure, and bounded in size."""

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import NotOurRecord
from penstock.publish.frames import (
    Announcement,
    FrameKind,
    Head,
    head_frame,
    number_place,
    pack_frames,
    read_frame,
    read_number,
    wanted_bytes,
    write_head,
)
from penstock.publish.ordering import FARTHEST

_SILENT_MS = 60_000
"""A slot without an announcement for this long is no longer listed."""
_MOST_SLOTS = 1000
_MOST_TOPICS = 50_000
"""Maximum topics of one slot; all slots together have twice as many. Others are ignored."""
_MOST_CHECKED = 10_000
"""Streams whose frames are known to be valid; with more, they are checked again."""
ENTRY_BYTES = 500
"""Memory used per stored record besides its bytes."""


class SlotFacts(Struct, frozen=True, kw_only=True):
    """One slot, from its announcements."""

    slot: str
    silent_ms: int
    """Milliseconds since its last announcement; one is due every second."""
    published: int
    dropped: int
    """Messages that it could not send to the broker."""
    numbers: dict[str, int]
    """The last number, by topic."""


class BusCounts(Struct):
    """The broker's counts since its start."""

    forwarded: int = 0
    overflows: int = 0
    """How often a subscriber's queue was full; it misses messages until it reads again."""
    missed: int = 0
    """Messages that subscribers reported as missed, whether or not the log had them."""
    malformed: int = 0
    refused: int = 0
    """Connections with an unknown key, or one that is not permitted on that side."""
    cut: int = 0
    """Connections closed because there were too many, or had too many subscriptions."""


class BusFacts(Struct, frozen=True, kw_only=True):
    """The answer to a ``_streams`` query."""

    counts: BusCounts
    slots: list[SlotFacts]


_StreamName = tuple[str, str]
"""A topic and a slot."""


class Registry:
    """The last record of each stream, and the last announcement of each slot."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.most_of_one = most_bytes // 10
        """Maximum size of a stored record, with ``ENTRY_BYTES``; subscribers read larger ones from
        the log."""
        self.size = 0
        """Of the stored records, in bytes."""
        self.last: dict[_StreamName, bytes] = {}
        """The last record of each stream; the stream with the latest record comes last."""
        self._checked: dict[bytes, _StreamName] = {}
        """Streams by the bytes that their frames begin with, once a frame was read whole."""
        self._slots: dict[str, tuple[int, Announcement]] = {}

    def passed(self, frames: Sequence[bytes]) -> list[bytes]:
        """Store the records in these frames; return the frames, without those that have none.

        The oldest records are removed when the size limit is reached.
        """
        valid: list[bytes] = []
        last, most, added = self.last, self.most_of_one, 0
        for data in frames:
            stream = self.stream_of(data)
            if stream is None:
                continue
            valid.append(data)
            known, size = last.pop(stream, None), len(data) + ENTRY_BYTES
            if known is not None:
                added -= len(known) + ENTRY_BYTES
            if size <= most:
                last[stream] = data
                added += size
        self.added(added)
        return valid

    def stream_of(self, data: bytes) -> _StreamName | None:
        """The stream of a frame; None if that is no record that a publisher may send."""
        try:
            place = number_place(data)
            # Frames of a stream differ only in number and payload.
            return self._checked.get(data[:place]) or self._check(data, place)
        except NotOurRecord:
            return None

    def added(self, size: int) -> None:
        """Register by how many bytes ``last`` has grown; the oldest records above the limit go."""
        self.size += size
        while self.size > self._most_bytes:
            self._forget(next(iter(self.last)))

    def _check(self, data: bytes, place: int) -> _StreamName:
        """Read a frame of a new stream.

        Raises:
            NotOurRecord: it is no frame, or not one that a publisher may send.
        """
        frame = read_frame(data)
        if frame.topic.startswith("_") or frame.kind not in (FrameKind.JSON, FrameKind.MSGPACK):
            raise NotOurRecord("a frame that is not for a publisher to send")
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        stream = self._checked[data[:place]] = (frame.topic, frame.slot)
        return stream

    def _forget(self, stream: _StreamName) -> None:
        known = self.last.pop(stream, None)
        if known is not None:
            self.size -= len(known) + ENTRY_BYTES

    def _number(self, stream: _StreamName) -> int:
        """The number of the last record; 0 if there is none."""
        data = self.last.get(stream)
        return 0 if data is None else read_number(data)

    def announced(self, announcement: Announcement, now_ms: int) -> Iterator[bytes]:
        """Store an announcement; yield the head frames for the subscribers of its topics."""
        self._forget_silent(now_ms)
        slot = announcement.slot
        numbers = dict(islice(announcement.numbers.items(), self._room(slot)))
        announcement = replace(announcement, numbers=numbers)
        if slot in self._slots or len(self._slots) < _MOST_SLOTS:
            self._slots[slot] = (now_ms, announcement)
        head = write_head(Head(announcement.run, announcement.log))
        for topic, last in numbers.items():
            # A slot announces what it has sent, in order: a greater number is not from this slot.
            if self._number((topic, slot)) > last:
                self._forget((topic, slot))
            yield head_frame(topic, slot, last, head)

    def _room(self, slot: str) -> int:
        """The number of topics that a slot may announce."""
        others = sum(len(each.numbers) for name, (_, each) in self._slots.items() if name != slot)
        return max(0, min(_MOST_TOPICS, 2 * _MOST_TOPICS - others))

    def known(self, wanted: str, most_bytes: int) -> list[bytes]:
        """Return the last records and numbers of the topics wanted, packed into payloads."""
        beginning = wanted_bytes(wanted).decode()
        frames: list[bytes] = []
        for (topic, slot), data in self.last.items():
            if f"{topic}\0".startswith(beginning) and self._is_plausible(topic, slot, data):
                frames.append(data)
        # Heads follow the records: the number in a head is never below that of a sent record.
        for _, announcement in self._slots.values():
            head = write_head(Head(announcement.run, announcement.log))
            for topic, last in announcement.numbers.items():
                if f"{topic}\0".startswith(beginning):
                    sent = self._number((topic, announcement.slot))
                    plausible = sent if sent - last <= FARTHEST else 0
                    last_sent = max(last, plausible)
                    frames.append(head_frame(topic, announcement.slot, last_sent, head))
        packed, size = [list[bytes]()], 0
        for frame in frames:
            size += len(frame) + 5
            if size > most_bytes and packed[-1]:
                packed.append([])
                size = len(frame) + 5
            packed[-1].append(frame)
        return [pack_frames(each) for each in packed]

    def _is_plausible(self, topic: str, slot: str, data: bytes) -> bool:
        """Whether a record's number is close to the slot's announcement; others may be forged."""
        if slot not in self._slots:
            return True
        announced = self._slots[slot][1].numbers.get(topic, 0)
        return read_number(data) - announced <= FARTHEST

    def slots(self, now_ms: int) -> list[SlotFacts]:
        """Return every slot that sends announcements, by name."""
        self._forget_silent(now_ms)
        return [
            SlotFacts(
                slot=slot,
                silent_ms=now_ms - at_ms,
                published=announcement.published,
                dropped=announcement.dropped,
                numbers=announcement.numbers,
            )
            for slot, (at_ms, announcement) in sorted(self._slots.items())
        ]

    def _forget_silent(self, now_ms: int) -> None:
        for slot in [s for s, (at_ms, _) in self._slots.items() if now_ms - at_ms > _SILENT_MS]:
            del self._slots[slot]
