"""What one simulator process serves on one core.

The server has a core to itself and the load another, so that the one does not slow the other.
Figures are of wall time; next to them stands what the server's CPU spent, which other work on the
machine moves far less. The load reads bytes and decodes nothing but lengths.
"""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.request import urlopen

from bench._process import cpu_s, rss_mb

SYMBOLS = ("BTCUSDT", "ETHUSDT", "BNBUSDT")
DAY_MS = 86_400_000
ROWS = 1000
IN_FLIGHT = 8
PAGES_PER_ENDPOINT = 250
GROWTH_ROUNDS, GROWTH_PAGES = 15, 20
STREAM_KINDS = ("trade", "aggTrade", "bookTicker", "depth@100ms")
CLIENTS = (1, 100, 400)
STREAM_SECONDS, SETTLING_SECONDS = 3.0, 1.0
IN_TIME_MS = 100
"""A server that is later than this does not keep up."""

# No limit is what is measured here; the least latency that can be set keeps the load small.
SETTINGS = {
    "BINANCE_WEIGHT_LIMIT": 1_000_000_000,
    "BINANCE_RAW_LIMIT": 1_000_000_000,
    "BINANCE_CONNECT_LIMIT": 1_000_000,
    "BINANCE_PING_EVERY": 600,
    "BINANCE_PONG_WITHIN": 600,
    "UPLINK_MS": 0,
    "LATENCY_MS": 1,
}

Page = Callable[[], str]
"""The path of one page, another one at each call."""


