"""Connections of a socket that listens: how many there are, and how one is closed.

ZeroMQ neither limits connections nor lets one be closed. It does tell of each that comes and goes,
with its file descriptor, and says which one a message came from; so one is shut down there. Should
another have got that number meanwhile, then that one is closed, and connects again.
"""

import os
import socket as sockets
from itertools import count

import zmq
from zmq.utils.monitor import parse_monitor_message

from penstock.publish.readiness import Socket

_ids = count()


class ConnectionLimiter:
    """Those of one socket, no more than so many."""

    def __init__(self, context: "zmq.Context[Socket]", socket: Socket, most: int) -> None:
        self._most = most
        self._open: set[int] = set()
        self.refused = 0
        """How many were closed because there were too many."""
        address = f"inproc://connections-{next(_ids)}"
        socket.monitor(address, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self.socket = context.socket(zmq.PAIR)
        # Without limit: the network thread would wait for room here, and all traffic with it.
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)

    def look(self, most: int) -> list[int]:
        """Take note of those that came and went, at most so many; the ones that are new."""
        came: list[int] = []
        try:
            for _ in range(most):
                told = parse_monitor_message(self.socket.recv_multipart(zmq.NOBLOCK))
                connection = int(told["value"])
                if told["event"] == zmq.EVENT_DISCONNECTED:
                    self._open.discard(connection)
                    continue
                came.append(connection)
                self._open.add(connection)
                if len(self._open) > self._most:
                    self.refused += 1
                    cut(connection)
        except zmq.Again:
            pass
        return came


def cut(connection: int) -> None:
    """Close a connection, by its descriptor; nothing, if it is closed already."""
    try:
        with sockets.socket(fileno=os.dup(connection)) as own:
            own.shutdown(sockets.SHUT_RDWR)
    except OSError:
        pass
