"""The broker: takes what every slot publishes and hands it to whoever wants it.

It hears everything, so that a publisher sends each message once, whoever listens. It never waits
for a subscriber: where one's queue is full, that one's messages are dropped; it knows them by their
numbers.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import zmq

from penstock.clock import Clock
from penstock.errors import ConfigError, NotOurRecord
from penstock.publish.frames import (
    ANNOUNCE,
    BATCH,
    JOIN,
    MISSED,
    STREAMS,
    Frame,
    Kind,
    read_announcement,
    read_frame,
    unpack_frames,
    write_frame,
)
from penstock.publish.keys import Doorkeeper
from penstock.publish.readiness import Socket, drain, readable
from penstock.publish.registry import BusCounts, BusFacts, Registry
from penstock.publish.wiring import Wiring, socket_file
from penstock.telemetry import BusFell, Listener, quiet

_AT_ONCE = 500
_TELL_S = 1.0
_REMEMBERED_BYTES = 64 * 1024 * 1024
_SLOT = "_bus"


class Broker:
    """One bus. Made where an event loop runs; nothing is lost when it dies but time."""

    def __init__(self, wiring: Wiring, clock: Clock, listener: Listener = quiet) -> None:
        self.counts = BusCounts()
        self.wiring, self._clock, self._tell = wiring, clock, listener
        self._told = BusCounts()
        self._registry = Registry(_REMEMBERED_BYTES)
        with ExitStack() as stack:
            for endpoint in (wiring.publish, wiring.subscribe):
                stack.enter_context(_alone(endpoint))
            context: zmq.Context[Socket] = zmq.Context()
            stack.callback(context.destroy, 0)
            self._doorkeeper = None
            if wiring.secret is not None:
                self._doorkeeper = Doorkeeper(context, Path(wiring.settings.clients))
            self._publishers = context.socket(zmq.XSUB)
            self._subscribers = context.socket(zmq.XPUB)
            self._subscribers.setsockopt(zmq.XPUB_NODROP, 1)
            wiring.bind(self._publishers, "publish")
            wiring.bind(self._subscribers, "subscribe")
            # Everything: each publisher is told once, when it connects.
            self._publishers.send(b"\x01")
            self._open = stack.pop_all()

    async def run(self, stop: asyncio.Event) -> None:
        """Forward until told to stop, and tell every second what fell."""
        works = (self.forward(), self._keep_telling(), stop.wait())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()

    async def _keep_telling(self) -> None:
        while True:
            await self._clock.sleep(_TELL_S)
            self.tell()

    async def forward(self) -> None:
        """Forward for ever."""
        sockets = [self._publishers, self._subscribers]
        if self._doorkeeper is not None:
            sockets.append(self._doorkeeper.socket)
        while True:
            # Sockets that were just written to must be looked at again before they are waited for.
            if self._pass_on() or self._answer() or self._admit():
                await self._clock.sleep(0)
            else:
                await readable(*sockets)

    def tell(self) -> None:
        """Tell what fell since this was last called, if anything did."""
        now, before = self.counts, self._told
        if (now.overflows, now.missed) != (before.overflows, before.missed):
            overflows, missed = now.overflows - before.overflows, now.missed - before.missed
            self._tell(BusFell(overflows=overflows, missed=missed))
        self._told = msgspec.structs.replace(now)

    def close(self) -> None:
        self._open.close()

    def _pass_on(self) -> bool:
        taken = drain(self._publishers, _AT_ONCE)
        for data in taken:
            try:
                frame = read_frame(data)
                if frame.topic == ANNOUNCE:
                    self._take_announcement(frame)
                elif frame.topic == BATCH:
                    for each in unpack_frames(frame.payload):
                        self._take_record(read_frame(each), each)
                else:
                    self._take_record(frame, data)
            except NotOurRecord:
                self.counts.malformed += 1
        return bool(taken)

    def _take_record(self, frame: Frame, data: bytes) -> None:
        if frame.topic.startswith("_") or frame.kind not in (Kind.JSON, Kind.MSGPACK):
            raise NotOurRecord("a frame that is not for a publisher to send")
        self._send(data)
        self._registry.passed(frame, data)
        self.counts.forwarded += 1

    def _take_announcement(self, frame: Frame) -> None:
        announcement = read_announcement(frame.payload)
        for head in self._registry.announced(announcement, self._clock.now_ms()):
            self._send(head)

    def _send(self, data: bytes) -> None:
        try:
            self._subscribers.send(data, zmq.NOBLOCK)
        except zmq.Again:
            # Somebody's queue is full, and so nobody got it. Once more, without that one.
            self.counts.overflows += 1
            self._subscribers.setsockopt(zmq.XPUB_NODROP, 0)
            self._subscribers.send(data, zmq.NOBLOCK)
            self._subscribers.setsockopt(zmq.XPUB_NODROP, 1)

    def _answer(self) -> bool:
        """Answer subscriptions that ask something, and hear what subscribers say."""
        taken = drain(self._subscribers, _AT_ONCE)
        for data in taken:
            if data[:1] == MISSED and len(data) == 9:
                self.counts.missed += min(int.from_bytes(data[1:], "big"), 1 << 32)
            elif data[:2] == b"\x01_" and data.endswith(b"\0"):
                self._reply(data[1:-1])
        return bool(taken)

    def _reply(self, topic_bytes: bytes) -> None:
        try:
            topic = topic_bytes.decode()
            question, _, rest = topic.partition(".")
            if question == JOIN:
                wanted = rest.partition(".")[2]
                payloads = self._registry.known(wanted, self.wiring.settings.message_bytes // 2)
                for left, payload in zip(range(len(payloads))[::-1], payloads, strict=True):
                    self._send(write_frame(Frame(topic, _SLOT, left, Kind.JOINED, payload)))
            elif question == STREAMS:
                facts = BusFacts(
                    counts=self.counts, slots=self._registry.slots(self._clock.now_ms())
                )
                payload = msgspec.json.encode(facts)
                self._send(write_frame(Frame(topic, _SLOT, 0, Kind.FACTS, payload)))
        except (NotOurRecord, UnicodeDecodeError):
            self.counts.malformed += 1

    def _admit(self) -> bool:
        if self._doorkeeper is None:
            return False
        answered = self._doorkeeper.answer()
        self.counts.refused = self._doorkeeper.refused
        return answered


@contextmanager
def _alone(endpoint: str) -> Iterator[None]:
    """Hold the lock beside a socket's file, which ZeroMQ itself would take from its owner.

    Raises:
        ConfigError: another holds it.
    """
    path = socket_file(endpoint)
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        problem = f"cannot listen on {endpoint}: {error.strerror}."
        raise ConfigError("bus", problem=problem, origin="settings") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        problem = f"another bus serves {endpoint} already. Stop it, or use that one."
        raise ConfigError("bus", problem=problem, origin="settings") from None
    try:
        yield
    finally:
        os.close(lock)
