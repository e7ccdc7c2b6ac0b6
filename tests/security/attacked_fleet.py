"""An API, a simulator and a collector under attack for a while, and how they stood it."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from tests.waiting import PATIENCE_S

from penstock.cli.processes import running
from penstock.collect.status import CollectorStatus, read_all

from .attackers import Attackers, HostileMiddle

SYMBOLS = ("btc_usdt", "eth_usdt")
_API_PATHS = ("/api/v1/connectors?limit={}", "/api/v1/jobs?after={}", "/api/v1/jobs/{}", "/metrics")
_LIMITS = (
    "BINANCE_WEIGHT_LIMIT",
    "BINANCE_RAW_LIMIT",
    "BINANCE_CONNECT_LIMIT",
    "REFUSALS_BEFORE_BAN",
)
_SIM_PATHS = (
    "/ws", "/stream?streams={}", "/api/v3/depth?symbol=BTCUSDT&limit={}",
    "/api/v3/klines?symbol=BTCUSDT&interval=1m&startTime={}", "/_sim/ledger/trades?from_id={}",
    "/_sim/faults",
)  # fmt: skip


@dataclass
class Victim:
    """A process, and its memory."""

    name: str
    process: asyncio.subprocess.Process
    before_kb: int = 0
    most_kb: int = 0

    def resident_kb(self) -> int:
        assert self.process.returncode is None, f"the {self.name} has died"
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@dataclass
class AttackedFleet:
    """Everything that is under attack, and who attacks."""

    folder: Path
    seed: int
    victims: list[Victim] = field(default_factory=list)

    async def run(self, seconds: float) -> dict[str, Any]:
        """Start all, attack for so long, and see whether all is right afterwards."""
        async with AsyncExitStack() as stack:
            listing = ("--symbols", ",".join(SYMBOLS), "--port", "0")
            sim, api = await asyncio.gather(
                self._started(stack, "simulator", "sim", "binance", *listing),
                self._started(stack, "API", "serve", "--port", "0"),
            )
            middle = HostileMiddle(self.seed, sim)
            await middle.start()
            stack.push_async_callback(middle.stop)
            await self._collector(stack, f"http://127.0.0.1:{middle.port}")
            http = await stack.enter_async_context(
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
            )
            await self._until(self._collects, "the collector began")
            made = await self._ask(http, api, "connectors", {"exchange_id": "kraken"})
            for victim in self.victims:
                victim.before_kb = victim.resident_kb()
            attacks = await self._attack(api, sim, middle, seconds)
            trades = self._trades()
            await self._until(
                lambda: self._collects() and self._trades() > trades, "the collector went on"
            )
            kept = await self._ask(http, api, "connectors/kraken")
            assert kept["creation_date"] == made["creation_date"], "the API keeps what it had"
            await self._simulator_is_right(http, sim)
            memory = {v.name: (v.before_kb, v.most_kb, v.resident_kb()) for v in self.victims}
            findings = await self._judged(f"http://127.0.0.1:{sim}")
            return {"attacks": attacks, "memory_kb": memory, "findings": findings}

    async def _attack(
        self, api: int, sim: int, middle: HostileMiddle, seconds: float
    ) -> dict[str, int]:
        until_s = asyncio.get_running_loop().time() + seconds
        attackers = [
            Attackers(self.seed + 1, api, _API_PATHS), Attackers(self.seed + 2, sim, _SIM_PATHS)
        ]  # fmt: skip
        middle.hostile = True
        middle.cut()
        watching = asyncio.create_task(self._watch(middle))
        await asyncio.gather(*(each.attack(until_s) for each in attackers))
        watching.cancel()
        middle.hostile = False
        middle.cut()
        attacks = middle.attacks.copy()
        for each in attackers:
            attacks.update(each.attacks)
        return dict(attacks)

    async def _watch(self, middle: HostileMiddle) -> None:
        for tenth in count(1):
            if tenth % 10 == 0:  # The collector comes back, and meets something else.
                middle.cut()
            for victim in self.victims:
                victim.most_kb = max(victim.most_kb, victim.resident_kb())
            await asyncio.sleep(0.1)

    async def _started(self, stack: AsyncExitStack, name: str, *words: str) -> int:
        """Start a server; its port."""
        own = {"PENSTOCK_COLLECT_DATA_DIR": str(self.folder / name)}
        # All come from one address: nobody shall be banned for what others do.
        own |= {f"PENSTOCK_SIMULATOR_{limit}": "100000000" for limit in _LIMITS}
        process = await stack.enter_async_context(running([*words, "--json"], own))
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        self.victims.append(Victim(name, process))
        return int(json.loads(line)["listening"].rpartition(":")[2].rstrip("/"))

    async def _collector(self, stack: AsyncExitStack, address: str) -> None:
        own = {
            "PENSTOCK_EXCHANGES_REST_URLS": f"binance={address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance={address}",
            "PENSTOCK_BUS_PUBLISH": "",
            "PENSTOCK_COLLECT_BOOK_EVERY": "1",
            # Silence is noticed and given up soon, so that the attack is met in all its kinds.
            "PENSTOCK_COLLECT_RETRY_MULTIPLIER": "1",
            # To the circuit breaker the attack is an exchange that fails: it goes on soon after.
            "PENSTOCK_BREAKER_COOLDOWN": "2",
        }
        words = ["collect", "binance", *SYMBOLS, "--data-dir", str(self.folder), "--json"]
        process = await stack.enter_async_context(running(words, own))
        self.victims.append(Victim("collector", process))

    def _status(self) -> CollectorStatus | None:
        return next(iter(read_all(self.folder)), None)

    def _collects(self) -> bool:
        status = self._status()
        books = status.books if status is not None else []
        return len(books) == len(SYMBOLS) and all(each.state == "synced" for each in books)

    def _trades(self) -> int:
        status = self._status()
        last = [each.seen[-1][1] for each in (status.ids if status else []) if each.seen]
        return sum(last)

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        give_up_s = asyncio.get_running_loop().time() + PATIENCE_S
        while not true():
            assert asyncio.get_running_loop().time() < give_up_s, f"not so: {what}"
            for victim in self.victims:
                victim.resident_kb()
            await asyncio.sleep(0.1)

    async def _ask(
        self, http: aiohttp.ClientSession, port: int, path: str, body: object = None
    ) -> Any:
        method = "GET" if body is None else "POST"
        async with http.request(
            method, f"http://127.0.0.1:{port}/api/v1/{path}", json=body
        ) as answer:
            assert answer.status in (200, 201), await answer.text()
            return await answer.json()

    async def _simulator_is_right(self, http: aiohttp.ClientSession, port: int) -> None:
        async with http.get(f"http://127.0.0.1:{port}/_sim/state") as answer:
            state = await answer.json()
        assert state["failures"] == 0, state
        async with http.post(f"http://127.0.0.1:{port}/_sim/unban") as answer:
            assert answer.status == 200
        async with http.get(f"http://127.0.0.1:{port}/api/v3/time") as answer:
            assert answer.status == 200

    async def _judged(self, address: str) -> dict[str, Any]:
        """Stop the collector, and compare what it recorded with what happened."""
        collector = self.victims.pop().process
        collector.terminate()
        assert await asyncio.wait_for(collector.wait(), PATIENCE_S) == 0
        words = ["judge", address, "--data-dir", str(self.folder), "--json"]
        async with running(words, {}) as court:
            assert court.stdout is not None
            findings: dict[str, Any] = json.loads(await court.stdout.read())
            await court.wait()
        return findings


def check(report: dict[str, Any]) -> None:
    """All were alive: here, what they took and whether they were right."""
    for name, (before_kb, most_kb, after_kb) in report["memory_kb"].items():
        assert max(most_kb, after_kb) <= 2 * before_kb, (name, report)
    findings = report["findings"]
    assert findings["trades"] > 0, report
    assert findings["books_checked"] > 0, report
    wrongs = (
        "trades_duplicated",
        "trades_wrong",
        "gaps_unlisted",
        "gaps_untrue",
        "book_mismatches",
    )
    assert not any(findings[wrong] for wrong in wrongs), report
