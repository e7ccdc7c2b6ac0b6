"""A toy exchange that speaks one WebSocket, and does on it whatever a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web
from tests.quick_limits import quick_kraken

__all__ = ["quick_kraken"]

Behaviour = Callable[[web.WebSocketResponse, int], Awaitable[None]]
"""What to do on a connection that was just opened and has asked for its streams; which it is."""


def trade_frame(number: int, native: str = "BTCUSDT") -> str:
    return (
        f'{{"stream":"{native.lower()}@trade","data":{{"e":"trade","E":1,"s":"{native}",'
        f'"t":{number},"p":"1.50","q":"2.00","T":1,"m":true,"M":true}}}}'
    )


def delta_frame(first: int, final: int, native: str = "BTCUSDT") -> str:
    return (
        f'{{"stream":"{native.lower()}@depth@100ms","data":{{"e":"depthUpdate","E":1,'
        f'"s":"{native}","U":{first},"u":{final},"b":[["1.00","2.00"]],"a":[["3.00","1.00"]]}}}}'
    )


@dataclass
class ToyExchange:
    """Listens on a port of its own; remembers when it was connected to."""

    behave: Behaviour
    refusals: int = 0
    """So many connections are refused first."""
    connected_at_s: list[float] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.connected_at_s.append(asyncio.get_running_loop().time())
        connection = len(self.connected_at_s)
        if connection <= self.refusals:
            return web.Response(status=503)
        # No autoping: a test that pings wants to see the pong.
        socket = web.WebSocketResponse(autoping=False, max_msg_size=0)
        await socket.prepare(request)
        asked = msgspec.json.decode((await socket.receive()).data)
        await socket.send_str(f'{{"result":null,"id":{asked["id"]}}}')
        await self.behave(socket, connection)
        return socket


Listen = Callable[[ToyExchange], Awaitable[None]]


@asynccontextmanager
async def listening() -> AsyncIterator[Listen]:
    """Let toy exchanges listen."""
    runners: list[web.AppRunner] = []

    async def start(exchange: ToyExchange) -> None:
        app = web.Application()
        app.router.add_get("/stream", exchange.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        exchange.url = f"http://{host}:{port}/stream"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Let a toy exchange listen for the length of a test."""
    async with listening() as start:
        yield start
