"""The broker receives the messages of all slots and forwards them to subscribers.

It subscribes to everything, so a publisher sends each message once, however many subscribers there
are. It never waits for a subscriber: if a subscriber's queue is full, its messages are dropped, and
it detects them by their numbers.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import zmq

from penstock.clock import Clock
from penstock.errors import ConfigError, NotOurRecord
from penstock.files import locked_at_once
from penstock.publish.connections import ConnectionLimiter, cut
from penstock.publish.contexts import new_context
from penstock.publish.endpoints import BusEndpoints
from penstock.publish.facts import BusFell, BusRefused
from penstock.publish.frames import (
    ANNOUNCE,
    BATCH,
    JOIN,
    MISSED,
    STREAMS,
    Frame,
    FrameKind,
    read_announcement,
    read_frame,
    wanted_bytes,
    write_frame,
)
from penstock.publish.keys import AccessGuard
from penstock.publish.outbox import Outbox
from penstock.publish.readiness import Incoming, SocketRounds
from penstock.publish.registry import BusCounts, BusFacts, Registry
from penstock.publish.relay import Relay
from penstock.publish.socket_files import socket_file
from penstock.publish.subscriptions import ClientSubscriptions
from penstock.telemetry import Listener, quiet

_AT_ONCE = 500
_BYTES_AT_ONCE = 1024 * 1024
_ANSWERS_AT_ONCE = 4
_REPORT_S = 1.0
_REMEMBERED_BYTES = 16 * 1024 * 1024
_SLOT = "_bus"
_BATCH_BEGINS = wanted_bytes(BATCH)
_ANNOUNCE_BEGINS = wanted_bytes(ANNOUNCE)


class Broker:
    """The broker of one bus. Create it in a running event loop. No record is lost if it crashes."""

    def __init__(self, endpoints: BusEndpoints, clock: Clock, listener: Listener = quiet) -> None:
        self.counts = BusCounts()
        self.endpoints, self._clock, self._emit = endpoints, clock, listener
        self._reported = BusCounts()
        self._why_cut, self._closed = "", 0
        self._registry = Registry(_REMEMBERED_BYTES)
        self._subscriptions = ClientSubscriptions(endpoints.settings.subscriptions)
        with ExitStack() as stack:
            for endpoint in (endpoints.publish, endpoints.subscribe):
                stack.enter_context(_alone(endpoint))
            context = new_context()
            stack.callback(context.destroy, 0)
            self._guard = None
            if endpoints.secret is not None:
                self._guard = AccessGuard(context, endpoints.key_folders, clock)
            self._publishers = context.socket(zmq.XSUB)
            self._subscribers = context.socket(zmq.XPUB)
            self._published, self._asked = Incoming(self._publishers), Incoming(self._subscribers)
            self._outbox = Outbox(self._subscribers, self.counts)
            self._relay = Relay(self._registry, self._outbox, self.counts)
            most = endpoints.settings.connections
            self._arrivals = ConnectionLimiter(context, self._publishers, most)
            self._audience = ConnectionLimiter(context, self._subscribers, most)
            endpoints.bind(self._publishers, "publish")
            endpoints.bind(self._subscribers, "subscribe")
            # Subscribe to everything; each publisher receives this once, when it connects.
            self._publishers.send(b"\x01")
            self._open = stack.pop_all()

    async def run(self, stop: asyncio.Event) -> None:
        """Forward until ``stop`` is set, and report drops and rejections every second."""
        works = (self.forward(), self._keep_reporting(), stop.wait())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()

    async def _keep_reporting(self) -> None:
        while True:
            await self._clock.sleep(_REPORT_S)
            self.report()

    async def forward(self) -> None:
        """Forward for ever."""
        handlers = {
            self._publishers: self._forward_batch,
            self._arrivals.socket: self._count_arrivals,
            self._audience.socket: self._count_audience,
            self._subscribers: self._serve_subscribers,
        }
        if self._guard is not None:
            handlers[self._guard.socket] = self._authenticate
        rounds = SocketRounds(handlers, lambda: self._after_round(rounds))
        await rounds.run()

    def _after_round(self, rounds: SocketRounds) -> bool:
        has_questions = self._answer()
        if self._outbox.has_sent:
            self._outbox.has_sent = False
            if self._asked.has_message():
                rounds.mark(self._subscribers)
        return has_questions

    def report(self) -> None:
        """Report messages dropped and connections refused since the last call, if any."""
        now, before = self.counts, self._reported
        if (now.overflows, now.missed) != (before.overflows, before.missed):
            overflows, missed = now.overflows - before.overflows, now.missed - before.missed
            self._emit(BusFell(overflows=overflows, missed=missed))
        if self._guard is not None and now.refused > before.refused:
            self._emit(BusRefused(count=now.refused - before.refused, why=self._guard.why))
        if now.cut > before.cut:
            self._emit(BusRefused(count=now.cut - before.cut, why=self._why_cut))
        self._reported = msgspec.structs.replace(now)

    def close(self) -> None:
        self._open.close()

    def _forward_batch(self) -> bool:
        """Forward a part of what publishers have sent; return whether there may be more."""
        taken = self._published.drain(_AT_ONCE, _BYTES_AT_ONCE)
        for data in taken:
            try:
                if data.startswith(_BATCH_BEGINS):
                    self._relay.forward_batch(data)
                elif data.startswith(_ANNOUNCE_BEGINS):
                    announcement = read_announcement(read_frame(data).payload)
                    self._outbox.send(self._registry.announced(announcement, self._clock.now_ms()))
                else:
                    self._relay.forward(data)
            except NotOurRecord:
                self.counts.malformed += 1
        return len(taken) == _AT_ONCE or sum(map(len, taken)) >= _BYTES_AT_ONCE

    def _count_arrivals(self) -> bool:
        _, more = self._arrivals.process_events(_AT_ONCE)
        self._count_closed()
        return more

    def _count_audience(self) -> bool:
        opened, more = self._audience.process_events(_AT_ONCE)
        for connection in opened:
            self._subscriptions.opened(connection)
        self._count_closed()
        return more

    def _count_closed(self) -> None:
        """Count the connections that were closed because there were too many."""
        closed = self._arrivals.refused + self._audience.refused
        if closed > self._closed:
            self._why_cut = f"more than {self.endpoints.settings.connections} connections"
            self.counts.cut += closed - self._closed
            self._closed = closed

    def _serve_subscribers(self) -> bool:
        """Process subscriptions, and messages from subscribers; return if there may be more."""
        if self._count_audience():  # first: a subscription belongs to the latest connection
            return True
        try:
            for _ in range(_AT_ONCE):
                frame = self._subscribers.recv(zmq.NOBLOCK, copy=False)
                self._take_message(frame, frame.bytes)
        except zmq.Again:
            return False
        return True

    def _take_message(self, frame: zmq.Frame, data: bytes) -> None:
        if data[:1] == b"\x01":
            try:
                connection = int(frame.get(zmq.SRCFD))
            except zmq.ZMQError:
                connection = -1
            if too_much := self._subscriptions.added(connection, data[1:]):
                self._why_cut = f"a subscriber asked for {too_much}"
                self.counts.cut += 1
                cut(connection)
            elif data[:2] == b"\x01_" and data.endswith(b"\0"):
                self._subscriptions.asked(data[1:])
        elif data[:1] == b"\0":
            self._subscriptions.removed(data[1:])
        elif data[:1] == MISSED and len(data) == 9:
            self.counts.missed += min(int.from_bytes(data[1:], "big"), 1 << 32)

    def _answer(self) -> bool:
        """Answer some of the subscriptions that are queries."""
        for _ in range(_ANSWERS_AT_ONCE):
            question = self._subscriptions.next_question()
            if question is None:
                return False
            try:
                answers = self._answers(question[:-1].decode())
            except (NotOurRecord, UnicodeDecodeError):
                self.counts.malformed += 1
                continue
            for answer in answers:
                self._outbox.reply(answer)
            self._subscriptions.answered(question, sum(map(len, answers)))
        return True

    def _answers(self, topic: str) -> list[bytes]:
        question, _, rest = topic.partition(".")
        if question == JOIN:
            wanted = rest.partition(".")[2]
            payloads = self._registry.known(wanted, self.endpoints.settings.message_bytes // 2)
            left = range(len(payloads))[::-1]
            return [
                write_frame(Frame(topic, _SLOT, number, FrameKind.JOINED, payload))
                for number, payload in zip(left, payloads, strict=True)
            ]
        if question == STREAMS:
            facts = BusFacts(counts=self.counts, slots=self._registry.slots(self._clock.now_ms()))
            payload = msgspec.json.encode(facts)
            return [write_frame(Frame(topic, _SLOT, 0, FrameKind.FACTS, payload))]
        return []

    def _authenticate(self) -> bool:
        assert self._guard is not None
        answered = self._guard.answer()
        self.counts.refused = self._guard.refused
        return answered


@contextmanager
def _alone(endpoint: str) -> Iterator[None]:
    """Hold a lock beside a socket's file; without it ZeroMQ would take over another bus's socket.

    Raises:
        ConfigError: another process holds it.
    """
    path = socket_file(endpoint)
    if path is None:
        yield
        return
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked_at_once(Path(f"{path}.lock"), create=True))
        except BlockingIOError:
            problem = f"another bus serves {endpoint} already. Stop it, or use that one."
            raise ConfigError("bus", problem=problem, origin="settings") from None
        except OSError as error:
            problem = f"cannot listen on {endpoint}: {error.strerror}."
            raise ConfigError("bus", problem=problem, origin="settings") from error
        yield
