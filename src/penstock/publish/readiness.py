"""Readiness: waiting for plain ZeroMQ sockets on the event loop.

A plain socket that is drained in batches costs a sixth of ``zmq.asyncio``'s. Its file descriptor
says only that *something* changed, and once: so a socket is read until it has nothing more, and
only then waited for. What comes in between shows on the descriptor, since nothing has looked since.
"""

import asyncio

import zmq

Socket = zmq.Socket[bytes]


def drain(socket: Socket, most: int, most_bytes: int = 1 << 62) -> list[bytes]:
    """What has arrived, at most so many, and no more once they have so many bytes.

    With none, the socket has nothing more just now.
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
    """Wait until one of them may have something; each must have said that it has nothing."""
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
