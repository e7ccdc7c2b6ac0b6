"""Lets the extension read a WebSocket as long as its frames are plain.

Almost all frames of an exchange are whole messages. When picows has read everything that arrived,
this takes its place at the transport, and bytes are read in C. The first frame of any other kind (a
ping, a fragment, the end, an error) is given to picows with all bytes after it. picows is then back
in its place: it sees a connection on which the plain frames before never were.
"""

from asyncio import BufferedProtocol, Transport
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from picows import WSFrame

from penstock import compiled

if TYPE_CHECKING:
    from penstock.compiled._hot import PlainFrames as CompiledPlainFrames


@dataclass(frozen=True)
class SocketOwner:
    """Who takes the frames of a socket, and how they are stamped."""

    arrived: Callable[[int], None]
    """Called with the number of buffered frames: for the first, and once there are ``many``."""
    many: int
    now_ns: Callable[[], int]
    """A monotonic clock …"""
    anchor_ns: int = 0
    """… and what is added to it for the time of arrival."""
    pings_are_life: bool = True
    """Whether a ping counts as a message."""


class Receiver(Protocol):
    """Who keeps the frames until they are taken."""

    frames: list[bytes]
    stamps_ns: list[int]

    def read_ended(self) -> bool:
        """Note that the frames of one read are all there; False if there are none."""
        ...


class PlainFrames(BufferedProtocol):
    """Takes turns with the protocol of a connection."""

    def __init__(
        self,
        receiver: Receiver,
        transport: Transport,
        other: BufferedProtocol,
        new_reader: "Callable[[Callable[[bytes], None]], CompiledPlainFrames]",
    ) -> None:
        self._receiver, self._transport, self._other = receiver, transport, other
        self._is_handing_on = False
        """Whether picows is given bytes, of which there may be more than it takes at once."""
        self._reader = reader = new_reader(self._hand_on)
        # For each read: a method in Python that calls one in C would cost more than that does.
        self.get_buffer = reader.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = reader.buffer_updated  # type: ignore[method-assign, assignment]

    @property
    def last_ns(self) -> int:
        """When it read the last frames; 0 before it did."""
        return self._reader.last_ns

    def take_over(self, last: WSFrame) -> None:
        """Read from now on, unless picows has more bytes than the last frame that it has read."""
        if not last.tail_size and not self._is_handing_on:
            self._transport.set_protocol(self)

    def _hand_on(self, rest: bytes) -> None:
        """Let the other protocol read on, beginning with these bytes."""
        self._transport.set_protocol(self._other)
        self._is_handing_on = True
        try:
            while rest:
                buffer = memoryview(self._other.get_buffer(len(rest)))
                size = min(len(buffer), len(rest))
                buffer[:size] = rest[:size]
                self._other.buffer_updated(size)
                rest = rest[size:]
        finally:
            self._is_handing_on = False
        self._receiver.read_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._other.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """See asyncio."""
        return self._other.eof_received()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._other.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._other.resume_writing()


def new_plain_frames(
    receiver: Receiver, owner: SocketOwner, transport: Transport, room: tuple[int, int]
) -> PlainFrames | None:
    """What may read from a connection; None if its own protocol has to read everything.

    ``room`` is that for the bytes of one read, and the longest payload.
    """
    other, new = transport.get_protocol(), compiled.PlainFrames
    if new is None or not isinstance(other, BufferedProtocol):
        return None

    def new_reader(hand_on: Callable[[bytes], None]) -> "CompiledPlainFrames":
        return new(
            *room, receiver.frames, receiver.stamps_ns,
            owner.now_ns, owner.anchor_ns, owner.many, owner.arrived, hand_on,
        )  # fmt: skip

    return PlainFrames(receiver, transport, other, new_reader)
