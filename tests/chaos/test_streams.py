"""Four exchanges whose streams fail in every way at once: nothing crashes, and nothing is wrong.

Each exchange has a simulator and a collector, all processes of their own. They start in calm, then
every fault a stream can have strikes at rates drawn from a seed, then it is calm again. What was
collected is held against the ledgers: books that were shown as synced, trades, and the list of what
is missing; what struck is known too, so that a book which began again without cause is found.
``make chaos-streams`` does the same for ten minutes; ``SEED=…`` repeats a run.
"""

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.waiting import PATIENCE_S

from penstock.cli.processes import running
from penstock.collect.status import CollectorStatus, read_status
from penstock.exchanges import registry as exchanges
from penstock.exchanges.symbol_map import SymbolMap
from penstock.simulator import registry
from penstock.simulator.market.listings import slug

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 24)
SYMBOLS = int(os.environ.get("PENSTOCK_TEST_SYMBOLS") or 4)
LIFE_S = min(60.0, max(12.0, SECONDS / 3))
"""About how long a connection lasts before one of several things ends it."""
FAULTS = (
    "drop=0.002,duplicate=0.005,reorder=0.002,delay=0.002,malformed=0.001,nan=0.001,huge=0.001,"
    f"cut={LIFE_S:.0f}s,close={1.5 * LIFE_S:.0f}s,shutdown={1.2 * LIFE_S:.0f}s,"
    f"lifetime={3 * LIFE_S:.0f}s,mute@*btc*trade|*trade/BTC*|matches:BTC*={0.7 * LIFE_S:.0f}s,"
    "lostack=0.05,refusedack=0.05"
)
START_S, CALM_S, POLL_S = PATIENCE_S, PATIENCE_S, 0.5
CONNECTS_A_MINUTE = 10
SPOILING = {"drop", "duplicate", "reorder", "delay", "malformed", "nan", "huge", "mute"}
"""What can make a single book begin again."""


@dataclass
class Subject:
    """One exchange under test."""

    exchange: str
    address: str
    folder: Path
    symbols: Sequence[str]
    collector: asyncio.subprocess.Process

    def status(self) -> CollectorStatus | None:
        return read_status(self.folder, f"collect-{self.exchange}")

    def not_synced(self) -> list[str]:
        """The books that are not, each with its reason."""
        status = self.status()
        if status is None or len(status.books) < len(self.symbols):
            return ["not all books are there yet"]
        return [
            f"{book.symbol} {book.state}: {book.reason}"
            for book in status.books
            if book.state != "synced"
        ]

    async def ask(self, http: aiohttp.ClientSession, question: str, **parameters: int) -> Any:
        async with http.get(f"{self.address}/_sim/{question}", params=parameters) as answer:
            answer.raise_for_status()
            return await answer.json(content_type=None)

    async def plan(self, http: aiohttp.ClientSession, faults: str) -> None:
        """From now on these strike."""
        body = json.dumps({"plan": faults, "seed": SEED})
        async with http.post(f"{self.address}/_sim/faults", data=body) as answer:
            assert answer.status == 200, await answer.text()

    async def everything(self, http: aiohttp.ClientSession, question: str, key: str) -> list[Any]:
        """All rows of a log that is told in pages."""
        rows: list[Any] = []
        while page := (await self.ask(http, question, after=rows[-1]["seq"] if rows else 0))[key]:
            rows += page
        return rows


def choose(exchange: str, count: int) -> list[str]:
    """So many of its markets; where it has too few, further ones made by a rule."""
    catalogue = registry.catalogue(exchange)
    listed = [slug(each) for each in catalogue.all()]
    quote = Counter(name.partition("_")[2] for name in listed).most_common(1)[0][0]
    made = [f"sim{number:03d}_{quote}" for number in range(1, count + 1)]
    return [*listed, *made][:count]


