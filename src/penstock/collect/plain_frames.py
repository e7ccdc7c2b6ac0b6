"""Lets the extension read a WebSocket as long as its frames are plain.

Almost all frames of an exchange are whole messages. When picows has read everything that arrived,
this takes its place at the transport, and bytes are read in C. The first frame of any other kind (a
ping, a fragment, the end, an error) is given to picows with all bytes after it. picows is then back
in its place: it sees a connection on which the plain frames before never were.
"""

from asyncio import BufferedProtocol, Transport
from typing import TYPE_CHECKING, Protocol

from picows import WSFrame

from penstock import compiled

if TYPE_CHECKING:
    from penstock.compiled._hot import PlainFrames as CompiledPlainFrames


class Receiver(Protocol):
    """Who gets the frames."""

    frames: list[bytes]

    def read_plain(self, payloads: list[bytes], /) -> None:
        """Take all frames of one read."""
        ...

    def read_ended(self) -> bool:
        """Note that the frames of one read are all there; False if there are none."""
        ...


class PlainFrames(BufferedProtocol):
    """Takes turns with the protocol of a connection."""

    def __init__(
        self,
        new_reader: "type[CompiledPlainFrames]",
        receiver: Receiver,
        transport: Transport,
        other: BufferedProtocol,
        room: int,
        largest: int,
    ) -> None:
        self._receiver, self._transport, self._other = receiver, transport, other
        self._is_handing_on = False
        """Whether picows is given bytes, of which there may be more than it takes at once."""
        reader = new_reader(room, largest, receiver.read_plain, self._hand_on)
        # For each read: a method in Python that calls one in C would cost more than that does.
        self.get_buffer = reader.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = reader.buffer_updated  # type: ignore[method-assign, assignment]

    def take_over(self, last: WSFrame) -> None:
        """Read from now on, unless picows has more bytes than the last frame that it has read."""
        if not last.tail_size and not self._is_handing_on:
            self._transport.set_protocol(self)

    def _hand_on(self, payloads: list[bytes], rest: bytes) -> None:
        """Let the other protocol read on, beginning with these bytes."""
        self._receiver.frames += payloads
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
    receiver: Receiver, transport: Transport, room: int, largest: int
) -> PlainFrames | None:
    """What may read from a connection; None if its own protocol has to read everything.

    ``room`` is for the bytes of one read, ``largest`` the longest payload.
    """
    other = transport.get_protocol()
    if compiled.PlainFrames is None or not isinstance(other, BufferedProtocol):
        return None
    return PlainFrames(compiled.PlainFrames, receiver, transport, other, room, largest)
