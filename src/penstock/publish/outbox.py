"""Sends the broker's messages without blocking and with bounded memory.

A subscriber's queue is bounded by its number of messages, which bounds memory while messages are
small. Of large messages the broker counts the bytes until they are sent, and drops messages above
the maximum. Subscribers detect them by number and read them from the log.
"""

from collections.abc import Iterable

import zmq

from penstock.publish.readiness import Socket
from penstock.publish.registry import BusCounts

LARGE = 16 * 1024
_MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of large messages in the queues of subscribers."""


class Outbox:
    """Sends to all subscribers of a topic."""

    def __init__(self, socket: Socket, counts: BusCounts) -> None:
        self._socket, self._counts = socket, counts
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        # Messages below the threshold are copied and cannot be tracked.
        socket.copy_threshold = 0
        self.has_sent = False
        """Whether something was sent since this was last reset."""
        self._waiting: list[tuple[zmq.MessageTracker, int]] = []

    @property
    def socket_address(self) -> int:
        """Where ZeroMQ has the socket."""
        return int(self._socket.underlying)

    def send(self, messages: Iterable[bytes]) -> None:
        """Send messages, or drop some of them.

        In as little time as possible between the first and the last: the network thread then finds
        all of them when it wakes up, else it sleeps and is woken again for each.
        """
        self.has_sent = True
        # The method of the compiled base class: the one above it takes as long again.
        send = super(zmq.Socket, self._socket).send
        for data in messages:
            if len(data) >= LARGE:
                self._send_large(data)
                continue
            try:
                send(data, zmq.NOBLOCK)
            except zmq.Again:
                self._send_again(data)

    def _send_large(self, data: bytes) -> None:
        self._waiting = [each for each in self._waiting if not each[0].done]
        if sum(size for _, size in self._waiting) + len(data) > _MOST_BYTES:
            self._counts.overflows += 1
            return
        tracker: zmq.MessageTracker | None
        try:
            tracker = self._socket.send(data, zmq.NOBLOCK, copy=False, track=True)
        except zmq.Again:
            tracker = self._send_again(data, copy=False)
        assert tracker is not None
        self._waiting.append((tracker, len(data)))

    def reply(self, data: bytes) -> None:
        """Send an answer; ``ClientSubscriptions`` bounds the unread answers of each client."""
        self.has_sent = True
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            self._send_again(data)

    def _send_again(self, data: bytes, *, copy: bool = True) -> zmq.MessageTracker | None:
        """Send a message that no subscriber got, because the queue of one is full, to the rest."""
        self._counts.overflows += 1
        self._socket.setsockopt(zmq.XPUB_NODROP, 0)
        try:
            return self._socket.send(data, zmq.NOBLOCK, copy=copy, track=not copy)
        finally:
            self._socket.setsockopt(zmq.XPUB_NODROP, 1)
