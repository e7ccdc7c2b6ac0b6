"""A subscriber delivers every record of its topics once, in order per topic and slot.

Messages that the bus dropped are detected by number and read from the log of their slot; numbers
that the log does not have are reported once. The subscriber reads from the bus only as fast as its
caller reads from it. If that is too slow, the bus drops messages and the log is read instead, so no
queue grows without bound.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Protocol, Self

import zmq
from msgspec import Struct

from penstock.clock import SystemClock
from penstock.errors import NotOurRecord, StorageError
from penstock.market.codec import decode
from penstock.market.events import Event
from penstock.publish.endpoints import BusEndpoints
from penstock.publish.frames import (
    JOIN,
    MISSED,
    Frame,
    FrameKind,
    read_frame,
    read_head,
    record_of,
    unpack_frames,
    wanted_bytes,
)
from penstock.publish.ordering import FrameDecision, Ordering, Start
from penstock.publish.readiness import Socket, drain, readable

_BATCH = 1000
_BATCH_BYTES = 8 * 1024 * 1024
_REPORT_NS = 50_000_000
"""The least time between two reports: of too many that it has not read, the broker loses some."""


class Filler(Protocol):
    """Reads records that the bus dropped. Used in one thread at a time."""

    def holds(self, log: int) -> bool:
        """Whether this log has that id; a slot of another machine may have the same name."""
        ...

    def read(self, topic: str, slot: str, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield the existing numbers of this range, ascending, with their records.

        Raises:
            StorageError, NotOurRecord: the records cannot be read.
        """
        ...

    def close(self) -> None: ...


class Delivery(Struct, frozen=True, gc=False):
    """One delivered record."""

    topic: str
    slot: str
    number: int
    record: bytes
    filled: bool = False
    """Whether it was read from the log, because the bus had dropped it."""

    @property
    def event(self) -> Event:
        """The decoded event.

        Raises:
            NotOurRecord: it was written by a newer penstock, or is not a record.
        """
        return decode(self.record)


class Missing(Struct, frozen=True, gc=False):
    """Records that were published, and that neither the bus nor the log delivered."""

    topic: str
    slot: str
    first: int
    last: int
    """Inclusive."""


class SubscriberCounts(Struct):
    """Counts of a subscriber."""

    received: int = 0
    repeated: int = 0
    """Frames that had been received before."""
    missed: int = 0
    """Numbers the bus dropped."""
    filled: int = 0
    """Records read from the log, because they were dropped or precede the subscription."""
    lost: int = 0
    """Numbers that neither the bus nor the log delivered."""
    malformed: int = 0
    doubted: int = 0
    """Frames whose number was too far ahead to be accepted at once."""


class _GapRead:
    """Numbers that are being read from the log."""

    def __init__(self, frame: Frame, first: int, last: int) -> None:
        self.frame, self.next, self.last = frame, first, last
        self.records: Iterator[tuple[int, bytes]] | None = None


