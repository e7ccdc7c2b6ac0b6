"""Publishes to other processes through one non-blocking socket to the broker.

Messages that do not fit the queue to the broker are dropped and counted exactly: the socket reports
a full queue, unlike an ordinary PUB socket. Until a broker has connected, frames are not even
encoded. Messages published together are sent as one batch: waking the network thread costs more
than all else, and with batches the number of wake-ups does not depend on the machine's load.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, compress
from pathlib import Path
from types import MemberDescriptorType
from typing import TYPE_CHECKING

import msgspec
import zmq
from msgspec import Struct
from msgspec.structs import replace

from penstock import compiled
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.publish import OpenPublisher, Published, PublishedCounts, PublishedSlot
from penstock.publish.contexts import new_context
from penstock.publish.endpoints import BusEndpoints, resolve_endpoints
from penstock.publish.facts import MessagesDropped
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
from penstock.publish.readiness import drain
from penstock.telemetry import Listener, quiet

if TYPE_CHECKING:
    from penstock.compiled._hot import Packer as CompiledPacker

_EVERY_S = 1.0
_BATCH_BYTES = 64 * 1024
_PACKED_BYTES = 5
"""Maximum overhead in bytes of a packed frame, and of a batch."""
_LEAST_QUEUE = 10
_FIELDS = ("topic", "number", "record")
_KINDS = {"json": FrameKind.JSON, "msgpack": FrameKind.MSGPACK}


class _Beginnings(dict[str, bytes]):
    """The first bytes of the frames of each topic, encoded on first use."""

    def __init__(self, slot: str) -> None:
        self._slot = slot

    def __missing__(self, topic: str) -> bytes:
        made = self[topic] = beginning(topic, self._slot, FrameKind.JSON)
        return made


def prepare(address: str, settings: Settings) -> OpenPublisher | None:
    """A publisher to the bus: ``zeromq:``, or ``zeromq:ADDRESS`` to another than ``bus.publish``.

    None if the bus is disabled.

    Raises:
        ConfigError: the settings of the bus are invalid.
    """
    bus = replace(settings.bus, publish=address) if address else settings.bus
    endpoints = resolve_endpoints(bus, Path(settings.collect.data_dir))
    if endpoints is None:
        return None

    def open_publisher(source: PublishedSlot) -> ZeroMqPublisher:
        clock = source.clock
        head = Head(run=clock.now_ns(), log=source.log_id)
        return ZeroMqPublisher(
            endpoints, source.slot, head, source.numbers, source.listener, clock=clock
        )

    return open_publisher


class ZeroMqPublisher:
    """Publishes one slot. For one thread; ``publish`` and ``announce`` return at once."""

    def __init__(
        self,
        endpoints: BusEndpoints,
        slot: str,
        head: Head,
        numbers: Mapping[str, int] | None = None,
        listener: Listener = quiet,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.counts, self._clock = PublishedCounts(), clock or SystemClock()
        self._slot, self._run_and_log, self._emit = slot, head, listener
        # From the log: records that a crash left unsent are announced, so subscribers detect them.
        self._numbers = dict(numbers or {})
        self._kind = _KINDS[endpoints.settings.payload]
        self._most_bytes = endpoints.settings.message_bytes
        self._batch_beginning = beginning(BATCH, slot, FrameKind.BATCH)
        room = self._most_bytes - len(self._batch_beginning) - _PACKED_BYTES
        self._batch_bytes = min(_BATCH_BYTES, room - 8)
        self._beginnings = _Beginnings(slot)
        self._packer: CompiledPacker | None = None
        # For the class of the first message.
        self._new_packer = compiled.Packer if self._kind is FrameKind.JSON else None
        self._has_broker = False
        self._reported = 0
        self._context = new_context()
        self._socket = self._context.socket(zmq.XPUB)
        # With this, a full queue is an error that can be counted.
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        endpoints.connect(
            self._socket, "publish", max(_LEAST_QUEUE, endpoints.settings.queue // 10)
        )

    def publish(self, messages: Sequence[Published]) -> None:
        packed = self._packed(messages) if self._has_broker else None
        if packed is None:
            self._publish(messages)
            return
        for data, count in packed:
            self._send_message(data, count)

    def _packed(self, messages: Sequence[Published]) -> list[tuple[bytes, int]] | None:
        """What ``_publish`` would send, made by the compiled path; None if it does not.

        It also notes the numbers. A message that is too large, for example, is left to Python.
        """
        if self._new_packer is not None and messages:
            new_packer, self._new_packer = self._new_packer, None
            fields = tuple(getattr(type(messages[0]), name, None) for name in _FIELDS)
            if isinstance(messages[0], Struct) and all(map(_is_slot, fields)):
                self._packer = new_packer(
                    sample=replace(messages[0]),
                    fields=fields,
                    beginnings=self._beginnings,
                    numbers=self._numbers,
                    batch_beginning=self._batch_beginning,
                    most=self._most_bytes,
                    most_in_batch=self._batch_bytes,
                )
        return None if self._packer is None else self._packer.pack(messages)

    def _publish(self, messages: Sequence[Published]) -> None:
        self._numbers.update({message.topic: message.number for message in messages})
        if not (self._has_broker or self._listen()):
            self.counts.unheard += len(messages)
            return
        frames = self._frames(messages)
        sizes = [len(frame) + _PACKED_BYTES for frame in frames]
        if max(sizes, default=0) > self._most_bytes:
            # The broker closes a connection that sends a larger message.
            fits = [size - _PACKED_BYTES <= self._most_bytes for size in sizes]
            self.counts.dropped += fits.count(False)
            frames, sizes = list(compress(frames, fits)), list(compress(sizes, fits))
        ends, first, sent = list(accumulate(sizes)), 0, 0
        while first < len(frames):
            after = max(first + 1, bisect_right(ends, sent + self._batch_bytes))
            self._send(frames[first:after])
            first, sent = after, ends[after - 1]

    def _frames(self, messages: Sequence[Published]) -> list[bytes]:
        """Encode each message as a frame."""
        kind, beginnings = self._kind, self._beginnings
        if kind is FrameKind.JSON:  # as in the log without the version: no need to decode
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
        self._send_message(data, len(batch))

    def _send_message(self, data: bytes, count: int) -> None:
        """Send a message that has so many records."""
        try:
            # The method of the compiled base class: the one above it takes as long again.
            super(zmq.Socket, self._socket).send(data, zmq.NOBLOCK)
            self.counts.published += count
        except zmq.Again:
            self.counts.dropped += count

    def announce(self) -> None:
        """Send the last number of every topic to the broker; due every second."""
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
                self.counts.dropped += 1  # The broker would close the connection.
            else:
                # If the queue is full, it is skipped: the next announcement includes its numbers.
                with suppress(zmq.Again):
                    self._socket.send(frame, zmq.NOBLOCK)
        dropped = self.counts.dropped - self._reported
        if dropped:
            self._reported = self.counts.dropped
            self._emit(MessagesDropped(slot=self._slot, count=dropped))

    async def run(self) -> None:
        """Announce every second."""
        while True:
            self.announce()
            await self._clock.sleep(_EVERY_S)

    def _listen(self) -> bool:
        """Whether a broker is or was connected: it subscribes to everything when it connects."""
        for message in drain(self._socket, 100):
            self._has_broker = message[:1] == b"\x01"
        return self._has_broker

    def close(self) -> None:
        """Close the socket; queued messages have ``bus.linger`` seconds to be sent."""
        if not self._has_broker:
            self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.close()
        self._context.term()


def _is_slot(descriptor: object) -> bool:
    return isinstance(descriptor, MemberDescriptorType)