def token(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


def market_of(stream: str) -> str:
    """What a stream's name says of its market: btcusdt@depth, matches:BTC-USD, book/BTC/USD+…"""
    if "@" in stream:
        return token(stream.partition("@")[0])
    return token(re.split("[:/]", stream, maxsplit=1)[-1].partition("+")[0])


def spellings(name: str) -> set[str]:
    base, _, quote = name.partition("_")
    return {token(base + quote), token(quote + base)}


async def start(stack: AsyncExitStack, exchange: str, folder: Path) -> Subject:
    symbols = choose(exchange, SYMBOLS)
    listing = ["--symbols", ",".join(symbols), "--seed", str(SEED % 1000), "--port", "0", "--json"]
    simulator = await stack.enter_async_context(running(["sim", exchange, *listing], {}))
    assert simulator.stdout is not None
    line = await asyncio.wait_for(simulator.stdout.readline(), START_S)
    address = json.loads(line)["listening"]
    environment = {
        "PENSTOCK_EXCHANGES_REST_URLS": f"{exchange}={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"{exchange}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(folder),
        "PENSTOCK_COLLECT_BOOK_EVERY": "5" if SECONDS > 120 else "1",
        "PENSTOCK_STATE_URL": f"sqlite:{folder / 'state.db'}",
    }
    collector = await stack.enter_async_context(
        running(["collect", exchange, *symbols], environment)
    )
    return Subject(exchange, address, folder, symbols, collector)


async def until_synced(subjects: Sequence[Subject], timeout_s: float) -> None:
    give_up_s = time.monotonic() + timeout_s
    while wrong := {each.exchange: found for each in subjects if (found := each.not_synced())}:
        assert time.monotonic() < give_up_s, f"not synced after {timeout_s:g} s: {wrong}"
        await asyncio.sleep(POLL_S)


async def judge(subject: Subject) -> dict[str, Any]:
    words = ["judge", subject.address, "--data-dir", str(subject.folder), "--json"]
    async with running(words, {}) as court:
        assert court.stdout is not None
        output = await court.stdout.read()
        await court.wait()
    findings: dict[str, Any] = json.loads(output)
    return findings


def busiest_minute(connects_ms: Sequence[int]) -> int:
    """The most connects within any minute."""
    return max(
        (sum(0 <= other - at < 60_000 for other in connects_ms) for at in connects_ms), default=0
    )


def loss_shows(exchange: str) -> bool:
    """Whether a book of this exchange tells by itself that a change was lost."""
    return exchanges.load(exchange).dialect(SymbolMap(exchange, ())).books.shows_loss


async def report_on(subject: Subject, http: aiohttp.ClientSession) -> dict[str, Any]:
    """What became of one exchange, after its collector has stopped."""
    status = subject.status()
    assert status is not None
    injected = await subject.everything(http, "faults", "injected")
    requests = await subject.everything(http, "requests", "requests")
    connects = [row["at_ms"] for row in requests if row["unit"] == "connect"]
    spoilt = Counter(market_of(row["where"]) for row in injected if row["kind"] in SPOILING)
    anybodys = sum(status.reconnects.values())
    if not loss_shows(subject.exchange):
        # A frame cut off before it names its market may have been any book's.
        anybodys += sum(row["kind"] == "malformed" for row in injected)
    causeless = {
        book.symbol: book.resyncs
        for book in status.books
        if book.resyncs > anybodys + sum(spoilt[name] for name in spellings(book.symbol))
    }
    return {
        "faults": dict(Counter(row["kind"] for row in injected)),
        "connects": len(connects),
        "busiest_minute": busiest_minute(connects),
        "reconnects": status.reconnects,
        "resyncs": sum(book.resyncs for book in status.books),
        "resynced_without_cause": causeless,
        "findings": await judge(subject),
    }


async def survive(folder: Path) -> dict[str, Any]:
    """Start everything, let it storm, let it calm down, and judge."""
    async with AsyncExitStack() as outer:
        http = await outer.enter_async_context(aiohttp.ClientSession())
        async with AsyncExitStack() as stack:
            subjects = [await start(stack, name, folder) for name in registry.names()]
            await until_synced(subjects, START_S)
            for subject in subjects:
                await subject.plan(http, FAULTS)
            await asyncio.sleep(SECONDS)
            for subject in subjects:
                await subject.plan(http, "")
            await until_synced(subjects, CALM_S)
            for subject in subjects:
                assert subject.collector.returncode is None, f"{subject.exchange} has crashed"
                subject.collector.terminate()
            for subject in subjects:
                assert await subject.collector.wait() == 0, subject.exchange
            return {subject.exchange: await report_on(subject, http) for subject in subjects}


async def test_with_every_fault_at_once_nothing_is_wrong_and_every_hole_is_named(
    tmp_path: Path,
) -> None:
    reports = await survive(tmp_path)
    print(json.dumps({"seed": SEED, "seconds": SECONDS, "symbols": SYMBOLS, **reports}))
    for exchange, report in reports.items():
        findings = report["findings"]
        assert findings["trades"] > 0, (SEED, exchange)
        assert findings["books_checked"] > 0, (SEED, exchange)
        for wrong in (
            "trades_duplicated", "trades_wrong", "gaps_unlisted", "gaps_untrue", "book_mismatches",
            "http_429", "http_418",
        ):  # fmt: skip
            assert findings[wrong] == 0, (SEED, exchange, wrong, report)
        assert report["busiest_minute"] <= CONNECTS_A_MINUTE, (SEED, exchange, report)
        assert not report["resynced_without_cause"], (SEED, exchange, report)


@pytest.mark.parametrize("exchange", registry.names())
def test_there_are_twenty_markets_to_choose_from(exchange: str) -> None:
    chosen = choose(exchange, 20)
    assert len(set(chosen)) == 20
    registry.catalogue(exchange).find(chosen)
