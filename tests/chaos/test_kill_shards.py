"""Three shards of one exchange, killed again and again: each keeps its own, and costs no other.

Simulator and collectors are processes on one data folder. Shards are ended by ``kill -9`` at
moments drawn from a seed, one or several at once, and are started again with the same number, some
at once and some a little later. The exchange's limit is so low that the books of a new life have to
wait for it. In the end the judge compares all with the simulator's ledger. ``make chaos-collect``
does the same for longer; ``SEED=…`` repeats a run.
"""

import asyncio
import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from urllib.request import urlopen

from tests.chaos.children import PENSTOCK, collecting, judged, simulating
from tests.waiting import PATIENCE_S

from penstock.collect.status import CollectorStatus, read_status
from penstock.coverage.reading import read_ledger, series_of
from penstock.market.market_shard import MarketShard
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "4"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))

EXCHANGE = "binance"
SHARDS = [MarketShard(number, 3) for number in range(3)]
MARKETS = ("btc_usdt", "eth_usdt", "bnb_usdt", "sol_usdt", "ada_usdt", "xrp_usdt", "doge_usdt")
WEIGHT, WINDOW_S = 300, 10
"""A book costs 50: when all begin at once, some of the seven have to wait for the next window."""

Phase = Literal["starting", "streaming"]


class Blow(NamedTuple):
    """Some shards are killed, so long after they began to stream or to start."""

    victims: tuple[int, ...]
    phase: Phase
    after_s: float
    absent_s: float
    """How long they are not started again."""


LATEST_S: Mapping[Phase, float] = {"starting": 1.5, "streaming": 2.0}


def schedule(seed: int, kills: int) -> list[Blow]:
    """The whole schedule of a seed; at first all are killed while they stream."""
    chance = random.Random(seed)
    found = [Blow(tuple(range(len(SHARDS))), "streaming", 0.5, 0.5)]
    phases: list[Phase] = ["streaming", "streaming", "starting"]
    while len(found) < kills:
        victims = tuple(sorted(chance.sample(range(len(SHARDS)), chance.choice([1, 1, 2, 3]))))
        phase = chance.choice(phases)
        absent_s = chance.choice([0.0, chance.uniform(0, 1.0)])
        found.append(Blow(victims, phase, chance.uniform(0, LATEST_S[phase]), absent_s))
    return found


def slot_of(shard: MarketShard) -> str:
    return f"collect-{EXCHANGE}-{shard.number}"


def markets_of(shard: MarketShard) -> list[str]:
    return [market for market in MARKETS if shard.owns(market)]


def books_synced(shard: MarketShard, status: CollectorStatus) -> bool:
    synced = [book.symbol for book in status.books if book.state == "synced"]
    return sorted(synced) == sorted(markets_of(shard))


