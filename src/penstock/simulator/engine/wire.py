"""Encodes WebSocket frames and holds the state of each client connection.

A server's frames are not masked, so one encoded frame serves every client. It is appended to each
client's outbox and written once per tick of the broadcaster: joining twenty frames into one write
costs a tenth of writing them one by one. A client that does not read is disconnected, as exchanges
do.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.simulator.engine.exchange import Subscriber
from penstock.simulator.engine.injection import ConnectionFaults

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

UNREAD_BYTES = 4 * 1024 * 1024
"""A client that leaves more than this unread is disconnected."""
ALL_UNREAD_BYTES = 128 * 1024 * 1024
"""When all clients together leave more than this unread, the slowest is disconnected."""
_MOST_CHANGES, _MOST_NAMES = 100, 4096


def encode(payload: bytes, opcode: int = TEXT) -> bytes:
    """The payload as one unmasked, final frame."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 65536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + payload


def encode_all(payloads: Iterable[bytes], opcode: int = TEXT) -> bytes:
    """Several frames, concatenated."""
    return b"".join([encode(payload, opcode) for payload in payloads])


@dataclass(frozen=True)
class Change:
    """The streams that a connection was subscribed to from a time on."""

    at_ms: int
    streams: tuple[str, ...]


@dataclass
class Client:
    """One stream connection, on the server's side."""

    id: int
    ip: str
    path: str
    opened_ms: int
    transport: asyncio.Transport
    opcode: int = TEXT
    """The opcode of payload frames: text or binary."""
    subscriber: Subscriber = field(default_factory=Subscriber)
    faults: ConnectionFaults | None = None
    outbox: list[bytes] = field(default_factory=list)
    pings: deque[tuple[int, bytes]] = field(default_factory=deque)
    """(time sent, payload) of pings without a pong yet."""
    pinged_ms: int = 0
    last_active_ms: int = 0
    """When anything was last sent or received."""
    leaves_ms: int | None = None
    """When the connection is closed after a shutdown notice."""
    frames_sent: int = 0
    messages_received: int = 0
    changes: deque[Change] = field(default_factory=deque)
    """Its subscriptions over time, the latest last."""
    changes_dropped: int = 0
    """How many older changes have been dropped."""
    closed_ms: int | None = None
    reason: str = ""

    def put(self, payload: bytes) -> None:
        """Append a payload as a frame to the outbox, to be written with the next flush."""
        if self.closed_ms is None:
            self.outbox.append(encode(payload, self.opcode))
            self.frames_sent += 1

    def changed(self, now_ms: int) -> None:
        """Record the subscriptions from now on."""
        self.changes.append(Change(now_ms, tuple(self.subscriber.streams)))
        names = sum(len(change.streams) for change in self.changes)
        while len(self.changes) > 1 and (len(self.changes) > _MOST_CHANGES or names > _MOST_NAMES):
            names -= len(self.changes.popleft().streams)
            self.changes_dropped += 1

    def flush(self) -> None:
        """Write the outbox to the transport."""
        if self.outbox:
            waiting = b"".join(self.outbox)
            self.outbox.clear()
            self.transport.write(waiting)

    def unread_bytes(self) -> int:
        """The number of bytes that the client has yet to read."""
        return self.transport.get_write_buffer_size()

    def pong(self, payload: bytes) -> None:
        """Process a pong; one that matches no ping is ignored."""
        if any(sent == payload for _, sent in self.pings):
            while self.pings.popleft()[1] != payload:
                pass

    def close(self, code: int, reason: str, now_ms: int) -> None:
        """Send a close frame; the sweeper aborts the connection if the client does not respond."""
        if self.closed_ms is None:
            self.flush()
            self.transport.write(encode(code.to_bytes(2, "big") + reason.encode(), CLOSE))
            self._end(f"{code} {reason}", now_ms)

    def abort(self, reason: str, now_ms: int) -> None:
        """Abort the connection without a close frame."""
        if self.closed_ms is None:
            self._end(reason, now_ms)
            self.transport.abort()

    def cut(self, now_ms: int) -> bytes:
        """Disconnect in the middle of the last frame in the outbox; return the unsent part."""
        waiting = b"".join(self.outbox)
        sent = len(waiting) - (len(self.outbox[-1]) + 1) // 2
        self.outbox.clear()
        self.transport.write(waiting[:sent])
        self._end("cut", now_ms)
        self.transport.close()
        return waiting[sent:]

    def gone(self, reason: str, now_ms: int) -> None:
        """Record the end of the connection, unless it is recorded already."""
        if self.closed_ms is None:
            self._end(reason, now_ms)

    def _end(self, reason: str, now_ms: int) -> None:
        self.closed_ms, self.reason = now_ms, reason
        self.outbox.clear()
