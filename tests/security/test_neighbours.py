"""Bad neighbours: what an exchange or a client sends that is odd harms nobody but itself."""

import asyncio
import base64
import hashlib
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.api.conftest import served
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.collect.plain_frames import SocketOwner
from penstock.collect.sockets import ConnectFailed, open_socket
from penstock.config import Api
from penstock.exchanges.binance.symbols import INFO
from penstock.storage.state import open_store
from penstock.web.facts import RequestServed

_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _MORE, _LAST = 0x01, 0x00, 0x80


def test_one_odd_name_hides_no_other_market() -> None:
    names = [("BTCUSDT", "BTC", "USDT"), ("币安人生USDT", "币安 人生", "USDT"), ("X", "", "")]
    names.append(("ETHUSDT", "ETH", "USDT"))
    rows = [{"symbol": s, "baseAsset": b, "quoteAsset": q} for s, b, q in names]
    info = INFO.read(msgspec.json.encode({"symbols": rows, "rateLimits": []}), 0)

    assert [str(each) for each in info.symbols] == ["BTC/USDT", "ETH/USDT"]


class Fragments:
    """A server of WebSockets that sends one message in so many pieces."""

    def __init__(self, count: int, payload: bytes = b"x") -> None:
        self.done = asyncio.Event()
        piece = bytes([_MORE, len(payload)]) + payload
        first = bytes([_TEXT, len(payload)]) + payload
        self._said = first + piece * (count - 2) + bytes([_MORE | _LAST, len(payload)]) + payload

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in head.split(b"\r\n") if b"websocket-key" in line.lower())
        digest = hashlib.sha1(key.partition(b":")[2].strip() + _ACCEPT).digest()
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n" + self._said
        )
        with suppress(ConnectionError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        self.done.set()


async def cpu_to_take(server: Fragments) -> tuple[float, list[bytes]]:
    """Seconds of CPU until a message has arrived or the socket was closed, and what arrived."""
    clock, came = SystemClock(), asyncio.Event()
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        begun = time.thread_time()
        owner = SocketOwner(lambda _: came.set(), 500, clock.now_ns)
        socket = await open_socket(f"ws://127.0.0.1:{port}/", owner)
        waits = [asyncio.create_task(came.wait()), asyncio.create_task(socket.ended())]
        await asyncio.wait(waits, timeout=2 * PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        took, frames = time.thread_time() - begun, socket.take()[0]
        await socket.close()
        await asyncio.wait_for(server.done.wait(), PATIENCE_S)
        waits[0].cancel()
        return took, frames


async def test_a_message_in_many_pieces_costs_as_much_as_its_pieces_and_not_their_square() -> None:
    few, frames = await cpu_to_take(Fragments(4_000))
    assert frames == [b"x" * 4_000]
    many, frames = await cpu_to_take(Fragments(32_000))
    assert frames == [b"x" * 32_000]

    # Eight times as many pieces; their square would cost 64 times as much. What a connection costs
    # by itself is added, so that a quick machine proves no less.
    assert many < 24 * (few + 0.01)


async def test_pieces_without_end_are_not_gathered_for_ever() -> None:
    _, frames = await cpu_to_take(Fragments(80_000, b""))

    assert frames == []


@pytest.mark.parametrize("said", [b"", b"\x00\xff" * 10_000, b"HTTP/1.1 101"])
async def test_who_hangs_up_in_the_handshake_is_not_taken_for_a_connection(said: bytes) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()
        await writer.wait_closed()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with listening:
        url = f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        with pytest.raises(ConnectFailed):
            await open_socket(url, SocketOwner(lambda _: None, 500, SystemClock().monotonic_ns))


async def test_methods_that_clients_invent_do_not_grow_the_metrics(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    async with served(store, Api(port=0)) as api:
        for method in ("PROPFIND", "MKCOL", "SEARCH"):
            assert (await api.ask(method, "connectors")).status == 405
        # A parser other than the usual one hands on whatever is spelled like a method.
        for number in range(10_000):
            fact = RequestServed(method=f"M{number}", path="/", status=405, took_ms=0)
            api.app_state.metrics(fact)
        text = (await api.ask("GET", "/metrics")).body.decode()
    await store.close()

    assert 'penstock_api_requests_total{method="other",status="405"} 10003.0' in text
    assert len(text) < 100_000