@dataclass
class Ordeal:
    """One data folder, one simulator, and the lives of three shards."""

    folder: Path
    address: str
    errors: IO[bytes]
    running: dict[MarketShard, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[MarketShard] = field(default_factory=Counter)

    @property
    def environment(self) -> dict[str, str]:
        return collecting(EXCHANGE, self.address, self.folder)

    def start(self, shards: Sequence[MarketShard]) -> None:
        for shard in shards:
            self.running[shard] = subprocess.Popen(
                [*PENSTOCK, "collect", EXCHANGE, *MARKETS, "--shard", str(shard)],
                env=self.environment, stdout=subprocess.DEVNULL, stderr=self.errors,
            )  # fmt: skip

    def strike(self, blow: Blow) -> None:
        """Kill, and start again."""
        victims = [SHARDS[number] for number in blow.victims]
        if blow.phase == "streaming":
            for shard in victims:
                self.wait_until(shard, "it never streamed", lambda status: bool(status.streams))
        time.sleep(blow.after_s)
        ended = [shard for shard, process in self.running.items() if process.poll() is not None]
        assert not ended, f"{ended} ended by themselves"
        for shard in victims:
            self.running[shard].kill()
        for shard in victims:
            self.running[shard].wait()
            self.kills[shard] += 1
        time.sleep(blow.absent_s)
        self.start(victims)

    def end(self) -> list[CollectorStatus]:
        """Let all sync their books, and stop."""
        for shard in SHARDS:
            self.wait_until(shard, "its books never synced", partial(books_synced, shard))
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            assert process.wait(30) == 0
        return [self.status_of(shard) for shard in SHARDS]

    def status_of(self, shard: MarketShard) -> CollectorStatus:
        status = read_status(self.folder, slot_of(shard))
        assert status is not None
        return status

    def wait_until(
        self, shard: MarketShard, problem: str, true: Callable[[CollectorStatus], bool]
    ) -> None:
        """Wait for a status of the running process."""
        process, deadline = self.running[shard], time.monotonic() + PATIENCE_S
        while True:
            status = read_status(self.folder, slot_of(shard))
            if status is not None and status.pid == process.pid and true(status):
                return
            assert process.poll() is None, f"{shard} ended by itself"
            assert time.monotonic() < deadline, f"{shard}: {problem}"
            time.sleep(0.05)

    def kill_all(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def fullest_window(self) -> int:
        with urlopen(f"{self.address}/_sim/windows", timeout=PATIENCE_S) as answer:
            return max(int(window["max_used"]) for window in json.load(answer)["windows"])

    def held(self) -> Iterator[tuple[str, str, int | None]]:
        """Slot, market and id of each record of a trade."""
        with closing(open_log(f"rocksdb:{self.folder}").reader()) as log:
            for slot in log.slots():
                for market in MARKETS:
                    for stored in log.numbers(Stream(EXCHANGE, "trades", market), slot, 1):
                        yield slot, market, id_of_key(stored.key)


async def unreported(folder: Path) -> dict[str, int]:
    """Trades that the ledger of coverage neither holds nor lists in a gap, by market."""
    store = await open_store(f"sqlite:{folder}/state.db")
    try:
        ledger = await read_ledger(store, EXCHANGE)
    finally:
        await store.close()
    found = [each for each in series_of(ledger) if each.channel == "trades"]
    return {each.symbol: each.unreported for each in found if each.unreported}


def survive(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill, start again, and judge; what was found."""
    began = time.monotonic()
    limits = {
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": str(WEIGHT),
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_WINDOW": str(WINDOW_S),
    }
    words = ["--symbols", ",".join(MARKETS)]
    folder.mkdir(exist_ok=True)
    with (
        (folder / "errors").open("wb") as errors,
        simulating(EXCHANGE, seed, words, limits, errors) as address,
    ):
        ordeal = Ordeal(folder / "data", address, errors)
        try:
            ordeal.start(SHARDS)
            for blow in schedule(seed, kills):
                ordeal.strike(blow)
            statuses = ordeal.end()
        finally:
            ordeal.kill_all()
        findings, fullest = judged(address, ordeal.environment), ordeal.fullest_window()
    return {
        "seed": seed,
        "kills": {str(shard): ordeal.kills[shard] for shard in SHARDS},
        "held": list(ordeal.held()),
        "holes": {ids.symbol: len(ids.missing) for each in statuses for ids in each.ids},
        "unreported": asyncio.run(unreported(ordeal.folder)),
        "fullest_window": fullest,
        "seconds": round(time.monotonic() - began, 1),
        "findings": findings,
    }


def test_killed_shards_lose_nothing_and_keep_the_limits_together(tmp_path: Path) -> None:
    summary = survive(tmp_path / "ordeal", KILLS, SEED)
    held = summary.pop("held")
    print(json.dumps({**summary, "records": len(held)}))

    # A quiet market may have had no trade while its shard lived.
    owners = {(slot_of(shard), market) for shard in SHARDS for market in markets_of(shard)}
    assert {(slot, market) for slot, market, _ in held} <= owners
    assert len(held) == len(set(held)), "a trade is recorded twice"
    findings = summary["findings"]
    assert findings["books_synced"] == len(MARKETS), summary
    for wrong in (
        "trades_duplicated", "trades_wrong", "gaps_unlisted", "gaps_untrue", "book_mismatches",
        "http_429", "http_418",
    ):  # fmt: skip
        assert findings[wrong] == 0, summary
    assert summary["unreported"] == {}, "a trade is missing without a gap"
    for shard in SHARDS:
        for market in markets_of(shard):
            holes, kills = summary["holes"].get(market, 0), summary["kills"][str(shard)]
            assert holes <= kills, f"{market} has gaps by the kills of others: {summary}"
    assert any(summary["holes"].values()), "nothing was traded while they were away"
    assert WEIGHT / 2 < summary["fullest_window"] <= WEIGHT, summary
    errors = (tmp_path / "ordeal" / "errors").read_text()
    assert "Traceback" not in errors, errors[-2000:]


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert schedule(7, 100) != schedule(8, 100)
    assert {len(blow.victims) for blow in schedule(7, 100)} == {1, 2, 3}
