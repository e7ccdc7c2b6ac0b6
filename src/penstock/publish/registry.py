"""The registry: which streams there are, and the last record of each. Pure, and bounded."""

from collections.abc import Iterator

from msgspec import Struct

from penstock.publish.frames import (
    Announcement,
    Frame,
    Head,
    Kind,
    pack_frames,
    wanted_bytes,
    write_frame,
    write_head,
)

_SILENT_MS = 60_000
"""A slot that has not announced itself for so long is no longer listed."""
_MOST_SLOTS = 1000
_MOST_TOPICS = 50_000
"""… in one slot; what is announced beyond is left out."""


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
    """Connections whose key is not known."""


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
        known = self._last.pop(place, None)
        self._bytes += len(data) - (len(known[1]) if known else 0)
        self._last[place] = (frame.number, data)
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._last))
            self._bytes -= len(self._last.pop(oldest)[1])

    def announced(self, announcement: Announcement, now_ms: int) -> Iterator[bytes]:
        """A slot told of itself; the frames that tell it to the subscribers of its topics."""
        self._forget_silent(now_ms)
        slot = announcement.slot
        if slot in self._slots or len(self._slots) < _MOST_SLOTS:
            self._slots[slot] = (now_ms, announcement)
        for topic, last in list(announcement.numbers.items())[:_MOST_TOPICS]:
            yield _head(announcement, topic, last)

    def known(self, wanted: str, most_bytes: int) -> list[bytes]:
        """What a joining subscriber is told of the topics wanted, packed into payloads."""
        beginning = wanted_bytes(wanted).decode()
        frames: list[bytes] = []
        for (topic, _), (_, data) in self._last.items():
            if f"{topic}\0".startswith(beginning):
                frames.append(data)
        # After the records: a number that was announced is never less than one that was sent.
        for _, announcement in self._slots.values():
            for topic, last in announcement.numbers.items():
                if f"{topic}\0".startswith(beginning):
                    sent = self._last.get((topic, announcement.slot), (0, b""))[0]
                    frames.append(_head(announcement, topic, max(last, sent)))
        packed, size = [list[bytes]()], 0
        for frame in frames:
            size += len(frame) + 5
            if size > most_bytes and packed[-1]:
                packed.append([])
                size = len(frame) + 5
            packed[-1].append(frame)
        return [pack_frames(each) for each in packed]

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
    return write_frame(Frame(topic, announcement.slot, last, Kind.HEAD, payload))