class Subscriber:
    """An asynchronous iterator of ``Delivery`` and ``Missing``. Close it when done.

    Waiting for the next one may be cancelled at any time without loss.
    """

    def __init__(
        self,
        endpoints: BusEndpoints,
        wanted: Sequence[str],
        *,
        start: Start = "last",
        fill: Filler | None = None,
    ) -> None:
        self.counts = SubscriberCounts()
        self._ordering = Ordering(start)
        self._fill = fill
        self._logs: dict[str, int] = {}
        self._todo: deque[tuple[Frame, bool]] = deque()
        self._ready: deque[Delivery | Missing] = deque()
        self._hole: _GapRead | None = None
        self._after: Delivery | None = None
        self._reading: asyncio.Future[list[tuple[int, bytes]]] | None = None
        self._disk = ThreadPoolExecutor(1, "subscriber")
        self._reported = self._reports_at_ns = 0
        self._context: zmq.Context[Socket] = zmq.Context()
        self._socket = self._context.socket(zmq.XSUB)
        endpoints.connect(self._socket, "subscribe")
        nonce = secrets.token_hex(8)
        self._unanswered = len(wanted)
        for each in wanted:
            self._socket.send(b"\x01" + wanted_bytes(each))
            # After the subscription, on the same connection: no message is lost between the two.
            self._socket.send(f"\x01{JOIN}.{nonce}.{each}\0".encode())

    @property
    def joined(self) -> bool:
        """Whether the bus has answered for all topics wanted, and so forwards them."""
        return self._unanswered <= 0

    def __aiter__(self) -> AsyncIterator[Delivery | Missing]:
        return self

    async def __anext__(self) -> Delivery | Missing:
        while not self._ready:
            if self._hole is not None:
                await self._read_on(self._hole)
            elif self._todo:
                self._take(*self._todo.popleft())
            else:
                await self._receive()
        return self._ready.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnect from the bus."""
        if self._reading is not None:
            await asyncio.wait({self._reading})
        self._disk.shutdown()
        if self._fill is not None:
            self._fill.close()
        self._socket.close(linger=0)
        self._context.term()

    async def _receive(self) -> None:
        """Read messages from the bus; wait if there are none."""
        now_ns = SystemClock.monotonic_ns()
        if self.counts.missed != self._reported and now_ns >= self._reports_at_ns:
            self._reports_at_ns = now_ns + _REPORT_NS
            missed, self._reported = self.counts.missed - self._reported, self.counts.missed
            self._send(MISSED + min(missed, 1 << 63).to_bytes(8, "big"))
        taken = drain(self._socket, _BATCH, _BATCH_BYTES)
        for data in taken:
            try:
                self._sort(data)
            except NotOurRecord:
                self.counts.malformed += 1
        if not taken:
            await readable(self._socket)

    def _sort(self, data: bytes) -> None:
        frame = read_frame(data)
        if frame.kind is FrameKind.JOINED:
            self._todo.extend((read_frame(each), True) for each in unpack_frames(frame.payload))
            if not frame.number:
                self._unanswered -= 1
                self._send(f"\0{frame.topic}\0".encode())
        elif not frame.topic.startswith("_"):
            self._todo.append((frame, False))

    def _send(self, message: bytes) -> None:
        # Without a broker the message is dropped; it only concerns counts and unsubscribing.
        with suppress(zmq.Again):
            self._socket.send(message, zmq.NOBLOCK)

    def _take(self, frame: Frame, before: bool) -> None:
        try:
            if frame.kind is FrameKind.HEAD:
                head = read_head(frame.payload)
                self._logs[frame.slot] = head.log
                step = self._ordering.announced(
                    frame.topic, frame.slot, frame.number, head, before=before
                )
                delivery = None
            else:
                record = record_of(frame)
                step = self._ordering.arrived(frame.topic, frame.slot, frame.number, before=before)
                self.counts.received += step.deliver
                self.counts.repeated += not (step.deliver or step.doubted)
                delivery = Delivery(frame.topic, frame.slot, frame.number, record)
        except NotOurRecord:
            self.counts.malformed += 1
            return
        self.counts.doubted += step.doubted
        self._follow(step, frame, delivery if step.deliver else None)
        if step.missing and not before:
            first, last = step.missing
            self.counts.missed += last - first + 1

    def _follow(self, step: FrameDecision, frame: Frame, delivery: Delivery | None) -> None:
        if step.missing is not None:
            self._hole, self._after = _GapRead(frame, *step.missing), delivery
        elif delivery is not None:
            self._ready.append(delivery)

    async def _read_on(self, hole: _GapRead) -> None:
        """Read the next missing records from the log; after the last, continue behind the gap."""
        if self._reading is None:
            loop = asyncio.get_running_loop()
            self._reading = loop.run_in_executor(self._disk, self._read, hole)
        await asyncio.wait({self._reading})
        records, self._reading = self._reading.result(), None
        for number, record in records:
            self._lose_until(hole, number)
            self.counts.filled += 1
            frame = hole.frame
            self._ordering.filled(frame.topic, frame.slot, number)
            self._ready.append(Delivery(frame.topic, frame.slot, number, record, filled=True))
            hole.next = number + 1
        if len(records) < _BATCH:
            self._lose_until(hole, hole.last + 1)
            if self._after is not None:
                self._ready.append(self._after)
            self._hole = self._after = None

    def _lose_until(self, hole: _GapRead, number: int) -> None:
        if number > hole.next:
            self.counts.lost += number - hole.next
            frame = hole.frame
            self._ready.append(Missing(frame.topic, frame.slot, hole.next, number - 1))
            hole.next = number

    def _read(self, hole: _GapRead) -> list[tuple[int, bytes]]:
        """Return the next records, fewer than a batch if they are the last. Runs in the thread."""
        frame, log = hole.frame, self._logs.get(hole.frame.slot)
        if self._fill is None or (log is not None and not self._fill.holds(log)):
            return []
        try:
            if hole.records is None:
                hole.records = self._fill.read(frame.topic, frame.slot, hole.next, hole.last)
            return list(islice(hole.records, _BATCH))
        except (StorageError, NotOurRecord):
            return []