@dataclass(frozen=True)
class Server:
    """The simulator's process, from outside."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """What all its threads have spent so far."""
        return cpu_s(self.pid)

    def rss_mb(self) -> float:
        """Memory it holds."""
        return rss_mb(self.pid)

    def ask(self, question: str) -> Any:
        """Ask the simulator about itself or the truth."""
        with urlopen(f"http://127.0.0.1:{self.port}/_sim/{question}", timeout=30) as answer:
            return json.load(answer)


@contextmanager
def listening(process: subprocess.Popen[bytes]) -> Iterator[Server]:
    """The server of a process that prints its address first; terminated in the end."""
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        yield Server(process.pid, int(address.rpartition(":")[2]))
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def serving() -> Iterator[Server]:
    """Start the server on the first core and move this process to the last."""
    cores = sorted(os.sched_getaffinity(0))
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
    }
    settings = {f"PENSTOCK_SIMULATOR_{name}": str(value) for name, value in SETTINGS.items()}
    os.sched_setaffinity(0, {cores[0]})  # inherited by the server
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "sim", "--port", "0", "--symbols", "all", "--json"],
        env={**outside, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    os.sched_setaffinity(0, {cores[-1]})
    try:
        with listening(process) as server:
            yield server
    finally:
        os.sched_setaffinity(0, cores)


@dataclass(frozen=True)
class Spent:
    """What some pages took."""

    pages: int
    wall_s: float
    cpu_s: float

    @property
    def pages_per_s(self) -> float:
        return round(self.pages / self.wall_s, 1)

    @property
    def cpu_ms_per_page(self) -> float:
        return round(1000 * self.cpu_s / self.pages, 3)


async def fetch(server: Server, page: Page, pages: int) -> Spent:
    """Ask for so many pages, several at a time, each connection one after the other."""
    left = iter(range(pages))
    cpu_s, start_s = server.cpu_s(), time.monotonic()
    await asyncio.gather(*(_ask_on_one_connection(server, page, left) for _ in range(IN_FLIGHT)))
    return Spent(pages, time.monotonic() - start_s, server.cpu_s() - cpu_s)


async def _ask_on_one_connection(server: Server, page: Page, left: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 20)
    for _ in left:
        writer.write(f"GET {page()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        if not head.startswith(b"HTTP/1.1 200") or len(body) < 50 * ROWS:
            raise RuntimeError(f"that was no page: {head[:80]!r} {body[:200]!r}")
    writer.close()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].split(None, 1)[0])


class Pages:
    """Paths of pages of history, drawn at random so that none comes twice."""

    def __init__(self, server: Server) -> None:
        self._random = random.Random(1)
        self._now_ms = server.ask("state")["at_ms"]
        self._ids: dict[tuple[str, int], int] = {}
        for symbol in SYMBOLS:
            slug = f"{symbol[:3].lower()}_usdt"
            for days in (1, 365):
                at_ms = self._now_ms - days * DAY_MS
                ids = server.ask(f"ledger/ids?symbol={slug}&at_ms={at_ms}")
                self._ids[symbol, days] = ids["next_trade_id"]

    def klines(self, interval: str = "1m", days: int = 365) -> str:
        """Candles from about so many days ago."""
        start_ms = self._now_ms - days * DAY_MS - self._random.randrange(DAY_MS)
        query = f"interval={interval}&startTime={start_ms}&limit={ROWS}"
        return f"/api/v3/klines?symbol={self._random.choice(SYMBOLS)}&{query}"

    def trades(self, days: int = 365) -> str:
        """Raw trades from about so many days ago."""
        symbol = self._random.choice(SYMBOLS)
        from_id = self._ids[symbol, days] - self._random.randrange(100_000)
        return f"/api/v3/historicalTrades?symbol={symbol}&fromId={from_id}&limit={ROWS}"

    def agg_trades(self) -> str:
        """Aggregate trades from about a year ago."""
        start_ms = self._now_ms - 365 * DAY_MS - self._random.randrange(DAY_MS)
        symbol = self._random.choice(SYMBOLS)
        return f"/api/v3/aggTrades?symbol={symbol}&startTime={start_ms}&limit={ROWS}"

    def mixed(self) -> str:
        """Candles or trades."""
        return self._random.choice((self.klines, self.trades))()


async def measure_pages(server: Server, pages: Pages) -> dict[str, object]:
    """Pages a second: candles and trades mixed, and each endpoint alone."""
    await fetch(server, pages.mixed, 50)  # connections and code paths are warm
    kinds: dict[str, Page] = {
        "klines_1m": pages.klines,
        "klines_1h": lambda: pages.klines("1h", 2000),
        "historicalTrades": pages.trades,
        "aggTrades": pages.agg_trades,
    }
    mixed = await fetch(server, pages.mixed, 2 * PAGES_PER_ENDPOINT)
    alone = {name: await fetch(server, page, PAGES_PER_ENDPOINT) for name, page in kinds.items()}
    return {
        "rest_pages_per_s": mixed.pages_per_s,
        "rest_cpu_ms_per_page": mixed.cpu_ms_per_page,
        "pages_per_s": {name: spent.pages_per_s for name, spent in alone.items()},
        "cpu_ms_per_page": {name: spent.cpu_ms_per_page for name, spent in alone.items()},
    }


async def measure_growth(server: Server, pages: Pages) -> dict[str, object]:
    """What a page from a year ago costs against one from a day ago, round by round."""
    kinds: dict[str, Callable[..., str]] = {
        "klines": pages.klines,
        "trades": pages.trades,
    }
    growth: dict[str, float] = {}
    for name, page in kinds.items():
        ratios = []
        for turn in range(GROWTH_ROUNDS):
            # Whichever comes second finds warmer caches, so they take turns.
            cost = {}
            for days in (365, 1) if turn % 2 else (1, 365):
                spent = await fetch(server, partial(page, days=days), GROWTH_PAGES)
                cost[days] = spent.cpu_s
            ratios.append(cost[365] / cost[1])
        growth[name] = round(statistics.median(ratios), 3)
    return {"page_cost_growth": max(growth.values()), "page_cost_growth_of": growth}


@dataclass
class Counter:
    """Frames received, by their headers."""

    frames: int = 0
    bytes: int = 0
    transports: list[asyncio.BaseTransport] = field(default_factory=list)


class Listener(asyncio.Protocol):
    """A stream client that reads frames and looks at nothing but their lengths."""

    def __init__(self, request: bytes, counter: Counter) -> None:
        self._request, self._counter = request, counter
        self._upgraded, self._rest, self._skip = False, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._counter.transports.append(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._upgraded:
            head, found, data = (self._rest + data).partition(b"\r\n\r\n")
            self._rest = b"" if found else head
            self._upgraded = bool(found)
        self._counter.bytes += len(data)
        self._count(self._rest + data if self._rest and self._upgraded else data)

    def _count(self, data: bytes) -> None:
        # Of a payload that spans reads, only what is still to come is remembered.
        place, end, frames = self._skip, len(data), 0
        while place + 2 <= end:
            size, header = data[place + 1], 2
            if size == 126:
                if place + 4 > end:
                    break
                size, header = data[place + 2] << 8 | data[place + 3], 4
            elif size == 127:
                if place + 10 > end:
                    break
                size, header = int.from_bytes(data[place + 2 : place + 10], "big"), 10
            frames += 1
            place += header + size
        self._counter.frames += frames
        self._skip = max(0, place - end)
        self._rest = data[place:] if place < end else b""


async def listen(server: Server, clients: int, streams: str) -> Mapping[str, float]:
    """Frames a second that so many clients get together, and what they cost the server."""
    counter, loop = Counter(), asyncio.get_running_loop()
    request = (
        f"GET /stream?streams={streams} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    for _ in range(clients):
        await loop.create_connection(lambda: Listener(request, counter), "127.0.0.1", server.port)
    await asyncio.sleep(SETTLING_SECONDS)
    before = (counter.frames, counter.bytes, server.cpu_s(), time.monotonic())
    sent_before = (await asyncio.to_thread(server.ask, "state"))["frames_sent"]
    await asyncio.sleep(STREAM_SECONDS)
    state = await asyncio.to_thread(server.ask, "state")
    frames, read, cpu_s, wall_s = (
        now - then
        for now, then in zip(
            (counter.frames, counter.bytes, server.cpu_s(), time.monotonic()), before, strict=True
        )
    )
    for transport in counter.transports:
        transport.close()
    return {
        "clients": clients,
        "frames_per_s": round(frames / wall_s),
        "sent_per_s": round((state["frames_sent"] - sent_before) / wall_s),
        "mb_per_s": round(read / wall_s / 1e6, 1),
        "cpu_share": round(cpu_s / wall_s, 3),
        "cpu_us_per_frame": round(1e6 * cpu_s / max(1, frames), 2),
        "lag_ms": state["lag_ms"],
        "slow_clients": state["slow_clients"],
    }


async def measure_streams(server: Server) -> dict[str, object]:
    """The most frames a second that the server still sends in time."""
    info = await asyncio.to_thread(_symbols, server)
    streams = "/".join(f"{name}@{kind}" for name in info for kind in STREAM_KINDS)
    steps = []
    for clients in CLIENTS:
        step = await listen(server, clients, streams)
        print(f"   {json.dumps(step)}", flush=True)
        steps.append(step)
        if step["lag_ms"] > IN_TIME_MS:
            break
    in_time = [step for step in steps if step["lag_ms"] <= IN_TIME_MS] or steps
    best = max(in_time, key=lambda step: step["frames_per_s"])
    return {
        "frames_per_s": best["frames_per_s"],
        "streams": len(info) * len(STREAM_KINDS),
        "frames_at_best": best,
        "frames_of_one_client": steps[0],
    }


def _symbols(server: Server) -> list[str]:
    with urlopen(f"http://127.0.0.1:{server.port}/api/v3/exchangeInfo", timeout=30) as answer:
        listed = json.load(answer)["symbols"]
    return [each["symbol"].lower() for each in listed if each["symbol"].isascii()]


async def measure(server: Server) -> dict[str, object]:
    """Everything, one after the other."""
    pages = Pages(server)
    figures = await measure_pages(server, pages)
    figures |= await measure_growth(server, pages)
    figures |= await measure_streams(server)
    return {**figures, "rss_mb": server.rss_mb()}


def main() -> Mapping[str, object]:
    """Start a server, measure it, stop it."""
    with serving() as server:
        return asyncio.run(measure(server))
