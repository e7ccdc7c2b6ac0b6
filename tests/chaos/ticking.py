"""Four simulated exchanges, a Redis, a ticker daemon, and what is known of each of them."""

import asyncio
import json
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from tests.servers import RedisServer, free_port
from tests.waiting import PATIENCE_S

from penstock.cli.processes import running
from penstock.errors import StorageError
from penstock.live import ProcessCache, ProcessInfo, ProcessType, TickCache
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.storage.state import open_store
from penstock.tickers import TickerSymbol, TickerSymbols

QUOTES = {"binance": "usdt", "coinbase": "usd", "kraken": "usd", "upbit": "krw"}
"""The simulated exchanges, and the quote currency of their generated markets."""
TICKERS = "*icker*"
"""All streams of tickers, as the exchanges name them."""
POLL_S = 0.1
SLACK_S = 0.5
"""How much later than it should a busy machine may do something."""
_SET = re.compile(rb'"SET" "penstock:processes:([^"]+)" ".*?\\"status\\":\\"(\w+)\\"')


@dataclass
class Market:
    """One exchange."""

    exchange: str
    address: str
    symbols: Sequence[Symbol]
    subscribed_ms: int = 0
    """From then on every tick is received."""
    unsent: list[tuple[int, int]] = field(default_factory=list)
    """The times in which nothing was sent."""

    async def ask(self, http: aiohttp.ClientSession, question: str, **parameters: Any) -> Any:
        async with http.get(f"{self.address}/_sim/{question}", params=parameters) as answer:
            answer.raise_for_status()
            return await answer.json(content_type=None)

    async def hold(self, http: aiohttp.ClientSession, where: str) -> int:
        """Let streams stand still; return since when, once everything before that was sent."""
        body = json.dumps({"streams": where})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            async with http.post(f"{self.address}/_sim/hold", data=body) as answer:
                assert answer.status == 200, await answer.text()
                told = await answer.json(content_type=None)
            if not told["behind_ms"]:
                at_ms: int = told["at_ms"]
                return at_ms
            assert time.monotonic() < deadline, told
            await asyncio.sleep(0.01)

    async def truth(self, http: aiohttp.ClientSession, at_ms: int) -> dict[str, dict[str, Any]]:
        """The true ticker of every symbol at a time, by key."""
        found = {}
        for symbol in self.symbols:
            told = await self.ask(http, "ledger/ticker", symbol=symbol.slug, at_ms=at_ms)
            found[f"{self.exchange}:{symbol.unified}"] = told
        return found

    def must_have(self, truth: Mapping[str, Any], ttl_s: float) -> bool:
        """Whether the daemon has received a tick that has not expired by now."""
        traded_ms, now_ms = truth["trade"]["at_ms"], time.time_ns() // 1_000_000
        oldest_ms = now_ms - (ttl_s - SLACK_S) * 1000
        return traded_ms > max(self.subscribed_ms, oldest_ms) and not self.was_unsent(traded_ms)

    def was_unsent(self, at_ms: int) -> bool:
        return any(since_ms < at_ms <= until_ms for since_ms, until_ms in self.unsent)


def differs(ticker: Ticker, truth: Mapping[str, Any]) -> bool:
    """Whether a value of a tick is not the true one; exchanges do not send all of them."""
    (bid, bid_quantity), (ask, ask_quantity) = truth["bid"], truth["ask"]
    pairs = (
        (ticker.last_text, truth["trade"]["price"]),
        (ticker.bid_text, bid),
        (ticker.bid_quantity_text, bid_quantity),
        (ticker.ask_text, ask),
        (ticker.ask_quantity_text, ask_quantity),
    )
    return any(text is not None and Decimal(text) != Decimal(true) for text, true in pairs)


