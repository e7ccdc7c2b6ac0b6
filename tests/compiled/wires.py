"""Bytes of WebSockets, usual and unusual, and two sockets, one on each path, that must agree."""

import asyncio
import base64
import hashlib
import logging
import socket as sockets_of_the_machine
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from picows import WSAutoPingStrategy, WSListener
from picows import picows as picows_inside
from tests.paths import in_python

from penstock.collect import sockets
from penstock.collect.plain_frames import PlainFrames, SocketOwner

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
FIN, RSV1, MASKED = 0x80, 0x40, 0x80
MOST_AT_ONCE = 20_000
"""Bytes for which there always is room on both paths, so that both get them in one read."""
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_STEP_NS = 1_000_000
_MANY, _ANCHOR_NS = 7, 1_700_000_000_000_000_000
_SIZES = (0, 1, 2, 20, 124, 125, 126, 127, 128, 300, 400, 600)
_LARGE = (16_000, 65_535, 65_536, 70_000)
_CODES = (b"", b"\x03\xe8", b"\x03\xe8bye", b"\x0f\xa0", b"\x03", b"\x03\xed", b"\x03\xe8\xff")
_quiet = logging.getLogger("tests.compiled.wires")
_quiet.setLevel(logging.CRITICAL + 1)  # picows has a child of it for each connection


def frame(payload: bytes, first: int = FIN | TEXT, *, length_bytes: int = -1) -> bytes:
    """A frame that is not masked; its length in 0, 2 or 8 bytes of its own."""
    size = len(payload)
    if length_bytes < 0:
        length_bytes = 0 if size < 126 else 2 if size < 1 << 16 else 8
    flag = {0: size, 2: 126, 8: 127}[length_bytes]
    return bytes([first, flag]) + size.to_bytes(length_bytes or 1)[: length_bytes or 0] + payload


def _plain(chance: Random) -> bytes:
    size = chance.choice(_SIZES) if chance.random() < 0.97 else chance.choice(_LARGE)
    return frame(chance.randbytes(size), FIN | chance.choice((TEXT, TEXT, BINARY)))


def _pinged(chance: Random) -> bytes:
    size = chance.choice((0, 1, 8, 125))
    return frame(chance.randbytes(size), FIN | chance.choice((PING, PING, PONG)))


def _in_pieces(chance: Random) -> bytes:
    """A message in fragments, between which there may be anything that belongs there or not."""
    pieces = [chance.randbytes(chance.choice((0, 1, 100, 200))) for _ in range(3)]
    between = chance.choice((b"", b"", _pinged(chance), _plain(chance)))
    whole = frame(pieces[0], chance.choice((TEXT, BINARY))) + between
    return whole + frame(pieces[1], CONTINUATION) + frame(pieces[2], FIN | CONTINUATION)


def _bad(chance: Random) -> bytes:
    """What ends a connection, or should not be."""
    payload = chance.randbytes(chance.choice((0, 5, 130)))
    masked = bytearray(frame(payload))
    masked[1] |= MASKED
    return chance.choice(
        (
            frame(chance.choice(_CODES), FIN | CLOSE),
            frame(payload, FIN | RSV1 | TEXT),
            frame(payload, FIN | chance.choice((3, 7, 11, 15))),
            frame(payload, FIN | CONTINUATION),
            frame(payload, PING),
            frame(payload, FIN | PING),
            frame(payload, length_bytes=chance.choice((2, 8))),
            bytes(masked),
            bytes([FIN | TEXT, 127]) + (sockets.LARGEST_FRAME + 1).to_bytes(8),
            bytes([FIN | TEXT, 127]) + ((1 << 63) + 5).to_bytes(8),
            chance.randbytes(chance.choice((1, 2, 20))),
        )
    )


def some_frames(chance: Random) -> list[bytes]:
    """What may arrive on a connection: mostly plain frames."""
    odd, made = chance.choice((0.0, 0.02, 0.1, 0.3)), [_plain(chance)]
    for _ in range(chance.choice((1, 5, 40))):
        other = chance.choice((_pinged, _pinged, _pinged, _pinged, _in_pieces, _bad))
        made.append(other(chance) if chance.random() < odd else _plain(chance))
    return made


