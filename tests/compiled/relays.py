"""Batches of publishers, good and bad, and two relays, one on each path, that must always agree."""

import ctypes
from collections.abc import Callable, Iterable
from random import Random

import msgspec
import pytest
from tests.paths import in_python

from penstock.errors import NotOurRecord
from penstock.market.codec import FORMATS
from penstock.publish import relay as module
from penstock.publish.frames import (
    BATCH,
    Frame,
    FrameKind,
    beginning,
    number_bytes,
    pack_frames,
    write_frame,
)
from penstock.publish.outbox import LARGE
from penstock.publish.registry import BusCounts, Registry
from penstock.publish.relay import Relay

ROOM = 6_000
"""Bytes of a registry that soon has to forget the oldest records."""
_TOPICS = ("sim.trades.x", "sim.trades.xy", "_sim", "x", "é", *(f"sim.{n}" for n in range(12)))
_SLOTS = ("a", "b", "s" * 255, "é")
_SIZES = (0, 1, 30, 90, 120, 300, LARGE, 70_000)
_Send = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
)


def some_frame(chance: Random) -> bytes:
    """A frame, most often one of a record; sometimes spoiled."""
    frame = Frame(
        chance.choice(_TOPICS),
        chance.choice(_SLOTS),
        chance.choice((0, 1, 2, (1 << 63) - 1)),
        FrameKind.JSON if chance.random() < 0.8 else chance.choice([*FrameKind]),
        chance.randbytes(chance.choice(_SIZES) if chance.random() < 0.2 else 40),
        chance.choice(tuple(FORMATS)),
    )
    return spoiled(write_frame(frame), chance) if chance.random() < 0.2 else write_frame(frame)


def some_batch(chance: Random) -> bytes:
    """A batch; sometimes not packed as publishers pack it, or spoiled."""
    count = chance.choice((0, 1, 5, 15, 16, 50))
    if chance.random() < 0.01:
        count = 66_000  # the longest way to write a length
    frames = [some_frame(chance) for _ in range(min(count, 60))]
    frames += [b""] * (count - len(frames))
    payload = pack_frames(frames)
    if chance.random() < 0.1:
        payload = msgspec.msgpack.encode([*frames, chance.choice(("text", 1, None, [b"x"]))])
    if chance.random() < 0.2:
        payload = spoiled(payload, chance)
    begins = beginning(BATCH, chance.choice(_SLOTS), FrameKind.BATCH)
    batch = begins + number_bytes(len(frames)) + payload
    return spoiled(batch, chance) if chance.random() < 0.1 else batch


def spoiled(data: bytes, chance: Random) -> bytes:
    """The data cut, or with a byte changed, most often one of the first."""
    place = chance.randrange(min(len(data), chance.choice((40, 1_000_000))) or 1)
    kind = chance.random()
    if kind < 0.3:
        return data[:place]
    byte = chance.choice((b"\0", b"\x80", b"\xc4", b"\xff", b"_", b""))
    return data[:place] + byte + data[place + (kind < 0.8) :]


class Sent:
    """What was sent, whoever did it; stands in for an outbox and for a function of ZeroMQ."""

    socket_address = 0

    def __init__(self, refuses: Callable[[bytes], bool]) -> None:
        self.frames: list[bytes] = []
        """Those sent in the latest call of ``One.receive``."""
        self.has_sent = False
        self.by_function = 0
        self._refuses = refuses
        self.function = _Send(self._send)

    def send(self, frames: Iterable[bytes]) -> None:
        self.frames += frames

    def _send(self, _socket: int, data: int, size: int, _flags: int) -> int:
        frame = ctypes.string_at(data, size)
        assert size < LARGE
        if self._refuses(frame):
            return -1
        self.frames.append(frame)
        self.by_function += 1
        return size


class One:
    """A relay and everything that it changes."""

    def __init__(self, refuses: Callable[[bytes], bool]) -> None:
        self.sent, self.counts, self.registry = Sent(refuses), BusCounts(), Registry(ROOM)
        address = ctypes.cast(self.sent.function, ctypes.c_void_p).value or 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "addresses", lambda name: {name: address})
            self._relay = Relay(self.registry, self.sent, self.counts)  # type: ignore[arg-type]

    def receive(self, data: bytes, *, batch: bool) -> object:
        """Forward; return everything that can be told from it."""
        self.sent.frames = []
        try:
            (self._relay.forward_batch if batch else self._relay.forward)(data)
            damaged = False
        except NotOurRecord:
            damaged = True
        last = [*self.registry.last.items()]
        return (
            damaged,
            self.sent.frames,
            last,
            self.registry.size,
            msgspec.structs.astuple(self.counts),
        )


def _no_room(frame: bytes) -> bool:
    return frame[-1:] < b"\x20"


class BothRelays:
    """A relay on each path; ZeroMQ has no room for some of the frames."""

    def __init__(self) -> None:
        with in_python():
            self.python = One(_no_room)
        self.compiled = One(_no_room)

    def receive(self, data: bytes, *, batch: bool) -> None:
        """Let both forward the data, and compare."""
        told = self.python.receive(data, batch=batch)
        assert self.compiled.receive(data, batch=batch) == told
