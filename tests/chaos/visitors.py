"""Clients of every kind for a simulator: many addresses, good and bad manners, from a seed."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote

import aiohttp

VALUES = (
    "", "0", "1", "-1", "1.5", "NaN", "inf", "1e30", "1" + "0" * 30, "9" * 5000, "null", "[]", "{}",
    "abc", "²", "%00", "17948575460670000", "9" * 18, "9" * 20, "4102444800", "4102444800000",
    "0001-01-01", "9999-12-31T23:59:59", "2500-01-01T00:00:00Z", "x" * 2000,
)  # fmt: skip
"""What no parameter is meant to be, and some that a few are."""
PLANS = (
    "",
    "drop=0.1,duplicate=0.1,reorder=0.1,delay=0.2",
    "malformed=0.05,nan=0.05,huge=0.05,lostack=0.3,refusedack=0.3",
    "cut=1s,close=2s,lifetime=3s",
    "shutdown=1s,mute=500ms",
    "http500=0.2,http429=0.1,http418=0.1,html=0.1,cutbody=0.2,stale=0.5,early=0.3",
    "latency=1ms..300ms,limit=50@1s",
)
_EXPECTED = (aiohttp.ClientError, ConnectionError, TimeoutError, OSError)
_PATIENCE = aiohttp.ClientTimeout(total=5)
_PIPELINED_S = 30.0
_PIPELINED = 25
"""Requests that a hurried client sends before it reads any answer."""


@dataclass(frozen=True)
class Manners:
    """How an exchange is spoken to."""

    streams: str
    """The path of its streams."""
    messages: Sequence[str]
    """Subscriptions and their ends; the first is to much traffic."""
    requests: Sequence[str]
    """Paths, some with a place for a value that makes no sense."""


def _messages(*messages: object) -> list[str]:
    return [json.dumps(message) for message in messages]


MANNERS = {
    "binance": Manners(
        "/ws",
        _messages(
            {"method": "SUBSCRIBE", "id": 1, "params": [
                "btcusdt@depth@100ms", "btcusdt@trade", "btcusdt@bookTicker", "btcusdt@depth20",
            ]},
            {"method": "SUBSCRIBE", "id": 2, "params": ["ethusdt@kline_1m", "!miniTicker@arr"]},
            {"method": "UNSUBSCRIBE", "id": 3, "params": ["btcusdt@trade"]},
            {"method": "LIST_SUBSCRIPTIONS", "id": 1 << 70},
        ),
        [
            "/api/v3/depth?symbol=BTCUSDT&limit=5000",
            "/api/v3/depth?symbol=BTCUSDT&limit={}",
            "/api/v3/historicalTrades?symbol=BTCUSDT&limit=1000",
            "/api/v3/historicalTrades?symbol=BTCUSDT&fromId={}",
            "/api/v3/aggTrades?symbol=BTCUSDT&startTime={}",
            "/api/v3/aggTrades?symbol=BTCUSDT&fromId={}",
            "/api/v3/klines?symbol=ETHUSDT&interval=1s&limit=1000",
            "/api/v3/klines?symbol=ETHUSDT&interval=1M&startTime={}",
            "/api/v3/klines?symbol=ETHUSDT&interval=1m&endTime={}",
            "/api/v3/exchangeInfo", "/api/v3/ticker/24hr", "/api/v3/{}",
        ],
    ),
    "kraken": Manners(
        "/v2",
        _messages(
            {"method": "subscribe", "params": {
                "channel": "book", "depth": 1000, "symbol": ["BTC/USD", "ETH/USD"],
            }},
            {"method": "subscribe", "params": {"channel": "trade", "symbol": ["BTC/USD", "X/Y"]}},
            {"method": "unsubscribe", "params": {"channel": "trade", "symbol": ["BTC/USD"]}},
            {"method": "ping", "req_id": 1 << 70},
        ),
        [
            "/0/public/Depth?pair=XBTUSD&count=500", "/0/public/Depth?pair=XBTUSD&count={}",
            "/0/public/Trades?pair=XBTUSD", "/0/public/Trades?pair=XBTUSD&since={}",
            "/0/public/OHLC?pair=XBTUSD&since={}", "/0/public/OHLC?pair=XBTUSD&interval={}",
            "/0/public/Spread?pair=XBTUSD&since={}", "/0/public/AssetPairs?pair={}",
            "/0/public/Ticker", "/0/public/{}",
        ],
    ),
    "coinbase": Manners(
        "/",
        _messages(
            {"type": "subscribe", "product_ids": ["BTC-USD"], "channels": [
                "level2_batch", "matches", "ticker",
            ]},
            {"type": "subscribe", "product_ids": ["BTC-USD"] * 999, "channels": ["matches"] * 999},
            {"type": "unsubscribe", "channels": ["matches", "level2_batch"]},
            {"type": "subscribe", "product_ids": ["ETH-USD"], "channels": ["heartbeat"]},
        ),
        [
            "/products/BTC-USD/book?level=2", "/products/BTC-USD/book?level=3",
            "/products/BTC-USD/book?level={}",
            "/products/BTC-USD/trades?after={}", "/products/BTC-USD/trades?before={}",
            "/products/BTC-USD/trades?limit={}", "/products", "/products/spark-lines",
            "/products/BTC-USD/candles?granularity=60&start={}&end=9999-12-31",
            "/products/BTC-USD/candles?granularity=60&start=0&end={}",
            "/products/{}/stats", "/{}",
        ],
    ),
    "upbit": Manners(
        "/websocket/v1",
        _messages(
            [{"ticket": "a"}, {"type": "orderbook", "codes": ["KRW-BTC"]},
             {"type": "trade", "codes": ["KRW-BTC"]}, {"type": "ticker", "codes": ["KRW-BTC"]}],
            [{"ticket": "b"}, {"type": "orderbook", "codes": [f"KRW-BTC.{i}" for i in range(999)]}],
            [{"ticket": "c"}, {"method": "LIST_SUBSCRIPTIONS"}],
        ),
        [
            "/v1/orderbook?markets=KRW-BTC", f"/v1/orderbook?markets={'KRW-BTC,' * 999}KRW-ETH",
            "/v1/trades/ticks?market=KRW-BTC&count=500",
            "/v1/trades/ticks?market=KRW-BTC&cursor={}",
            "/v1/trades/ticks?market=KRW-BTC&to={}", "/v1/candles/months?market=KRW-BTC&to={}",
            "/v1/candles/seconds?market=KRW-BTC&count=200", "/v1/candles/minutes/{}?market=KRW-BTC",
            "/v1/ticker?markets=KRW-BTC", "/v1/{}",
        ],
    ),
}  # fmt: skip


@dataclass
class Visitors:
    """The clients of one simulator, each for a short time and from an address of its own."""

    exchange: str
    address: str
    draw: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    async def visit(
        self, seconds: float, rest: int, streams: int, silent: int, hurried: int
    ) -> None:
        """Let so many clients of each kind come at once, again and again."""
        kinds: list[Callable[[aiohttp.ClientSession], Awaitable[None]]] = [
            *[self._ask] * rest, *[self._listen] * streams, *[self._never_read] * silent,
            *[self._hurry] * hurried,
        ]  # fmt: skip
        until = asyncio.get_running_loop().time() + seconds
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await asyncio.gather(*map(self._repeat, kinds))

    async def _repeat(self, visit: Callable[[aiohttp.ClientSession], Awaitable[None]]) -> None:
        while True:
            connector = aiohttp.TCPConnector(local_addr=self._own_address())
            try:
                async with aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as http:
                    await visit(http)
            except _EXPECTED:
                self.counts["broken off"] += 1

    def _own_address(self) -> tuple[str, int]:
        return str(ip_address("127.0.0.0") + self.draw.randrange(1, 1 << 23)), 0

    def _path(self) -> str:
        path = self.draw.choice(MANNERS[self.exchange].requests)
        return path.replace("{}", quote(self.draw.choice(VALUES), safe=""))

    async def _ask(self, http: aiohttp.ClientSession) -> None:
        for _ in range(self.draw.randrange(1, 6)):
            self.counts["requests"] += 1
            async with http.get(self.address + self._path()) as answer:
                await answer.read()

    async def _listen(self, http: aiohttp.ClientSession) -> None:
        manners = MANNERS[self.exchange]
        self.counts["connections"] += 1
        async with http.ws_connect(self.address + manners.streams, max_msg_size=0) as socket:
            for _ in range(self.draw.randrange(1, 5)):
                await socket.send_str(self.draw.choice(manners.messages))
                await socket.receive(timeout=0.5)
            if self.draw.randrange(2):
                await socket.send_str(self.draw.choice(("{", "[" * 1000, "null", "\x00")))
                await socket.receive(timeout=0.5)

    async def _never_read(self, http: aiohttp.ClientSession) -> None:
        manners = MANNERS[self.exchange]
        self.counts["never read"] += 1
        async with http.ws_connect(self.address + manners.streams, autoping=False) as socket:
            # Nobody receives, so the client's buffers fill, and then the simulator's.
            host, port = self._host_and_port()
            _, writer = await asyncio.open_connection(host, port, limit=1024)
            writer.write(f"GET {manners.requests[0]} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            try:
                for number in range(self.draw.choice((10, 40, 300))):
                    await socket.send_str(manners.messages[number % len(manners.messages)])
                    await asyncio.sleep(0.3)
            finally:
                writer.transport.abort()

    async def _hurry(self, _: aiohttp.ClientSession) -> None:
        """Many small requests on one connection, so that logs fill sooner."""
        host, port = self._host_and_port()
        request = f"GET /nothing HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hurried\r\n"
        last = f"{request}Connection: close\r\n\r\n"
        async with asyncio.timeout(_PIPELINED_S):
            reader, writer = await asyncio.open_connection(
                host, port, local_addr=self._own_address()
            )
            try:
                writer.write((f"{request}\r\n" * (_PIPELINED - 1) + last).encode())
                answers = await reader.read(-1)
                self.counts["hurried requests"] += answers.count(b"HTTP/1.1 ")
            finally:
                writer.transport.abort()

    def _host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.removeprefix("http://").rpartition(":")
        return host, int(port)
