"""The outbox: what the broker sends, without waiting for anybody, and within bounds.

A subscriber's queue is bounded by the number of messages in it. That bounds memory as long as they
are small; of larger ones the broker counts the bytes until nobody needs them any more, and drops
what is too much. Subscribers know it by its number, and read it from the log.
"""

import zmq

from penstock.publish.readiness import Socket

_LARGE = 16 * 1024
_MOST_BYTES = 32 * 1024 * 1024
"""Of large messages that wait in the queues of subscribers."""


class Outbox:
    """Sends to all subscribers of a topic."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        # Below this many bytes a message would be copied, and not be tracked.
        socket.copy_threshold = 0
        self.overflows = 0
        """How often a queue was found full, or large messages filled the memory."""
        self._waiting: list[tuple[zmq.MessageTracker, int]] = []

    def send(self, data: bytes) -> None:
        """Send, or drop."""
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
        """Send an answer; who asks is asked not to ask for more than it reads."""
        self._send(data)

    def _send(self, data: bytes, *, copy: bool = True) -> zmq.MessageTracker | None:
        try:
            return self._socket.send(data, zmq.NOBLOCK, copy=copy, track=not copy)
        except zmq.Again:
            # Somebody's queue is full, and so nobody got it. Once more, without that one.
            self.overflows += 1
            self._socket.setsockopt(zmq.XPUB_NODROP, 0)
            try:
                return self._socket.send(data, zmq.NOBLOCK, copy=copy, track=not copy)
            finally:
                self._socket.setsockopt(zmq.XPUB_NODROP, 1)