class EntryWrites(threading.Thread):
    """Counts writes of entries in the process cache, as the server itself lists them (MONITOR)."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.ended = threading.Event()
        self.writes: dict[str, int] = defaultdict(int)
        self.beats: dict[str, int] = defaultdict(int)
        """Those that repeat the status, by component."""
        self.connected = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._port), 1.0) as connection:
                    connection.sendall(b"MONITOR\r\n")
                    self._listen(connection)
            except OSError:
                time.sleep(0.01)

    def _listen(self, connection: socket.socket) -> None:
        rest, before = b"", dict[bytes, bytes]()  # a restarted server knows no entry
        while not self.ended.is_set():
            try:
                received = connection.recv(1 << 20)
            except TimeoutError:
                continue
            if not received:
                return
            self.connected.set()
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                if b":processes:" in line and (found := _SET.search(line)):
                    component, status = found[1], found[2]
                    self.writes[component.decode()] += 1
                    self.beats[component.decode()] += before.get(component) == status
                    before[component] = status


@dataclass
class Watch:
    """What a reader sees, all the time."""

    ttl_s: float
    stale_s: float
    polls: int = 0
    unanswered: int = 0
    oldest_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)

    async def run(self, cache: TickCache, pid: int) -> None:
        while True:
            self.rss_mb.append(rss_mb(pid))
            await self._poll(cache)
            await asyncio.sleep(POLL_S)

    async def _poll(self, cache: TickCache) -> None:
        asked_ns = time.time_ns()
        try:
            ticks = await cache.get_all()
        except StorageError:
            self.unanswered += 1
            return
        self.polls += 1
        for tick in ticks:
            # All clocks here are that of one machine, so an age can be checked.
            age_s = (asked_ns - tick.ticker.received_at_ns) / 1e9
            self.oldest_s = max(self.oldest_s, age_s)
            if age_s > self.ttl_s + SLACK_S:
                self.wrong.append(f"{tick.key} is served after {age_s:.1f} s")
            elif age_s > self.stale_s + SLACK_S and not tick.stale:
                self.wrong.append(f"{tick.key} is not stale after {age_s:.1f} s")


def rss_mb(pid: int) -> float:
    """The memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


