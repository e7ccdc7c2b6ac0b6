"""A flood: a server that sends so many frames a second, numbered one by one, to all who ask.

Every tick's frames are encoded once and go to every connection as they are, so that one core has
enough left for others. Trades and updates of books are numbered without a hole; what was sent last
can be asked for, and the flood can be stopped.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import msgspec
from aiohttp import WSMsgType, web

from penstock.simulator.engine.wire import TEXT, encode_all

MARKETS = 10
TICK_S = 0.01


def trade(market: int, number: int) -> bytes:
    native = f"SIM{market}USDT"
    return (
        f'{{"stream":"{native.lower()}@trade","data":{{"e":"trade","E":1,"s":"{native}",'
        f'"t":{number},"p":"1.50","q":"2.00","T":1,"m":true,"M":true}}}}'
    ).encode()


def update(market: int, number: int) -> bytes:
    native = f"SIM{market}USDT"
    return (
        f'{{"stream":"{native.lower()}@depth@100ms","data":{{"e":"depthUpdate","E":1,'
        f'"s":"{native}","U":{number},"u":{number},"b":[["{number % 7 + 1}.00","{number}.00"]],'
        f'"a":[]}}}}'
    ).encode()


class Flood:
    """All connections, and how far every market is; they are all as far."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self.at = 0
        """The newest trade and update of every market."""
        self.stopped = asyncio.Event()
        self.connections = 0
        self._listening: set[web.WebSocketResponse] = set()

    async def stream(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        self.connections += 1
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    asked = msgspec.json.decode(message.data)
                    await socket.send_str(f'{{"result":null,"id":{asked["id"]}}}')
                    self._listening.add(socket)
        finally:
            self._listening.discard(socket)
        return socket

    async def answer(self, request: web.Request) -> web.Response:
        if "stop" in request.query:
            self.stopped.set()
        return web.json_response({"at": self.at, "connections": self.connections})

    async def run(self, _: web.Application) -> AsyncIterator[None]:
        running = asyncio.create_task(self._run())
        yield
        running.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, sent = loop.time(), 0
        while not self.stopped.is_set():
            await asyncio.sleep(TICK_S)
            frames: list[bytes] = []
            while sent < (loop.time() - began_s) * self.per_second and not self.stopped.is_set():
                self.at += 1
                frames += [trade(market, self.at) for market in range(MARKETS)]
                frames += [update(market, self.at) for market in range(MARKETS)]
                sent += 2 * MARKETS
            encoded = encode_all(frames, TEXT)
            for socket in self._listening:
                assert socket._req is not None
                if socket._req.transport is not None and not socket._req.transport.is_closing():
                    socket._req.transport.write(encoded)


async def serve(per_second: int) -> None:
    app, flood = web.Application(), Flood(per_second)
    app.router.add_get("/stream", flood.stream)
    app.router.add_get("/at", flood.answer)
    app.cleanup_ctx.append(flood.run)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("http://{}:{}".format(*runner.addresses[0][:2]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
