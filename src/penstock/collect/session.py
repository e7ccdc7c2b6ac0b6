"""A session: one connection on a real socket.

It only moves things: frames from the socket to the connection machine, the machine's commands to
the socket, the gateway and the clock, and its events to the recorder, in batches. Everything that
could be decided is decided by the machine.

Frames that are already there are taken off the socket before any is read, because together they
cost less to read than one by one. None waits longer for that: they are read as soon as the socket
has no more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import aiohttp
from aiohttp import WSCloseCode, WSMsgType

from penstock import __version__
from penstock.clock import Clock
from penstock.collect.snapshots import UNAVAILABLE
from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.connection import (
    Close,
    Connection,
    FetchSnapshot,
    Open,
    Send,
    WakeAt,
)
from penstock.telemetry import ConnectionLost, ConnectionOpened, Listener, SnapshotFailed, quiet

_Socket = aiohttp.ClientWebSocketResponse[Literal[False]]
"""One that hands out frames as the bytes they are."""
LARGEST_FRAME = 16_000_000
FRAMES_AT_ONCE = 256
"""So many frames are read without waiting for more."""
_CONNECT_S = 10.0
_CLOSE_S = 1.0
"""How long the exchange may take to say goodbye; a dead connection never does."""


@dataclass(frozen=True)
class Endpoint:
    """Where to connect, and how patiently."""

    exchange: str
    url: str
    silence_s: float
    """After so long without a frame or a ping the connection counts as dead."""
    pings_are_life: bool = True
    """Whether a ping counts; if not, only frames do."""


@dataclass(frozen=True)
class Flushing:
    """How events are gathered into batches."""

    every_s: float = 0.02
    most_waiting: int = 50_000
    """With so many events not yet recorded, reading pauses and the exchange has to wait."""


@dataclass(frozen=True)
class Outlets:
    """Where a session's errands go."""

    record: Callable[[Sequence[AnyEvent]], Awaitable[object]]
    fetch_book: Callable[[Symbol], Awaitable[BookSnapshot | None]]
    """A snapshot, or None if it was no longer wanted when its turn came."""
    tell: Listener = quiet
    hear: Callable[[Sequence[AnyEvent]], None] = lambda _: None
    """Is told what streams brought, before it is recorded."""


