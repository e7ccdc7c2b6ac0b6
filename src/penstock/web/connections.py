"""Limits the number of HTTP connections and the time that each may take.

A connection is idle, or a request on it is being read, or one is being answered. Idle and reading
have deadlines. At the maximum number of connections, a new one replaces the connection that has
been idle longest, or else the one that has been sending a request longest. A connection whose
request is being answered is never replaced.

Each connection is a protocol that wraps aiohttp's and forwards everything to it.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 36\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
    b"Every connection is busy. Try again."
)
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Bounds:
    """The maximum number of connections, and timeouts in seconds."""

    connections: int = 512
    """Maximum open connections."""
    headers_s: float = 10
    """From connecting, or from a request's first byte, to the end of its headers."""
    idle_s: float = 60
    """Between two requests."""
    write_s: float = 10
    """For the client to read each 64 KiB of a response."""
    stop_s: float = 2
    """For responses in progress when the server stops."""


class ConnectionState(Enum):
    """What a connection is doing."""

    IDLE = auto()
    READING = auto()
    ANSWERING = auto()


class HttpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, inner: asyncio.Protocol, among: "HttpConnections") -> None:
        self.inner, self._among = inner, among
        self.state = ConnectionState.IDLE
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._more = False
        """Whether bytes arrived while a request was being answered, perhaps the next request."""
        self.over = asyncio.Event()
        """Set when the response to the current request is complete or the client disconnected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._among.admit(self):
            self._transport.write(_REFUSAL)
            self._transport.close()
            return
        # Writing waits until the client has read everything, so that slow clients are detected.
        self._transport.set_write_buffer_limits(high=0)
        self.inner.connection_made(transport)
        self._within(self._among.bounds.headers_s)

    def data_received(self, data: bytes) -> None:
        if self not in self._among:
            return
        if self.state is ConnectionState.IDLE:
            self._set_state(ConnectionState.READING)
            self._within(self._among.bounds.headers_s)
        elif self.state is ConnectionState.ANSWERING:
            self._more = True
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received() if self in self._among else None

    def pause_writing(self) -> None:
        if self in self._among:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self in self._among:
            self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._no_deadline()
        self.over.set()
        if self._among.remove(self):
            self.inner.connection_lost(error)

    @property
    def is_last(self) -> bool:
        """Whether the connection closes after this response."""
        return self._among.closing

    @property
    def has_unsent(self) -> bool:
        """Whether data waits for the client to read."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def begin(self) -> None:
        """Start to answer a request whose headers have been read."""
        self._no_deadline()
        self._more = False
        self.over = asyncio.Event()
        self._set_state(ConnectionState.ANSWERING)

    def wait_for_body(self) -> None:
        """Wait for the rest of a body; the application sets the deadline."""
        self._set_state(ConnectionState.READING)

    def body_read(self, *, whole: bool) -> None:
        """Continue to answer after a part of the body has arrived."""
        self._more = self._more and not whole
        self._set_state(ConnectionState.ANSWERING)

    def end(self) -> None:
        """Finish a request that has been answered."""
        if self not in self._among:
            return
        if self._among.closing:
            self.close()
            return
        bounds = self._among.bounds
        self._set_state(ConnectionState.READING if self._more else ConnectionState.IDLE)
        self._within(bounds.headers_s if self._more else bounds.idle_s)

    def close(self) -> None:
        """Close the connection after sending buffered data."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; unsent data is discarded, also in the kernel."""
        if self._transport is not None:
            if (held := self._transport.get_extra_info("socket")) is not None:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()

    def _set_state(self, state: ConnectionState) -> None:
        self._among.set_state(self, state)

    def _within(self, seconds: float) -> None:
        self._no_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.close)

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpConnections:
    """All connections of one server."""

    def __init__(self, make: Callable[[], asyncio.Protocol], bounds: Bounds) -> None:
        self._make, self.bounds = make, bounds
        # By state, the longest in that state first.
        self._by_state: dict[ConnectionState, dict[HttpConnection, None]] = {
            state: {} for state in ConnectionState
        }
        self._by_inner: dict[asyncio.Protocol, HttpConnection] = {}
        self._fewer = asyncio.Event()
        self.closing = False

    def __call__(self) -> HttpConnection:
        """Return a protocol for a new connection."""
        return HttpConnection(self._make(), self)

    def __contains__(self, connection: HttpConnection) -> bool:
        return connection.inner in self._by_inner

    def __len__(self) -> int:
        return len(self._by_inner)

    def of(self, inner: asyncio.Protocol) -> HttpConnection | None:
        """Return the connection that wraps a protocol; None if it is closed."""
        return self._by_inner.get(inner)

    def admit(self, connection: HttpConnection) -> bool:
        """Add a new connection, in place of another at the maximum; return whether it was added."""
        if self.closing:
            return False
        if len(self) >= self.bounds.connections:
            oldest = next((one for kind in self._waiting() for one in kind), None)
            if oldest is None:
                return False
            oldest.connection_lost(None)
            oldest.close()
        self._by_inner[connection.inner] = connection
        self._by_state[connection.state][connection] = None
        return True

    def set_state(self, connection: HttpConnection, state: ConnectionState) -> None:
        """Change the state of a connection."""
        if connection in self:
            del self._by_state[connection.state][connection]
            connection.state = state
            self._by_state[state][connection] = None

    def remove(self, connection: HttpConnection) -> bool:
        """Remove a closed connection; return False if it was removed before."""
        if self._by_inner.pop(connection.inner, None) is None:
            return False
        del self._by_state[connection.state][connection]
        self._fewer.set()
        return True

    async def finish(self) -> None:
        """Close idle and reading connections, and wait up to ``stop_s`` for the others."""
        self.closing = True
        for kind in self._waiting():
            for connection in list(kind):
                connection.close()
        try:
            async with asyncio.timeout(self.bounds.stop_s):
                while self._by_inner:
                    self._fewer.clear()
                    await self._fewer.wait()
        except TimeoutError:
            pass

    def abort(self) -> None:
        """Abort all remaining connections."""
        for connection in list(self._by_inner.values()):
            connection.abort()

    def _waiting(self) -> list[dict[HttpConnection, None]]:
        return [self._by_state[ConnectionState.IDLE], self._by_state[ConnectionState.READING]]
