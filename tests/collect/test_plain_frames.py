"""Frames through real sockets, on either event loop, with TLS and without, on both paths."""

import asyncio
import base64
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop
from tests.certificates import certificate
from tests.compiled.wires import BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, frame
from tests.paths import both_paths
from tests.waiting import PATIENCE_S

from penstock import compiled
from penstock.clock import SystemClock
from penstock.collect.plain_frames import PlainFrames, SocketOwner
from penstock.collect.sockets import LARGEST_FRAME, Socket, open_socket

__all__ = ["both_paths"]

_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
Run = Callable[[Coroutine[Any, Any, None]], None]
Behaviour = Callable[["Server"], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on an event loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def on_loop(test: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test, 2 * PATIENCE_S))

    return on_loop


@pytest.fixture(params=["plain", "tls"])
def context(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext | None:
    """What a server needs for TLS, if it uses it."""
    if request.param == "plain":
        return None
    chain, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(chain, key)
    return made


class Server:
    """One connection of a server that writes what a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def accept(self, follows: bytes = b"") -> None:
        """Answer the handshake, and write these bytes with the answer."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if b"websocket-key" in line.lower())
        digest = hashlib.sha1(key.partition(b":")[2].strip() + _ACCEPT).digest()
        await self.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n" + follows
        )

    async def write(self, data: bytes, size: int = 0) -> None:
        """Write bytes, in pieces of a size."""
        for at in range(0, len(data), size or len(data) or 1):
            self._writer.write(data[at : at + (size or len(data))])
            await self._writer.drain()
            await asyncio.sleep(0)

    async def heard(self) -> tuple[int, bytes]:
        """Read a short frame of the client."""
        first, flag = await self._reader.readexactly(2)
        mask = await self._reader.readexactly(4)
        payload = await self._reader.readexactly(flag & 0x7F)
        return first, bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))

    async def end(self) -> None:
        self._writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self._writer.wait_closed()


