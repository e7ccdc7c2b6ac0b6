"""Waits for plain ZeroMQ sockets on the event loop.

Draining a plain socket in batches costs a sixth of ``zmq.asyncio``. The socket's file descriptor
is edge-triggered: it signals once that *something* changed. So a socket is read until it is empty,
and only then waited for. A message that arrives in between signals the descriptor again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import zmq

from penstock import compiled
from penstock.publish.libzmq import addresses

if TYPE_CHECKING:
    from penstock.compiled._hot import Incoming as CompiledIncoming

Socket = zmq.Socket[bytes]

# Plain integers: an operation on a flag takes longer than reading the socket's state.
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)

_FUNCTIONS = (
    *("zmq_msg_init", "zmq_msg_recv", "zmq_msg_data", "zmq_msg_size", "zmq_msg_close"),
    "zmq_getsockopt",
)


def has_message(socket: Socket) -> bool:
    """Whether a message waits. If not, the descriptor will signal the next one."""
    return bool(int(socket.get(_EVENTS)) & _READABLE)


class Incoming:
    """What arrives at a socket; like ``has_message`` and ``drain``, in a tenth of the time."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._compiled: CompiledIncoming | None = None
        found = addresses(*_FUNCTIONS)
        if compiled.Incoming is not None and found is not None:
            self._compiled = compiled.Incoming(int(socket.underlying), **found)

    def has_message(self) -> bool:
        """Whether a message waits. If not, the descriptor will signal the next one."""
        found = None
        if self._compiled is not None and not self._socket.closed:
            found = self._compiled.waits()
        return has_message(self._socket) if found is None else found

    def drain(self, most: int, most_bytes: int) -> list[bytes]:
        """Return up to ``most`` messages, and no more once they have ``most_bytes``."""
        taken = None
        # Only pyzmq knows that a socket is closed, and that its memory is somebody else's by now.
        if self._compiled is not None and not self._socket.closed:
            taken = self._compiled.take(most, most_bytes)
        return drain(self._socket, most, most_bytes) if taken is None else taken


def drain(socket: Socket, most: int, most_bytes: int = 1 << 62) -> list[bytes]:
    """Return up to ``most`` messages, and no more once they have ``most_bytes``.

    If none is returned, the socket is empty.
    """
    taken: list[bytes] = []
    receive, left = socket.recv, most_bytes
    try:
        while len(taken) < most and left > 0:
            data = receive(zmq.NOBLOCK)
            taken.append(data)
            left -= len(data)
    except zmq.Again:
        pass
    return taken


async def readable(*sockets: Socket) -> None:
    """Wait until one of the sockets may have a message; all must have been read until empty."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    descriptors = [socket.fileno() for socket in sockets]
    for descriptor in descriptors:
        loop.add_reader(descriptor, wake)
    try:
        await ready
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)


class SocketRounds:
    """Calls the handlers of sockets that may have messages, from the callbacks of the event loop.

    The descriptors stay registered, and no task is woken: with small messages both cost more than
    the messages. A handler reads a part of what its socket has, and returns whether there may be
    more, so that a peer that sends without pause delays no other. ``after`` is called at the end of
    every round, and returns whether another round is due. Sending on a socket may consume the
    signal of a message that has arrived there, so ``after`` marks a socket that was sent to and has
    a message.
    """

    def __init__(
        self, handlers: Mapping[Socket, Callable[[], bool]], after: Callable[[], bool]
    ) -> None:
        self._handlers, self._after = handlers, after
        self._changed = set(handlers)
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._next: asyncio.Handle | None = None

    async def run(self) -> None:
        """Call handlers until one of them raises; that error is raised here."""
        descriptors = {socket.fileno(): socket for socket in self._handlers}
        self._next = self._loop.call_soon(self._round)
        for descriptor, socket in descriptors.items():
            self._loop.add_reader(descriptor, self._signalled, socket)
        try:
            await self._failed
        finally:
            for descriptor in descriptors:
                self._loop.remove_reader(descriptor)
            if self._next is not None:
                self._next.cancel()

    def mark(self, socket: Socket) -> None:
        """Call this socket's handler in the next round; for ``after``."""
        self._changed.add(socket)

    def _signalled(self, socket: Socket) -> None:
        self._changed.add(socket)
        if self._next is None:
            self._round()

    def _round(self) -> None:
        self._next = None
        try:
            changed = self._changed
            self._changed = {
                socket
                for socket, handler in self._handlers.items()
                if socket in changed and handler()
            }
            if self._after() or self._changed:
                self._next = self._loop.call_soon(self._round)
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
