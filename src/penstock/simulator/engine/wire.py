"""The wire: frames as bytes, and what is known of the client at the other end.

A server's frames are not masked, so one encoded frame serves every client. It is put into each
client's outbox and written once per tick of the broadcaster: joining twenty frames into one write
costs a tenth of writing them one by one. A client that does not read is cut off, as exchanges do.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.simulator.engine.exchange import Subscriber
from penstock.simulator.engine.injection import ConnectionFaults

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

UNREAD_BYTES = 4 * 1024 * 1024
"""A client that leaves more than this unread is cut off."""
ALL_UNREAD_BYTES = 128 * 1024 * 1024
"""When all clients together leave more than this unread, the slowest is cut off."""
_MOST_CHANGES, _MOST_NAMES = 100, 4096


def encode(payload: bytes, opcode: int = TEXT) -> bytes:
    """One whole, unmasked frame."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 65536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + payload


def encode_all(payloads: Iterable[bytes], opcode: int = TEXT) -> bytes:
    """Several frames, one behind the other."""
    return b"".join([encode(payload, opcode) for payload in payloads])


@dataclass(frozen=True)
class Change:
    """What a connection was subscribed to from an instant on."""

    at_ms: int
    streams: tuple[str, ...]


@dataclass
class Client:
    """One stream connection, from the server's side."""

    id: int
    ip: str
    path: str
    opened_ms: int
    transport: asyncio.Transport
    opcode: int = TEXT
    """Of the frames that carry payloads: text or binary."""
    subscriber: Subscriber = field(default_factory=Subscriber)
    faults: ConnectionFaults | None = None
    outbox: list[bytes] = field(default_factory=list)
    pings: deque[tuple[int, bytes]] = field(default_factory=deque)
    """(sent at, payload) of pings not yet answered."""
    pinged_ms: int = 0
    stirred_ms: int = 0
    """When anything was last sent on it, either way."""
    leaves_ms: int | None = None
    """When it ends after a shutdown notice."""
    frames_sent: int = 0
    messages_received: int = 0
    changes: deque[Change] = field(default_factory=deque)
    """What it was subscribed to, the newest last."""
    changes_dropped: int = 0
    """Older changes that are not kept any more."""
    closed_ms: int | None = None
    reason: str = ""

    def put(self, payload: bytes) -> None:
        """Send a payload as a frame with the next flush, behind those already waiting."""
        if self.closed_ms is None:
            self.outbox.append(encode(payload, self.opcode))
            self.frames_sent += 1

    def changed(self, now_ms: int) -> None:
        """Note what it is subscribed to from now on."""
        self.changes.append(Change(now_ms, tuple(self.subscriber.streams)))
        names = sum(len(change.streams) for change in self.changes)
        while len(self.changes) > 1 and (len(self.changes) > _MOST_CHANGES or names > _MOST_NAMES):
            names -= len(self.changes.popleft().streams)
            self.changes_dropped += 1

    def flush(self) -> None:
        """Write everything that waits."""
        if self.outbox:
            waiting = b"".join(self.outbox)
            self.outbox.clear()
            self.transport.write(waiting)

    def unread_bytes(self) -> int:
        """How much waits for it to read."""
        return self.transport.get_write_buffer_size()

    def pong(self, payload: bytes) -> None:
        """Take an answer to a ping; one that answers none of them changes nothing."""
        if any(sent == payload for _, sent in self.pings):
            while self.pings.popleft()[1] != payload:
                pass

    def close(self, code: int, reason: str, now_ms: int) -> None:
        """Say why, and leave it to the client to agree; whoever does not is hung up on later."""
        if self.closed_ms is None:
            self.flush()
            self.transport.write(encode(code.to_bytes(2, "big") + reason.encode(), CLOSE))
            self._end(f"{code} {reason}", now_ms)

    def abort(self, reason: str, now_ms: int) -> None:
        """Hang up without a word."""
        if self.closed_ms is None:
            self._end(reason, now_ms)
            self.transport.abort()

    def cut(self, now_ms: int) -> bytes:
        """Hang up in the middle of the last frame that waits; the part that was not sent."""
        waiting = b"".join(self.outbox)
        sent = len(waiting) - (len(self.outbox[-1]) + 1) // 2
        self.outbox.clear()
        self.transport.write(waiting[:sent])
        self._end("cut", now_ms)
        self.transport.close()
        return waiting[sent:]

    def gone(self, reason: str, now_ms: int) -> None:
        """Note that the connection has ended, unless it is known already."""
        if self.closed_ms is None:
            self._end(reason, now_ms)

    def _end(self, reason: str, now_ms: int) -> None:
        self.closed_ms, self.reason = now_ms, reason
        self.outbox.clear()
