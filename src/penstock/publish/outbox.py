"""Sends the broker's messages without blocking and with bounded memory.

A subscriber's queue is bounded by its number of messages, which bounds memory while messages are
small. Of large messages the broker counts the bytes until they are sent, and drops messages above
the maximum. Subscribers detect them by number and read them from the log.
"""

import zmq

from penstock.publish.readiness import Socket

_LARGE = 16 * 1024
_MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of large messages in the queues of subscribers."""


class Outbox:
    """Sends to all subscribers of a topic."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        # Messages below the threshold are copied and cannot be tracked.
        socket.copy_threshold = 0
        self.overflows = 0
        """How often a queue was full, or large messages reached the maximum."""
        self._waiting: list[tuple[zmq.MessageTracker, int]] = []

    def send(self, data: bytes) -> None:
        """Send a message, or drop it."""
        if len(data) < _LARGE:
            self._send(data)
            return
        self._waiting = [each for each in self._waiting if not each[0].done]
        if sum(size for _, size in self._waiting) + len(data) > _MOST_BYTES:
            self.overflows += 1
            return
        tracker = self._send(data, copy=False)
        assert tracker is not None
        self._waiting.append((tracker, len(data)))

    def reply(self, data: bytes) -> None:
        """Send an answer; ``ClientSubscriptions`` bounds the unread answers of each client."""
        self._send(data)

    def _send(self, data: bytes, *, copy: bool = True) -> zmq.MessageTracker | None:
        try:
            return self._socket.send(data, zmq.NOBLOCK, copy=copy, track=not copy)
        except zmq.Again:
            # One subscriber's queue is full, so none got it. Send again, without that one.
            self.overflows += 1
            self._socket.setsockopt(zmq.XPUB_NODROP, 0)
            try:
                return self._socket.send(data, zmq.NOBLOCK, copy=copy, track=not copy)
            finally:
                self._socket.setsockopt(zmq.XPUB_NODROP, 1)