async def connected(
    behave: Behaviour, context: ssl.SSLContext | None, test: Callable[[Socket], Awaitable[None]]
) -> None:
    """Let a socket be opened to a server that behaves so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = Server(reader, writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await behave(server)
        await server.end()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        url = f"{'https' if context else 'http'}://127.0.0.1:{port}/"
        owner = SocketOwner(lambda _: None, 500, SystemClock().monotonic_ns)
        socket = await open_socket(url, owner)
        try:
            await test(socket)
        finally:
            await socket.close()


async def frames_of(socket: Socket, count: int) -> list[bytes]:
    """Take so many frames; their times rise."""
    taken: list[bytes] = []
    times: list[int] = []
    while len(taken) < count and socket.open:
        await asyncio.sleep(0.002)
        frames, stamps_ns = socket.take()
        assert len(frames) == len(stamps_ns)
        taken += frames
        times += stamps_ns
    assert times == sorted(times)
    return taken


def is_plain(socket: Socket) -> bool:
    assert socket._transport is not None
    return isinstance(socket._transport.underlying_transport.get_protocol(), PlainFrames)


def test_the_owner_is_told_of_the_first_frame_and_when_there_are_many() -> None:
    told: list[int] = []
    socket = Socket(SocketOwner(told.append, 3, SystemClock().monotonic_ns))
    for _ in range(5):
        socket.frames.append(b"x")
        socket.read_ended()
    assert told == [1, 3]

    assert len(socket.take()[0]) == 5
    socket.frames.append(b"x")
    socket.read_ended()

    assert told == [1, 3, 1]


@pytest.mark.parametrize("size", [0, 7, 1_000, 30_000])
def test_every_frame_arrives_once_and_in_order(
    run: Run, context: ssl.SSLContext | None, size: int
) -> None:
    chance = Random(size)
    sizes = (0, 1, 125, 126, 200, 600) if size == 7 else (0, 1, 126, 600, 600, 70_000, 400_000)
    payloads = [b"%d " % n + chance.randbytes(chance.choice(sizes)) for n in range(60)]
    made = [frame(each, FIN | chance.choice((TEXT, BINARY))) for each in payloads]
    made[10] += frame(b"one", FIN | PING)
    made[30] = frame(payloads[30][:2], TEXT) + frame(payloads[30][2:], FIN | CONTINUATION)
    made[50] += frame(b"two", FIN | PING) + frame(b"", FIN | PONG)
    pongs = []

    async def behave(server: Server) -> None:
        await server.accept(made[0] + made[1][:1])
        await server.write(made[1][1:] + b"".join(made[2:]), size)
        pongs.extend([await server.heard(), await server.heard()])
        await server.write(frame(b"end"))
        await server.heard()

    async def test(socket: Socket) -> None:
        assert await frames_of(socket, 61) == [*payloads, b"end"]
        assert is_plain(socket) is (compiled.PlainFrames is not None)

    run(connected(behave, context, test))
    assert pongs == [(FIN | PONG, b"one"), (FIN | PONG, b"two")]


def test_a_close_of_the_exchange_is_answered_and_named(
    run: Run, context: ssl.SSLContext | None
) -> None:
    answers = []

    async def behave(server: Server) -> None:
        await server.accept(frame(b"first"))
        await asyncio.sleep(0.02)
        await server.write(frame(b"last") + frame(b"\x0f\xa0", FIN | CLOSE))
        answers.append(await server.heard())

    async def test(socket: Socket) -> None:
        assert await socket.ended() == "closed by the exchange (4000)"
        assert socket.take()[0] == [b"first", b"last"]

    run(connected(behave, context, test))
    assert answers == [(FIN | CLOSE, b"\x0f\xa0")]


def test_a_cut_is_noticed_and_what_came_before_it_is_kept(
    run: Run, context: ssl.SSLContext | None
) -> None:
    async def behave(server: Server) -> None:
        await server.accept(frame(b"first"))
        await asyncio.sleep(0.02)
        await server.write(frame(b"last") + frame(b"never complete")[:-1])

    async def test(socket: Socket) -> None:
        assert await socket.ended() == "cut off"
        assert socket.take()[0] == [b"first", b"last"]

    run(connected(behave, context, test))


def test_we_close_with_a_handshake(run: Run, context: ssl.SSLContext | None) -> None:
    heard = []

    async def behave(server: Server) -> None:
        await server.accept(frame(b"first"))
        heard.append(await server.heard())
        await server.write(frame(b"late") + frame(b"\x03\xe8", FIN | CLOSE))

    async def test(socket: Socket) -> None:
        await frames_of(socket, 1)
        await socket.close("enough")
        assert await socket.ended() == "enough"
        assert socket.take()[0] == [b"late"]

    run(connected(behave, context, test))
    assert heard == [(FIN | CLOSE, b"\x03\xe8")]


def test_a_frame_beyond_all_measure_ends_it(run: Run, context: ssl.SSLContext | None) -> None:
    async def behave(server: Server) -> None:
        await server.accept(frame(b"first"))
        await asyncio.sleep(0.02)
        await server.write(bytes([FIN | TEXT, 127]) + (LARGEST_FRAME + 1).to_bytes(8))
        await server.heard()

    async def test(socket: Socket) -> None:
        assert await socket.ended() == "unreadable (message_too_big)"
        assert socket.take()[0] == [b"first"]

    run(connected(behave, context, test))


def test_a_socket_that_has_to_wait_takes_nothing_until_it_may(
    run: Run, context: ssl.SSLContext | None
) -> None:
    flood = [b"%d" % n + b"x" * 400 for n in range(30_000)]

    async def behave(server: Server) -> None:
        await server.accept(frame(b"first"))
        await server.write(b"".join([frame(each) for each in flood]), 100_000)
        await server.heard()

    async def test(socket: Socket) -> None:
        found = await frames_of(socket, 2)
        socket.let_wait(waits=True)
        await asyncio.sleep(0.05)
        found += socket.take()[0]
        await asyncio.sleep(0.05)
        assert socket.take() == ([], [])
        assert socket.silent_s() == 0
        socket.let_wait(waits=False)
        found += await frames_of(socket, 1 + len(flood) - len(found))
        assert found == [b"first", *flood]

    run(connected(behave, context, test))
