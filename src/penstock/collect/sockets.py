"""Websockets whose frames are buffered as they arrive.

They use picows, which passes every frame to a callback: awaiting each of a thousand messages a
second costs more than reading them. Frames are buffered, each with its time of arrival, until they
are taken. The owner is told when the first of them arrives, and when there are many; a call for
each read would cost more than the read. An owner that cannot take more pauses the socket, and the
exchange has to wait.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus

from picows import (
    WSCloseCode,
    WSError,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

from penstock import __version__
from penstock.collect.plain_frames import PlainFrames, SocketOwner, new_plain_frames
from penstock.errors import mask_urls

LARGEST_FRAME = 16_000_000
_CONNECT_S = 10.0
_CLOSE_S = 1.0
"""How long the exchange may take to confirm a close; a dead connection never does."""
_READ_BYTES = 256 * 1024
"""Bytes read from a socket at once, at most: under load, hundreds of frames."""
_EXCERPT = 60
_SCHEMES = {"http": "ws", "https": "wss"}

_LONGEST_CONTROL = 125
"""The most bytes of a control frame, by the protocol."""
_MOST_PARTS = 65_536
"""The most fragments of a message: empty ones are not limited by size."""
_DATA = frozenset((WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION))


class ConnectFailed(Exception):
    """The socket could not be opened; the message has the reason."""


class Socket(WSListener):
    """One open socket."""

    # Half of the time that a read takes here goes into attributes, and into a dict twice as much.
    __slots__ = (
        *("frames", "stamps_ns", "_last_ns", "_owner", "_now_ns"),
        *("_parts", "_parts_bytes", "_transport", "_over", "_ended_by_us", "_paused", "_plain"),
    )

    def __init__(self, owner: SocketOwner) -> None:
        self.frames: list[bytes] = []
        """Arrived, and not taken yet. Always this list, as the extension appends to it."""
        self.stamps_ns: list[int] = []
        """When each arrived, except for those of the current read; always this list."""
        self._owner, self._now_ns = owner, owner.now_ns
        self._last_ns = self._now_ns()
        self._parts: list[bytes] = []
        """Received fragments of an incomplete message …"""
        self._parts_bytes = 0
        """… and their size."""
        self._transport: WSTransport | None = None
        self._over = asyncio.Event()
        self._ended_by_us = ""
        self._paused = False
        self._plain: PlainFrames | None = None
        """Reads from the socket in place of picows, where there is the extension."""

    def on_ws_connected(self, transport: WSTransport) -> None:
        """See picows."""
        self._transport = transport
        room = _READ_BYTES, LARGEST_FRAME
        self._plain = new_plain_frames(self, self._owner, transport.underlying_transport, room)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """See picows."""
        payload = frame.get_payload_as_bytes()
        # Only data can be so long. Reading a frame's type costs as much as everything else here.
        if len(payload) > _LONGEST_CONTROL and frame.fin and not self._parts:
            self.frames.append(payload)
        else:
            self._take_any_frame(transport, frame, payload)
        if (
            frame.last_in_buffer
            and self.read_ended()
            and self._plain is not None
            and not self._parts
        ):
            self._plain.take_over(frame)

    def read_ended(self) -> bool:
        """Stamp the frames of one read and tell that they have arrived; False if there are none."""
        before, count, many = len(self.stamps_ns), len(self.frames), self._owner.many
        if count == before:
            return False
        self._stamp()
        if not before or before < many <= count:
            self._owner.arrived(count)
        return True

    def _stamp(self) -> None:
        """Stamp the frames of one read with the current time, a nanosecond apart."""
        self._last_ns = self._now_ns()
        first_ns = self._owner.anchor_ns + self._last_ns
        count = len(self.frames) - len(self.stamps_ns)
        if count == 1:  # as in most reads; a range takes longer than everything else here
            self.stamps_ns.append(first_ns)
        else:
            self.stamps_ns += range(first_ns, first_ns + count)

    def _take_any_frame(self, transport: WSTransport, frame: WSFrame, payload: bytes) -> None:
        """Handle a frame of any type: short data, a fragment, a ping or a close frame."""
        kind = frame.msg_type
        if kind in _DATA:
            self._parts.append(payload)
            # Counted as they arrive: there may be any number of them, and some are empty.
            self._parts_bytes += len(payload)
            if self._parts_bytes > LARGEST_FRAME or len(self._parts) > _MOST_PARTS:
                transport.send_close(WSCloseCode.MESSAGE_TOO_BIG)
                transport.disconnect()
            elif frame.fin:
                self.frames.append(b"".join(self._parts))
                self._parts, self._parts_bytes = [], 0
        elif kind is WSMsgType.PING:
            if self._owner.pings_are_life:
                self._last_ns = self._now_ns()
            transport.send_pong(payload)
        elif kind is WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002 (picows's)
        """See picows."""
        self._over.set()

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._over.is_set()

    def take(self) -> tuple[list[bytes], list[int]]:
        """Remove and return the buffered frames, and when each arrived."""
        if len(self.frames) > len(self.stamps_ns):
            self._stamp()
        taken = self.frames[:], self.stamps_ns[:]
        self.frames.clear()
        self.stamps_ns.clear()
        return taken

    def send(self, text: str) -> None:
        """Send a message; it is dropped if the socket is closed."""
        if self._transport is not None and self.open:
            self._transport.send(WSMsgType.TEXT, text.encode())

    @property
    def last_message_ns(self) -> int:
        """When the last frame arrived, or the last ping if pings count, without the anchor."""
        return self._last_ns if self._plain is None else max(self._last_ns, self._plain.last_ns)

    def silent_s(self) -> float:
        """Seconds since the last frame, or ping if pings count; 0 while reading is paused."""
        return 0.0 if self._paused else (self._now_ns() - self.last_message_ns) / 1_000_000_000

    def let_wait(self, *, waits: bool) -> None:
        """Pause or resume reading from the socket."""
        if waits is not self._paused and self._transport is not None and self.open:
            self._paused, self._last_ns = waits, self._now_ns()
            underlying = self._transport.underlying_transport
            if waits:
                underlying.pause_reading()
            else:
                underlying.resume_reading()

    async def ended(self) -> str:
        """Wait until it is closed by either side; return the reason."""
        await self._over.wait()
        handshake = self._transport.close_handshake if self._transport is not None else None
        if self._ended_by_us:
            return self._ended_by_us
        if handshake is not None and handshake.recv is not None:
            return f"closed by the exchange ({handshake.recv.code.value})"
        if handshake is not None and handshake.sent is not None:
            return f"unreadable ({handshake.sent.code.name.lower()})"
        return "cut off"

    async def close(self, reason: str = "closed") -> None:
        """Close with a handshake; without one if the exchange does not answer."""
        if self._transport is None or not self.open:
            return
        self._ended_by_us = reason
        self.let_wait(waits=False)
        self._transport.send_close(WSCloseCode.OK)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._over.wait()
        self._transport.disconnect(graceful=False)


async def open_socket(url: str, owner: SocketOwner) -> Socket:
    """Connect.

    Raises:
        ConnectFailed: the connection could not be opened.
    """
    socket = Socket(owner)
    try:
        async with asyncio.timeout(_CONNECT_S):
            await ws_connect(
                lambda: socket,
                _as_stream(url),
                websocket_handshake_timeout=_CONNECT_S,
                enable_auto_pong=False,  # so that pings are seen: they may count as activity
                read_buffer_init_size=_READ_BYTES,
                max_frame_size=LARGEST_FRAME,
                max_redirects=0,
                extra_headers={"User-Agent": f"penstock/{__version__}"},
                # The event loop's own transports, whose TLS behaviour is well known.
                use_aiofastnet=False,
            )
    except WSHandshakeError as error:
        raise ConnectFailed(_refusal(error)) from error
    except (WSError, OSError, TimeoutError, ValueError) as error:
        raise ConnectFailed(mask_urls(str(error)) or type(error).__name__) from error
    if not socket.open:  # picows then reports neither an error nor an end
        raise ConnectFailed("closed before the handshake was complete")
    return socket


def _as_stream(url: str) -> str:
    """The URL with the scheme of a websocket in place of HTTP's."""
    scheme, separator, rest = url.partition("://")
    return f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}"


def _refusal(error: WSHandshakeError) -> str:
    """The response that was sent in place of a websocket handshake."""
    if error.response is None or error.response.status is HTTPStatus.SWITCHING_PROTOCOLS:
        return str(error)
    body = (error.raw_body or b"")[:_EXCERPT].decode(errors="replace")
    return f"answered with {int(error.response.status)}, which is no stream: {body!r}"
