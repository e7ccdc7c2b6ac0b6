"""The broker's registry of streams, with the last record of each. Pure, and bounded in size."""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from penstock.publish.frames import (
    Announcement,
    Frame,
    FrameKind,
    Head,
    pack_frames,
    wanted_bytes,
    write_frame,
    write_head,
)
from penstock.publish.ordering import FARTHEST

_SILENT_MS = 60_000
"""A slot without an announcement for this long is no longer listed."""
_MOST_SLOTS = 1000
_MOST_TOPICS = 50_000
"""Maximum topics of one slot; all slots together have twice as many. Others are ignored."""
_ENTRY_BYTES = 500
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


class Registry:
    """The last record of each stream, and the last announcement of each slot."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._last: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._slots: dict[str, tuple[int, Announcement]] = {}

    def passed(self, frame: Frame, data: bytes) -> None:
        """Store a forwarded record; the oldest are removed when the size limit is reached."""
        place = (frame.topic, frame.slot)
        self._forget(place)
        if len(data) + _ENTRY_BYTES > self._most_bytes // 10:
            return  # Too large to store; subscribers read it from the log.
        self._bytes += len(data) + _ENTRY_BYTES
        self._last[place] = (frame.number, data)
        while self._bytes > self._most_bytes:
            self._forget(next(iter(self._last)))

    def _forget(self, place: tuple[str, str]) -> None:
        known = self._last.pop(place, None)
        if known is not None:
            self._bytes -= len(known[1]) + _ENTRY_BYTES

    def announced(self, announcement: Announcement, now_ms: int) -> Iterator[bytes]:
        """Store an announcement; yield the head frames for the subscribers of its topics."""
        self._forget_silent(now_ms)
        slot = announcement.slot
        numbers = dict(islice(announcement.numbers.items(), self._room(slot)))
        announcement = replace(announcement, numbers=numbers)
        if slot in self._slots or len(self._slots) < _MOST_SLOTS:
            self._slots[slot] = (now_ms, announcement)
        for topic, last in numbers.items():
            # A slot announces what it has sent, in order: a greater number is not from this slot.
            if self._last.get((topic, slot), (0,))[0] > last:
                self._forget((topic, slot))
            yield _head(announcement, topic, last)

    def _room(self, slot: str) -> int:
        """The number of topics that a slot may announce."""
        others = sum(len(each.numbers) for name, (_, each) in self._slots.items() if name != slot)
        return max(0, min(_MOST_TOPICS, 2 * _MOST_TOPICS - others))

    def known(self, wanted: str, most_bytes: int) -> list[bytes]:
        """Return the last records and numbers of the topics wanted, packed into payloads."""
        beginning = wanted_bytes(wanted).decode()
        frames: list[bytes] = []
        for (topic, slot), (number, data) in self._last.items():
            if f"{topic}\0".startswith(beginning) and self._is_plausible(topic, slot, number):
                frames.append(data)
        # Heads follow the records: the number in a head is never below that of a sent record.
        for _, announcement in self._slots.values():
            for topic, last in announcement.numbers.items():
                if f"{topic}\0".startswith(beginning):
                    sent = self._last.get((topic, announcement.slot), (0,))[0]
                    plausible = sent if sent - last <= FARTHEST else 0
                    frames.append(_head(announcement, topic, max(last, plausible)))
        packed, size = [list[bytes]()], 0
        for frame in frames:
            size += len(frame) + 5
            if size > most_bytes and packed[-1]:
                packed.append([])
                size = len(frame) + 5
            packed[-1].append(frame)
        return [pack_frames(each) for each in packed]

    def _is_plausible(self, topic: str, slot: str, number: int) -> bool:
        """Whether a number is close to the slot's announcement; others may be forged."""
        if slot not in self._slots:
            return True
        return number - self._slots[slot][1].numbers.get(topic, 0) <= FARTHEST

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


def _head(announcement: Announcement, topic: str, last: int) -> bytes:
    payload = write_head(Head(announcement.run, announcement.log))
    return write_frame(Frame(topic, announcement.slot, last, FrameKind.HEAD, payload))