def some_reads(chance: Random, frames: Sequence[bytes]) -> Iterator[bytes]:
    """Their bytes in pieces as they may arrive: as they were sent, or cut anywhere."""
    usual, read = chance.choice((1, 2, 50, 700, MOST_AT_ONCE)), b""
    for each in frames:
        read += each
        while len(read) > MOST_AT_ONCE or (read and chance.random() < 0.7):
            is_whole = len(read) <= MOST_AT_ONCE and chance.random() < 0.7
            size = len(read) if is_whole else chance.randint(1, usual)
            yield read[:size]
            read = read[size:]
    if read:
        yield read


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and is told what arrives."""

    def __init__(self, socket: sockets_of_the_machine.socket) -> None:
        super().__init__()
        self._socket = socket
        self.protocol: Any = None
        self.written = bytearray()
        self.closed: list[str] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # With TLS picows writes to its transport, and not to the machine's socket.
        return {"socket": self._socket, "ssl_object": self}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed.append("close")

    def abort(self) -> None:
        self.closed.append("abort")

    def arrive(self, data: bytes) -> None:
        """Let bytes arrive, in one read if there is room."""
        while data and not self.closed:
            buffer = memoryview(self.protocol.get_buffer(-1))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.protocol.buffer_updated(size)
            data = data[size:]


class One:
    """A socket of the collector whose bytes a test feeds; an event loop has to run."""

    def __init__(self, room: int = 256 * 1024) -> None:
        self.now_ns = _STEP_NS
        self.told: list[int] = []
        """What `arrived` was called with."""
        owner = SocketOwner(self.told.append, _MANY, lambda: self.now_ns, _ANCHOR_NS)
        self.socket = sockets.Socket(owner)
        self._machine = sockets_of_the_machine.socket()
        self.wire = wire = Wire(self._machine)
        wire.protocol = self._protocol(room)
        wire.protocol.connection_made(wire)
        lines = bytes(wire.written).split(b"\r\n")
        [key] = [
            line[18:].strip() for line in lines if line.lower().startswith(b"sec-websocket-key")
        ]
        digest = base64.b64encode(hashlib.sha1(key + _ACCEPT).digest())
        wire.arrive(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + digest + b"\r\n\r\n"
        )
        wire.written.clear()

    def _protocol(self, room: int) -> asyncio.BufferedProtocol:
        """As `ws_connect` makes it."""
        listener: WSListener = self.socket
        protocol: Callable[..., asyncio.BufferedProtocol] = picows_inside.WSProtocol  # type: ignore[attr-defined]
        return protocol(
            "host", "/", True, lambda: listener, _quiet, True, None, False, 10, 10,
            WSAutoPingStrategy.PING_WHEN_IDLE, False, sockets.LARGEST_FRAME, None, room,
        )  # fmt: skip

    @property
    def is_plain(self) -> bool:
        """Whether the extension reads at the moment."""
        return isinstance(self.wire.protocol, PlainFrames)

    def receive(self, data: bytes) -> None:
        self.now_ns += _STEP_NS
        self.wire.arrive(data)

    def effects(self) -> dict[str, object]:
        """Everything that can be seen of it but when frames arrived."""
        transport = self.socket._transport
        assert transport is not None
        # None until a close frame was sent or received.
        ends = [getattr(transport.close_handshake, side, None) for side in ("recv", "sent")]
        return {
            "frames": self.socket.frames,
            "parts": self.socket._parts,
            "sent": self.sent(),
            "closed": self.wire.closed,
            "close frames": [each and (each.code, each.reason) for each in ends],
        }

    def sent(self) -> list[tuple[int, bytes]]:
        """The frames that it sent, all of them short."""
        data, found = bytes(self.wire.written), []
        while data:
            size, mask = data[1] & 0x7F, data[2:6]
            payload = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data[6 : 6 + size]))
            found.append((data[0], payload))
            data = data[6 + size :]
        return found

    def counts(self) -> tuple[object, ...]:
        """What shows at once that something was different."""
        socket, wire = self.socket, self.wire
        arrived = len(socket.frames), socket.last_message_ns, len(self.told), self.told[-1:]
        return *arrived, len(socket._parts), len(wire.written), len(wire.closed)

    def times(self) -> dict[str, object]:
        """When frames arrived, and when that was told."""
        socket = self.socket
        return {"told": self.told, "stamps": socket.stamps_ns, "last": socket.last_message_ns}

    def close(self) -> None:
        self._machine.close()


class Both:
    """The same socket on both paths."""

    def __init__(self) -> None:
        with in_python():
            self.python = One()
        self.compiled = One()

    def receive(self, data: bytes) -> None:
        """Let bytes arrive in one read. Raises AssertionError if the sockets then differ."""
        assert len(data) <= MOST_AT_ONCE
        self.python.receive(data)
        self.compiled.receive(data)
        assert self.compiled.counts() == self.python.counts(), f"they differ after {data[:40]!r}"

    def compare(self) -> None:
        """Raise AssertionError if anything differs."""
        expected = self.python.effects() | self.python.times()
        found = self.compiled.effects() | self.compiled.times()
        for name, value in expected.items():
            assert found[name] == value, f"{name} differ"

    def close(self) -> None:
        self.python.close()
        self.compiled.close()


async def receive_all(reads: Sequence[bytes]) -> Both:
    """Let bytes arrive on both paths. Raises AssertionError."""
    both = Both()
    try:
        for read in reads:
            both.receive(read)
        both.compare()
    finally:
        both.close()
    return both


def run(seed: int, connections: int = 1) -> int:
    """Compare both paths on connections; return the number of frames. Raises AssertionError."""
    chance, frames = Random(seed), 0
    for _ in range(connections):
        both = asyncio.run(receive_all([*some_reads(chance, some_frames(chance))]))
        frames += len(both.compiled.socket.frames)
    return frames
