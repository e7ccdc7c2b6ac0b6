"""Runs one shard on real sockets, one for each of its connections.

A session only transfers data: frames from the sockets to the shard's state machine, the machine's
commands to the sockets, the gateway and the clock, and its events to the recorder, in batches. All
decisions are made by the state machine.

Frames wait on their socket, each with its time of arrival, and are read together: starting a read
for each of them costs several times what reading it does. ``batching`` determines when. Timeouts
are evaluated only after the sockets were read: a process that was suspended for a while finds there
what arrived in the meantime.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.books.commands import CancelFetch, FetchSnapshot
from penstock.books.events import BookEvent
from penstock.clock import Clock
from penstock.collect.batching import Flushing, SharedBatching, settled
from penstock.collect.facts import (
    ConnectionClosed,
    ConnectionLost,
    ConnectionOpened,
    SnapshotFailed,
)
from penstock.collect.plain_frames import SocketOwner
from penstock.collect.sockets import ConnectFailed, Socket, open_socket
from penstock.errors import UNAVAILABLE
from penstock.market.events import BookSnapshot, Event
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Close, Open, Rotate, Send, Subscription, WakeAt
from penstock.streaming.facts import facts_of
from penstock.streaming.shard import Shard
from penstock.streaming.sharding import ConnectLimiter
from penstock.telemetry import Listener, quiet

_READ_S = 0.05
"""Frames wait little longer than this, however rarely events are recorded: some are replies."""
_MANY = 500
"""When this many frames wait on a socket, they are read at once, and no more until then."""
_SETTLE_NS = 1_000_000_000
"""How long arrived frames are read before a timeout is evaluated, at most."""
_LIMITER_CHECK_S = 1.0
"""How often to check whether a connection may be opened now."""
_GOOD_AFTER_NS = 3_000_000_000
"""A connection that lasts this long does not count as a failed attempt."""


@dataclass(frozen=True)
class Endpoint:
    """Where to connect, and how long a connection may be silent."""

    exchange: str
    url: str
    silence_s: float
    """A connection without a frame or a ping for this long counts as dead."""
    pings_are_life: bool = True
    """Whether pings count; if not, only frames do."""


@dataclass(frozen=True)
class SessionHooks:
    """What a session calls: to record, to fetch books, and to report."""

    record: Callable[[Sequence[Event]], Awaitable[object]]
    fetch_book: Callable[[FetchSnapshot, Callable[[], bool]], Awaitable[BookSnapshot | None]]
    """Fetches a snapshot; None if the given check returned False when its turn came."""
    emit: Listener = quiet
    on_events: Callable[[Sequence[Event]], None] = lambda _: None
    """Receives what streams delivered, before it is recorded."""
    limiter: ConnectLimiter | None = None
    """Determines when a connection may be opened; shared by all sessions of an exchange."""
    batching: SharedBatching | None = None
    """Determines when events are recorded; shared by all sessions of an exchange, too."""


class Session:
    """Runs one shard until it is stopped."""

    def __init__(
        self,
        shard: Shard,
        endpoint: Endpoint,
        hooks: SessionHooks,
        clock: Clock,
        flushing: Flushing = Flushing(),  # noqa: B008 (frozen)
    ) -> None:
        self.shard = shard
        self._endpoint, self._clock, self._flushing = endpoint, clock, flushing
        self._record, self._fetch_book = hooks.record, hooks.fetch_book
        self._emit, self._on_events, self._limiter = hooks.emit, hooks.on_events, hooks.limiter
        self._sockets: dict[int, Socket] = {}
        self._fetches: dict[tuple[int, Symbol], bool] = {}
        """The snapshots being fetched, by connection, and whether they are still wanted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._run_commands: Callable[[], None] = lambda: None
        self._batching = hooks.batching or SharedBatching(flushing, clock)
        self._socket_owner = SocketOwner(
            arrived=self._arrived,
            # Half of what may wait: the other half may be events already.
            many=min(_MANY, flushing.most_waiting // 2),
            now_ns=clock.monotonic_ns,
            anchor_ns=clock.now_ns() - clock.monotonic_ns(),
            pings_are_life=endpoint.pings_are_life,
        )
        self._some, self._many = asyncio.Event(), asyncio.Event()
        """Whether frames arrived that may not be read yet, and whether many did."""
        self._read_ns = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Stream and record until ``stop``; then close, and record what had arrived.

        Raises:
            StorageError: events cannot be recorded. The connection is closed first.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._run_commands = partial(self._start_commands, group)
                for loop in (self._flush_forever, self._read_forever, self._read_floods):
                    self._tasks.add(group.create_task(loop()))
                self.shard.start(self._clock.now_ns())
                self._run_commands()
                await stop.wait()
                self.shard.stop()
                self._run_commands = lambda: None
                await asyncio.gather(*(self._close(number, "stopped") for number in self._sockets))
                for action in self._tasks:
                    action.cancel()
        except ExceptionGroup as failures:
            # Callers expect the error itself, not the group.
            raise failures.exceptions[0] from None
        self._read()
        self.shard.stopped(self._clock.now_ns())
        if events := self.take():
            await self._write(events)

    def connected_since_ns(self) -> int | None:
        """When the primary connection was opened; None while there is none."""
        primary = self.shard.primary
        return primary.opened_ns if primary.live else None

    def add(self, wanted: Subscription) -> None:
        """Subscribe to this too.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have it; nothing was changed.
        """
        self.shard.add(wanted, self._clock.now_ns())
        self._advance()

    def remove(self, wanted: Subscription) -> None:
        """Unsubscribe from this."""
        self.shard.remove(wanted, self._clock.now_ns())
        self._advance()

    def resubscribe(self, channel: str, symbol: Symbol) -> None:
        """Unsubscribe from a stream and subscribe again."""
        self.shard.resubscribe(channel, symbol, self._clock.now_ns())
        self._advance()

    def book_event(self, symbol: Symbol, event: BookEvent) -> None:
        """Pass on an event of a book that does not come from its stream."""
        self.shard.book_event(symbol, event, self._clock.now_ns())
        self._advance()

    def rotate(self, reason: str) -> None:
        """Replace the connection by another, without loss."""
        self.shard.rotate(reason, self._clock.now_ns())
        self._advance()

    def _advance(self) -> None:
        """Run the machine's commands, and schedule its events to be recorded."""
        if self.shard.waiting:
            self._batching.arrived()
        self._run_commands()

    def _start_commands(self, group: asyncio.TaskGroup) -> None:
        """Start all commands of the machine, each in its own task."""
        if self.shard.stats.failures:
            self._emit_failures()
        for number, command in self.shard.take_commands():
            match command:
                case Open():
                    action = self._stream(number)
                case Send(text):
                    action = self._send(number, text)
                case Close(reason):
                    self._emit(ConnectionClosed(exchange=self._endpoint.exchange, reason=reason))
                    action = self._close(number, reason)
                case FetchSnapshot(symbol):
                    is_fetched = (number, symbol) in self._fetches
                    self._fetches[number, symbol] = True
                    if is_fetched:  # it was cancelled, and is wanted again
                        continue
                    action = self._fetch(number, command)
                case CancelFetch(symbol):
                    if (number, symbol) in self._fetches:
                        self._fetches[number, symbol] = False
                    continue
                case WakeAt(at_ns):
                    action = self._wake(number, at_ns)
                case Rotate():
                    raise AssertionError("that is the shard's to do")
            task = group.create_task(action)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _emit_failures(self) -> None:
        failures = self.shard.stats.take_failures()
        for fact in facts_of(self._endpoint.exchange, failures):
            self._emit(fact)

    async def _stream(self, number: int) -> None:
        """Open a connection's socket and read it until it closes."""
        await self._wait_for_turn()
        began_ns = self._clock.monotonic_ns()
        try:
            reason = await self._receive(number)
        except ConnectFailed as error:
            reason = str(error)
        self._read()
        self._sockets.pop(number, None)
        member = self.shard.members.get(number)
        planned = member is None or member.leaving
        self.shard.closed(number, reason, self._clock.now_ns())
        if not planned:
            lasted_ns = self._clock.monotonic_ns() - began_ns
            if self._limiter is not None and lasted_ns < _GOOD_AFTER_NS:
                self._limiter.failed()
            self._emit(ConnectionLost(exchange=self._endpoint.exchange, reason=reason))
        self._advance()

    async def _wait_for_turn(self) -> None:
        """Wait until the exchange allows another connection."""
        limiter, clock = self._limiter, self._clock
        if limiter is None:
            return
        while (wait_ns := limiter.wait_ns(clock.monotonic_ns())) > 0:
            # In short steps: the wait may become shorter meanwhile.
            await clock.sleep(min(_LIMITER_CHECK_S, wait_ns / 1_000_000_000))
        limiter.note(clock.monotonic_ns())

    async def _receive(self, number: int) -> str:
        """Open a connection's socket and receive frames until it closes; return the reason."""
        clock = self._clock
        self._sockets[number] = socket = await open_socket(self._endpoint.url, self._socket_owner)
        try:
            if self._limiter is not None:
                self._limiter.succeeded()
            self.shard.opened(number, clock.now_ns())
            self._emit(ConnectionOpened(exchange=self._endpoint.exchange, url=self._endpoint.url))
            self._run_commands()
            ending = asyncio.create_task(socket.ended())
            silence = asyncio.create_task(self._watch_silence(socket))
            try:
                await asyncio.wait({ending, silence}, return_when=asyncio.FIRST_COMPLETED)
                return ending.result() if ending.done() else silence.result()
            finally:
                ending.cancel()
                silence.cancel()
        finally:
            await socket.close()

    async def _watch_silence(self, socket: Socket) -> str:
        """Wait until the socket was silent for too long; return the reason."""
        silence_s = self._endpoint.silence_s
        but_for = "" if self._endpoint.pings_are_life else " but for pings"
        while True:
            if socket.silent_s() >= silence_s:
                await self._settle()
                if socket.silent_s() >= silence_s:
                    return f"silent{but_for} for {silence_s:g} s"
            await self._clock.sleep(max(0.0, silence_s - socket.silent_s()))

    def _arrived(self, frames: int) -> None:
        """Note how many frames wait on a socket."""
        self._some.set()
        self._batching.arrived()
        if frames >= self._socket_owner.many:
            self._many.set()
            # uvloop would go on until it has 8 MB, which are in no cache when they are read.
            for socket in self._sockets.values():
                if len(socket.frames) >= self._socket_owner.many:
                    socket.let_wait(waits=True)

    def waiting(self) -> int:
        """How many frames and events wait to be recorded."""
        return self.shard.waiting + sum([len(socket.frames) for socket in self._sockets.values()])

    async def _settle(self) -> None:
        """Read everything that arrived before now."""
        await settled(self._clock, self.waiting, self._clock.monotonic_ns() + _SETTLE_NS)
        self._read()

    async def _flush_forever(self) -> None:
        await self._batching.run(self, self._write)

    async def _read_forever(self) -> None:
        """Read between recordings: these may be rare, or wait for the disk."""
        while True:
            # Where hardly anything happens, looking for frames would be much of what it costs.
            await self._some.wait()
            await self._clock.sleep(_READ_S)
            if self._clock.monotonic_ns() - self._read_ns > _READ_S * 1_000_000_000:
                self._read()
            if not any(socket.frames for socket in self._sockets.values()):
                self._some.clear()

    async def _read_floods(self) -> None:
        """Read at once when many frames have arrived."""
        while True:
            await self._many.wait()
            self._many.clear()
            self._read()

    def _read(self) -> None:
        """Pass all frames to the machine, and run its commands."""
        self._read_ns = self._clock.monotonic_ns()
        for number, socket in self._sockets.items():
            if socket.frames:
                self.shard.received_many(number, *socket.take())
        self._measure_room()
        self._run_commands()

    async def _send(self, number: int, text: str) -> None:
        socket = self._sockets.get(number)
        if socket is not None:  # else it is sent again on the next connection
            socket.send(text)

    async def _close(self, number: int, reason: str) -> None:
        socket = self._sockets.get(number)
        if socket is not None:
            await socket.close(reason)

    async def _fetch(self, number: int, command: FetchSnapshot) -> None:
        """Fetch a snapshot, unless it is cancelled before the request is sent."""
        symbol = command.symbol
        try:
            await self._clock.sleep(command.after_s)
            snapshot = await self._fetch_book(command, lambda: self._fetches[number, symbol])
        except UNAVAILABLE as error:
            exchange, reason = self._endpoint.exchange, str(error)
            self._emit(SnapshotFailed(exchange=exchange, symbol=symbol.slug, reason=reason))
            snapshot = None
        finally:
            is_wanted = self._fetches.pop((number, symbol))
        if snapshot is not None:
            self.shard.snapshot_arrived(number, snapshot, self._clock.now_ns())
        elif is_wanted:
            self.shard.snapshot_failed(number, symbol, self._clock.now_ns())
        self._advance()

    async def _wake(self, number: int, at_ns: int) -> None:
        # Timers of uvloop are up to a millisecond early; what is not due yet would never be done.
        while (left_ns := at_ns - self._clock.now_ns()) > 0:
            await self._clock.sleep(left_ns / 1_000_000_000)
        await self._settle()
        self.shard.woken(number, self._clock.now_ns())
        self._advance()

    def take(self) -> list[Event]:
        """Read everything that has arrived, and take the events to be recorded."""
        self._read()
        return self.shard.take_events()

    def written(self) -> None:
        """Note that the events that were taken are recorded."""
        self._measure_room()

    async def _write(self, events: Sequence[Event]) -> None:
        self._on_events(events)
        await self._record(events)

    def _measure_room(self) -> None:
        """Pause reading from the sockets while too many events are not recorded."""
        waits = self.shard.waiting >= self._flushing.most_waiting
        for socket in self._sockets.values():
            socket.let_wait(waits=waits)