@dataclass
class Scene:
    """Everything that runs."""

    http: aiohttp.ClientSession
    redis: RedisServer
    markets: Sequence[Market]
    daemon: asyncio.subprocess.Process
    cache: TickCache
    processes: ProcessCache
    ttl_s: float
    metrics_port: int

    @property
    def unsent_s(self) -> float:
        """How long nothing was sent, in all, up to the last release."""
        return sum(until_ms - since_ms for since_ms, until_ms in self.markets[0].unsent) / 1000

    async def hold(self) -> dict[str, dict[str, Any]]:
        """Let all tickers stand still; return the truth about every symbol, by key."""
        truth: dict[str, dict[str, Any]] = {}
        held = await asyncio.gather(*(each.hold(self.http, TICKERS) for each in self.markets))
        for market, at_ms in zip(self.markets, held, strict=True):
            market.unsent.append((at_ms, 1 << 62))
        found = await asyncio.gather(
            *(each.truth(self.http, at_ms) for each, at_ms in zip(self.markets, held, strict=True))
        )
        for each in found:
            truth |= each
        return truth

    async def release(self) -> None:
        """Let them go on."""
        for market in self.markets:
            until_ms = await market.hold(self.http, "")
            since_ms, _ = market.unsent.pop()
            market.unsent.append((since_ms, until_ms))

    async def wrong(self, truth: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Which symbols do not have their true last value."""
        ticks = {each.key: each.ticker for each in await self.cache.get_all()}
        wrong = []
        for market in self.markets:
            for symbol in market.symbols:
                key = f"{market.exchange}:{symbol.unified}"
                true, ticker = truth[key], ticks.get(key)
                if ticker is None and market.must_have(true, self.ttl_s):
                    wrong.append(f"{key} is missing")
                # What was traded while nothing was sent, nobody could know.
                elif (
                    ticker is not None
                    and not market.was_unsent(true["trade"]["at_ms"])
                    and differs(ticker, true)
                ):
                    wrong.append(f"{key} is {ticker.summary}, and not {true}")
        return wrong

    async def until_true(self, truth: Mapping[str, Mapping[str, Any]], within_s: float) -> float:
        """Wait until every symbol has its true last value; return how long it took."""
        began = time.monotonic()
        while True:
            try:
                wrong = await self.wrong(truth)
            except StorageError as error:
                wrong = [str(error)]
            took_s = time.monotonic() - began
            if not wrong:
                return took_s
            assert took_s < within_s, f"{len(wrong)} after {took_s:.1f} s: {wrong[:3]}"
            await asyncio.sleep(POLL_S)

    async def until_entry(self, component: str, holds: Callable[[ProcessInfo], bool]) -> None:
        """Wait until something holds of an entry."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = await self.processes.get_processes(ProcessType.TICK)
            entry = {each.component: each for each in found}.get(component)
            if entry is not None and holds(entry):
                return
            assert time.monotonic() < deadline, entry
            await asyncio.sleep(POLL_S)

    async def metrics(self) -> dict[str, float]:
        """The daemon's metrics, by series."""
        async with self.http.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        rows = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {series: float(value) for series, _, value in rows}

    async def until_metric(self, series: str, *, above: float) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (await self.metrics()).get(series, 0.0) <= above:
            assert time.monotonic() < deadline, series
            await asyncio.sleep(POLL_S)

    async def frames_sent(self) -> dict[str, int]:
        told = [await each.ask(self.http, "state") for each in self.markets]
        return {each["exchange"]: each["frames_sent"] for each in told}


async def start(
    stack: AsyncExitStack, folder: Path, *, fast: int, quiet: int, settings: Mapping[str, str]
) -> Scene:
    """Start everything, and wait until every symbol is subscribed.

    Each exchange has ``fast`` markets with sixty trades a second, half as many where a trade is two
    ticks, and ``quiet`` ones with few.
    """
    http = await stack.enter_async_context(aiohttp.ClientSession())
    redis = stack.enter_context(RedisServer())
    markets = [
        await _simulate(stack, name, fast // 2 if name == "binance" else fast, quiet)
        for name in QUOTES
    ]
    await _add_symbols(folder, markets)
    urls = ",".join(f"{each.exchange}={each.address}" for each in markets)
    environment = {
        "PENSTOCK_EXCHANGES_REST_URLS": urls,
        "PENSTOCK_EXCHANGES_STREAM_URLS": urls,
        "PENSTOCK_LIVE_URL": redis.url,
        "PENSTOCK_METRICS_PORT": str(metrics_port := free_port()),
        **settings,
    }
    words = ["tickers", "--all", "--data-dir", str(folder), "--json"]
    daemon = await stack.enter_async_context(running(words, environment))
    ttl_s, stale_s = (
        float(settings[f"PENSTOCK_LIVE_{name}"]) for name in ("TICK_TTL", "STALE_AFTER")
    )
    cache = TickCache(redis.url, ttl_s=ttl_s, stale_after_s=stale_s)
    await stack.enter_async_context(cache)
    processes = await stack.enter_async_context(ProcessCache(redis.url))
    scene = Scene(http, redis, markets, daemon, cache, processes, ttl_s, metrics_port)
    await _until_subscribed(scene)
    return scene


async def _simulate(stack: AsyncExitStack, exchange: str, fast: int, quiet: int) -> Market:
    names = [f"FAST{number:02}" for number in range(1, fast + 1)]
    names += [f"SIM{number:03}" for number in range(1, quiet + 1)]
    symbols = [Symbol(name, QUOTES[exchange].upper()) for name in names]
    listed = ",".join(symbol.slug for symbol in symbols)
    words = ["sim", exchange, "--symbols", listed, "--port", "0", "--json"]
    simulator = await stack.enter_async_context(running(words, {}))
    assert simulator.stdout is not None
    line = await asyncio.wait_for(simulator.stdout.readline(), PATIENCE_S)
    return Market(exchange, json.loads(line)["listening"], symbols)


async def _add_symbols(folder: Path, markets: Sequence[Market]) -> None:
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    table = TickerSymbols(store)
    for market in markets:
        for symbol in market.symbols:
            await table.add(TickerSymbol(market.exchange, symbol))
    await store.close()


async def _until_subscribed(scene: Scene) -> None:
    deadline = time.monotonic() + PATIENCE_S
    for market in scene.markets:
        while True:
            told = (await market.ask(scene.http, "connections"))["open"]
            streams = [name for each in told for name in each["streams"] if "icker" in name]
            if len(streams) >= len(market.symbols):
                break
            assert scene.daemon.returncode is None, "the daemon has crashed"
            assert time.monotonic() < deadline, f"{market.exchange}: {len(streams)} streams"
            await asyncio.sleep(POLL_S)
        market.subscribed_ms = time.time_ns() // 1_000_000
