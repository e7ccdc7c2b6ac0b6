"""The registry: which streams there are, and the last record of each. Pure, and bounded."""

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
"""A slot that has not announced itself for so long is no longer listed."""
_MOST_SLOTS = 1000
_MOST_TOPICS = 50_000
"""… in one slot, and twice as many in all; what is announced beyond is left out."""
_ENTRY_BYTES = 500
"""What remembering a record takes besides its bytes."""


class SlotFacts(Struct, frozen=True, kw_only=True):
    """One slot, as the bus knows it."""

    slot: str
    silent_ms: int
    """Since its last announcement; it makes one every second."""
    published: int
    dropped: int
    """Messages it could not hand to the broker."""
    numbers: dict[str, int]
    """By topic, the last number."""


class BusCounts(Struct):
    """What the broker has done since it started."""

    forwarded: int = 0
    overflows: int = 0
    """How often a subscriber's queue was found full; it misses messages until it reads again."""
    missed: int = 0
    """Messages that subscribers say they missed, and had from the log, or not."""
    malformed: int = 0
    refused: int = 0
    """Connections whose key is not known, or may not do this."""
    cut: int = 0
    """Connections that were closed because there were too many, or they asked for too much."""


class BusFacts(Struct, frozen=True, kw_only=True):
    """The answer to whoever asks what there is."""

    counts: BusCounts
    slots: list[SlotFacts]


class Registry:
    """What the broker remembers."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._last: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._slots: dict[str, tuple[int, Announcement]] = {}

    def passed(self, frame: Frame, data: bytes) -> None:
        """A record was handed on; the newest are kept, as far as there is room."""
        place = (frame.topic, frame.slot)
        self._forget(place)
        if len(data) + _ENTRY_BYTES > self._most_bytes // 10:
            return  # One that leaves no room for others is read from the log.
        self._bytes += len(data) + _ENTRY_BYTES
        self._last[place] = (frame.number, data)
        while self._bytes > self._most_bytes:
            self._forget(next(iter(self._last)))

    def _forget(self, place: tuple[str, str]) -> None:
        known = self._last.pop(place, None)
        if known is not None:
            self._bytes -= len(known[1]) + _ENTRY_BYTES

    def announced(self, announcement: Announcement, now_ms: int) -> Iterator[bytes]:
        """A slot told of itself; the frames that tell it to the subscribers of its topics."""
        self._forget_silent(now_ms)
        slot = announcement.slot
        numbers = dict(islice(announcement.numbers.items(), self._room(slot)))
        announcement = replace(announcement, numbers=numbers)
        if slot in self._slots or len(self._slots) < _MOST_SLOTS:
            self._slots[slot] = (now_ms, announcement)
        for topic, last in numbers.items():
            # It announces what it has sent, in order: a greater number was not its own.
            if self._last.get((topic, slot), (0,))[0] > last:
                self._forget((topic, slot))
            yield _head(announcement, topic, last)

    def _room(self, slot: str) -> int:
        """How many topics a slot may announce."""
        others = sum(len(each.numbers) for name, (_, each) in self._slots.items() if name != slot)
        return max(0, min(_MOST_TOPICS, 2 * _MOST_TOPICS - others))

    def known(self, wanted: str, most_bytes: int) -> list[bytes]:
        """What a joining subscriber is told of the topics wanted, packed into payloads."""
        beginning = wanted_bytes(wanted).decode()
        frames: list[bytes] = []
        for (topic, slot), (number, data) in self._last.items():
            if f"{topic}\0".startswith(beginning) and self._is_plausible(topic, slot, number):
                frames.append(data)
        # After the records: a number that was announced is never less than one that was sent.
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
        """Whether a slot that announces itself may be so far: more may be forged."""
        if slot not in self._slots:
            return True
        return number - self._slots[slot][1].numbers.get(topic, 0) <= FARTHEST

    def slots(self, now_ms: int) -> list[SlotFacts]:
        """Every slot that announces itself, by name."""
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
