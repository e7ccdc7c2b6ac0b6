"""Counts, limits and closes the connections of a listening ZeroMQ socket.

ZeroMQ can neither limit connections nor close one. Its monitor reports each connection that is
opened or closed, with its file descriptor, and messages carry the descriptor they came from; so a
connection is shut down by its descriptor. If another connection has received that number in the
meantime, that one is closed instead, and reconnects.
"""

import os
import socket as sockets
from itertools import count

import zmq
from zmq.utils.monitor import parse_monitor_message

from penstock.publish.readiness import Socket

_ids = count()


class ConnectionLimiter:
    """The connections of one socket, at most ``most``."""

    def __init__(self, context: "zmq.Context[Socket]", socket: Socket, most: int) -> None:
        self._most = most
        self._open: set[int] = set()
        self.refused = 0
        """Connections closed because there were too many."""
        address = f"inproc://connections-{next(_ids)}"
        socket.monitor(address, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self.socket = context.socket(zmq.PAIR)
        # Without limit: a full queue here would block the network thread, and so all traffic.
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)

    def process_events(self, most: int) -> tuple[list[int], bool]:
        """Process at most ``most`` monitor events; return the new connections.

        And whether there may be more events.
        """
        came: list[int] = []
        try:
            for _ in range(most):
                event = parse_monitor_message(self.socket.recv_multipart(zmq.NOBLOCK))
                connection = int(event["value"])
                if event["event"] == zmq.EVENT_DISCONNECTED:
                    self._open.discard(connection)
                    continue
                came.append(connection)
                self._open.add(connection)
                if len(self._open) > self._most:
                    self.refused += 1
                    cut(connection)
        except zmq.Again:
            return came, False
        return came, True


def cut(connection: int) -> None:
    """Close a connection by its descriptor; no effect if it is closed already."""
    try:
        with sockets.socket(fileno=os.dup(connection)) as own:
            own.shutdown(sockets.SHUT_RDWR)
    except OSError:
        pass