class Session:
    """Runs one connection until told to stop."""

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        outlets: Outlets,
        clock: Clock,
        flushing: Flushing = Flushing(),  # noqa: B008 (frozen)
    ) -> None:
        self.connection = connection
        self._endpoint, self._clock, self._flushing = endpoint, clock, flushing
        self._record, self._fetch_book = outlets.record, outlets.fetch_book
        self._tell, self._hear = outlets.tell, outlets.hear
        self._socket: _Socket | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room_for = 0
        """So many frames may gather before they are read; none while too many events wait."""
        self._frames: list[bytes] = []
        """Arrived, stamped and not read yet."""
        self._stamps_ns: list[int] = []
        """When each arrived, by the monotonic clock: the cheapest to ask."""
        self._anchor_ns = clock.now_ns() - clock.monotonic_ns()
        self._arrived = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Stream and record until ``stop``; then close, and record what had arrived.

        Raises:
            StorageError: what arrived cannot be recorded. The connection is closed first.
        """
        try:
            async with _http() as http, asyncio.TaskGroup() as group:
                run_errands = partial(self._run_errands, http, group)
                self._errands.add(group.create_task(self._flush_forever()))
                self._errands.add(group.create_task(self._read_forever(run_errands)))
                self.connection.start()
                run_errands()
                await stop.wait()
                self.connection.stop()
                await self._close()
                for errand in self._errands:
                    errand.cancel()
        except ExceptionGroup as failures:
            # Whoever called wants the one thing that went wrong, not the group it was in.
            raise failures.exceptions[0] from None
        await self._flush()

    def standing_since_ns(self, _channel: str, _symbol: Symbol) -> int | None:
        """Since when the connection stands; None while it does not."""
        return self.connection.opened_at_ns

    def ask_anew(self, channel: str, symbol: Symbol) -> None:
        """End a stream and ask for it again."""
        self.connection.ask_anew(channel, symbol, self._clock.now_ns())
        self._arrived.set()  # whoever reads runs errands too

    def rotate(self, _channel: str, _symbol: Symbol, reason: str) -> None:
        """Change the connection for another."""
        self.connection.give_up(reason)
        self._arrived.set()

    def _run_errands(self, http: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        """Begin everything the machine has asked for, each in a task of its own."""
        again = partial(self._run_errands, http, group)
        for command in self.connection.take_commands():
            match command:
                case Open():
                    errand = self._stream(http, again)
                case Send(text):
                    errand = self._send(text)
                case Close():
                    errand = self._close()
                case FetchSnapshot():
                    errand = self._fetch(command, again)
                case WakeAt(at_ns):
                    errand = self._wake(at_ns, again)
            task = group.create_task(errand)
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)

    async def _stream(self, http: aiohttp.ClientSession, then: Callable[[], None]) -> None:
        """Open the socket and read it to its end."""
        try:
            reason = await self._receive(http, then)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
        finally:
            self._socket = None
        self._read()
        self.connection.closed(reason, self._clock.now_ns())
        self._tell(ConnectionLost(exchange=self._endpoint.exchange, reason=reason))
        then()

    async def _receive(self, http: aiohttp.ClientSession, then: Callable[[], None]) -> str:
        """Open the socket and take frames off it until it closes; the reason."""
        connection, clock, silence_s = self.connection, self._clock, self._endpoint.silence_s
        heard_ns = clock.monotonic_ns()
        async with http.ws_connect(
            self._endpoint.url,
            autoping=False,  # so that a ping is seen: on a quiet stream it is the sign of life
            max_msg_size=LARGEST_FRAME,
            decode_text=False,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        ) as socket:
            self._socket = socket
            connection.opened(clock.now_ns())
            self._tell(ConnectionOpened(exchange=self._endpoint.exchange, url=self._endpoint.url))
            then()
            while True:
                try:
                    message = await socket.receive(timeout=silence_s)
                except TimeoutError:
                    return f"silent for {silence_s:g} s"
                if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
                    heard_ns = clock.monotonic_ns()
                    self._frames.append(message.data)
                    self._stamps_ns.append(heard_ns)
                    if len(self._frames) == 1:
                        self._arrived.set()
                    if len(self._frames) >= self._room_for:
                        await self._make_room(then)
                elif message.type is WSMsgType.PING:
                    await socket.pong(message.data)
                    quiet_s = (clock.monotonic_ns() - heard_ns) / 1_000_000_000
                    if quiet_s > silence_s and not self._endpoint.pings_are_life:
                        await _say_goodbye(socket)
                        return f"silent but for pings for {quiet_s:.0f} s"
                elif message.type is WSMsgType.ERROR and socket.exception() is None:
                    return f"unreadable: {message.data}"  # then it was us who closed it
                elif message.type is not WSMsgType.PONG:
                    return _reason(socket)

    async def _make_room(self, then: Callable[[], None]) -> None:
        """Read what has arrived; while too many events are not recorded, wait."""
        self._read()
        then()
        if self._room_for <= 0:
            self._room.clear()
            await self._room.wait()

    async def _read_forever(self, then: Callable[[], None]) -> None:
        """Read what has arrived whenever the task that receives has to wait for more."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            self._read()
            then()

    def _read(self) -> None:
        """Hand all frames to the machine."""
        frames, instants_ns = self._frames, [self._anchor_ns + each for each in self._stamps_ns]
        self._frames, self._stamps_ns = [], []
        self.connection.received_many(frames, instants_ns)
        self._measure_room()

    async def _send(self, text: str) -> None:
        if self._socket is None or self._socket.closed:
            return  # whatever was to be asked is asked again on the next connection
        try:
            await self._socket.send_str(text)
        except (ConnectionError, aiohttp.ClientError):
            return  # the reader notices too, and says why

    async def _close(self) -> None:
        if self._socket is not None:
            await _say_goodbye(self._socket)

    async def _fetch(self, wanted: FetchSnapshot, then: Callable[[], None]) -> None:
        await self._clock.sleep(wanted.after_s)
        try:
            snapshot = await self._fetch_book(wanted.symbol)
        except UNAVAILABLE as error:
            slug, reason = wanted.symbol.slug, str(error)
            self._tell(SnapshotFailed(exchange=self._endpoint.exchange, symbol=slug, reason=reason))
            snapshot = None
        if snapshot is None:
            self.connection.snapshot_failed(wanted.symbol)
        else:
            self.connection.snapshot_arrived(snapshot)
        then()

    async def _wake(self, at_ns: int, then: Callable[[], None]) -> None:
        await self._clock.sleep(max(0, at_ns - self._clock.now_ns()) / 1_000_000_000)
        self.connection.woken(self._clock.now_ns())
        then()

    async def _flush_forever(self) -> None:
        while True:
            await self._clock.sleep(self._flushing.every_s)
            await self._flush()

    async def _flush(self) -> None:
        self._read()
        events = self.connection.take_events()
        if events:
            self._hear(events)
            await self._record(events)
        self._measure_room()
        self._room.set()

    def _measure_room(self) -> None:
        room = self._flushing.most_waiting - len(self.connection.events)
        self._room_for = min(FRAMES_AT_ONCE, room)


def _http() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_S),
        headers={"User-Agent": f"penstock/{__version__}"},
    )


async def _say_goodbye(socket: _Socket) -> None:
    """Close; an exchange that goes on talking instead of answering is left to talk."""
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * _CLOSE_S):
            await socket.close()


def _reason(socket: _Socket) -> str:
    code, error = socket.close_code, socket.exception()
    if code in (None, WSCloseCode.ABNORMAL_CLOSURE):
        return "cut off" if error is None else f"cut off: {error}"
    return f"closed by the exchange ({code})"
