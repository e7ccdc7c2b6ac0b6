"""Publishing to other processes: one socket to the broker, which never makes anybody wait.

What the broker does not take in time is dropped here and counted, exactly: the socket says so,
where an ordinary publishing socket would be silent. While no broker was ever there nothing is even
made. What is published together goes to the broker in one piece: waking the network thread costs
more than all else, and how often it is woken then no longer depends on how busy the machine is.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, compress

import msgspec
import zmq
from msgspec import Struct

from penstock.clock import Clock
from penstock.publish import Published
from penstock.publish.endpoints import BusEndpoints
from penstock.publish.frames import (
    ANNOUNCE,
    BATCH,
    Announcement,
    Frame,
    FrameKind,
    Head,
    beginning,
    number_bytes,
    pack_frames,
    payload_of,
    write_frame,
)
from penstock.publish.readiness import Socket, drain
from penstock.telemetry import Listener, MessagesDropped, quiet

_EVERY_S = 1.0
_BATCH_BYTES = 64 * 1024
_PACKED_BYTES = 5
"""What a frame takes more when it is packed, and a batch of them, at most."""
_LEAST_QUEUE = 10
_KINDS = {"json": FrameKind.JSON, "msgpack": FrameKind.MSGPACK}


class PublishedCounts(Struct):
    """What became of the messages given to a publisher."""

    published: int = 0
    """Handed to the broker, or about to be."""
    dropped: int = 0
    """The queue was full, or the message is larger than the bus takes."""
    unheard: int = 0
    """Not even made, since no broker was ever there."""


class _Beginnings(dict[str, bytes]):
    """What frames of a topic begin with, made when it is first asked for."""

    def __init__(self, slot: str) -> None:
        self._slot = slot

    def __missing__(self, topic: str) -> bytes:
        made = self[topic] = beginning(topic, self._slot, FrameKind.JSON)
        return made


class ZeroMqPublisher:
    """Publishes one slot. For one thread; ``publish`` and ``announce`` return at once."""

    def __init__(
        self,
        endpoints: BusEndpoints,
        slot: str,
        head: Head,
        numbers: Mapping[str, int] | None = None,
        listener: Listener = quiet,
    ) -> None:
        self.counts = PublishedCounts()
        self._slot, self._run_and_log, self._tell = slot, head, listener
        # From the log: what a crash left unsent is then announced, and missed by subscribers.
        self._numbers = dict(numbers or {})
        self._kind = _KINDS[endpoints.settings.payload]
        self._most_bytes = endpoints.settings.message_bytes
        self._batch_beginning = beginning(BATCH, slot, FrameKind.BATCH)
        room = self._most_bytes - len(self._batch_beginning) - _PACKED_BYTES
        self._batch_bytes = min(_BATCH_BYTES, room - 8)
        self._beginnings = _Beginnings(slot)
        self._heard = False
        self._told = 0
        self._context: zmq.Context[Socket] = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        # With this, a full queue is an error that can be counted.
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        endpoints.connect(
            self._socket, "publish", max(_LEAST_QUEUE, endpoints.settings.queue // 10)
        )

    def publish(self, messages: Sequence[Published]) -> None:
        self._numbers.update({message.topic: message.number for message in messages})
        if not (self._heard or self._listen()):
            self.counts.unheard += len(messages)
            return
        frames = self._frames(messages)
        sizes = [len(frame) + _PACKED_BYTES for frame in frames]
        if max(sizes, default=0) > self._most_bytes:
            # Such a one would cost us the connection.
            fits = [size - _PACKED_BYTES <= self._most_bytes for size in sizes]
            self.counts.dropped += fits.count(False)
            frames, sizes = list(compress(frames, fits)), list(compress(sizes, fits))
        ends, first, sent = list(accumulate(sizes)), 0, 0
        while first < len(frames):
            after = max(first + 1, bisect_right(ends, sent + self._batch_bytes))
            self._send(frames[first:after])
            first, sent = after, ends[after - 1]

    def _frames(self, messages: Sequence[Published]) -> list[bytes]:
        """Each message as it travels."""
        kind, beginnings = self._kind, self._beginnings
        if kind is FrameKind.JSON:  # as the log has it, but for its version: no need to look inside
            return [
                beginnings[each.topic] + number_bytes(each.number) + each.record[1:]
                for each in messages
            ]
        found = [payload_of(each.record, kind) for each in messages]
        return [
            beginning(each.topic, self._slot, made) + number_bytes(each.number) + payload
            for each, (made, payload) in zip(messages, found, strict=True)
        ]

    def _send(self, batch: list[bytes]) -> None:
        data = batch[0]
        if len(batch) > 1:
            data = self._batch_beginning + number_bytes(len(batch)) + pack_frames(batch)
        try:
            self._socket.send(data, zmq.NOBLOCK)
            self.counts.published += len(batch)
        except zmq.Again:
            self.counts.dropped += len(batch)

    def announce(self) -> None:
        """Tell which topics there are and how far they have come; due every second."""
        if self._listen():
            announcement = Announcement(
                slot=self._slot,
                run=self._run_and_log.run,
                log=self._run_and_log.log,
                numbers=self._numbers,
                published=self.counts.published,
                dropped=self.counts.dropped,
            )
            payload = msgspec.json.encode(announcement)
            frame = write_frame(Frame(ANNOUNCE, self._slot, 0, FrameKind.FACTS, payload))
            if len(frame) > self._most_bytes:
                self.counts.dropped += 1  # It would cost us the connection.
            else:
                # One that finds no room is no loss: the next says the same and more.
                with suppress(zmq.Again):
                    self._socket.send(frame, zmq.NOBLOCK)
        dropped = self.counts.dropped - self._told
        if dropped:
            self._told = self.counts.dropped
            self._tell(MessagesDropped(slot=self._slot, count=dropped))

    def _listen(self) -> bool:
        """Whether a broker is, or was, there: it asks for everything once it is."""
        for word in drain(self._socket, 100):
            self._heard = word[:1] == b"\x01"
        return self._heard

    def close(self) -> None:
        """Give what is queued a moment to leave."""
        if not self._heard:
            self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.close()
        self._context.term()


async def keep_announcing(publisher: ZeroMqPublisher, clock: Clock) -> None:
    """Announce every second, for ever."""
    while True:
        publisher.announce()
        await clock.sleep(_EVERY_S)
