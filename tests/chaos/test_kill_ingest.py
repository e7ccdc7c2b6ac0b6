"""``penstock ingest`` that is killed again and again fetches everything once.

Rounds alternate between trades and candles of two products of the simulated Coinbase. In each, the
same command is started, ended by ``kill -9`` at a moment drawn from a seed, while it starts or
works, and started again, until nothing is left. After each kill somebody looks whether a cursor is
ahead of the data. At the end of a round the records equal the simulator's ledger, and each is there
once; no request was refused. ``make chaos-ingest`` does it 100 times; ``SEED=…`` repeats it.
"""

import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.request import urlopen

from tests.chaos.children import Nursery, nursery, simulating
from tests.waiting import PATIENCE_S

from penstock.market.events import Candle, Trade
from penstock.storage.log import LogReader, Span, open_log
from penstock.storage.log.keys import Stream, key_of_id

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS") or 6)
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))

EXCHANGE = "coinbase"
PRODUCTS = {"btc_usd": "BTC-USD", "eth_usd": "ETH-USD"}
LEASE_S = 1.0
LATENCY_MS = 100
PAGES = 16
"""Of each product in a round: three seconds together, as the limit is ten a second."""
FIRST_ID = 1_000_000
FIRST_MS = 1_704_067_200_000
MINUTE_MS = 60_000
TRADES_PER_PAGE, CANDLES_PER_PAGE = 1000, 300

Phase = Literal["starting", "working"]


class Blow(NamedTuple):
    """When a run is killed: so long after it began to start, or to fetch."""

    phase: Phase
    after_s: float


def schedule(seed: int, kills: int) -> list[Blow]:
    """The kills of a seed, one after the other."""
    chance = random.Random(seed)
    blows = []
    for _ in range(kills):
        phase: Phase = "starting" if chance.random() < 0.2 else "working"
        blows.append(Blow(phase, chance.uniform(0.0, 0.5 if phase == "starting" else 1.5)))
    return blows


@dataclass(frozen=True)
class Round:
    """What the command fetches: trades by id, or candles by open time."""

    number: int

    @property
    def is_of_trades(self) -> bool:
        return self.number % 2 == 0

    @property
    def first(self) -> int:
        if self.is_of_trades:
            return FIRST_ID + self.number * PAGES * TRADES_PER_PAGE
        return FIRST_MS + self.number * PAGES * CANDLES_PER_PAGE * MINUTE_MS

    @property
    def end(self) -> int:
        """The first id or time that is not included."""
        if self.is_of_trades:
            return self.first + PAGES * TRADES_PER_PAGE
        return self.first + PAGES * CANDLES_PER_PAGE * MINUTE_MS

    @property
    def words(self) -> list[str]:
        if self.is_of_trades:
            wanted = ["--from-id", str(self.first), "--to-id", str(self.end - 1)]
        else:
            wanted = ["--timeframe", "1m", "--from", _iso(self.first), "--to", _iso(self.end)]
        how = ["--workers", "2", "--chunk-concurrency", "6"]
        return ["ingest", EXCHANGE, *PRODUCTS.values(), *wanted, *how]

    def stream(self, slug: str) -> Stream:
        return Stream(EXCHANGE, "trades" if self.is_of_trades else "candles_1m", slug)

    def owns(self, job: dict[str, Any]) -> bool:
        """Whether a job is of this round: its range does not change while it runs."""
        cursor = job["cursor"]
        if self.is_of_trades:
            return bool(job["type"] == "trades_backfill" and cursor["from_id"] == self.first)
        return bool(job["type"] == "ohlcv_backfill" and cursor["until_ms"] == self.end)

    def passed(self, job: dict[str, Any]) -> int:
        """The first id or time that the job's cursor has not passed."""
        cursor = job["cursor"]
        if not self.is_of_trades:
            return int(cursor["since_ms"])
        return self.first if cursor["last_id"] is None else int(cursor["last_id"]) + 1


def _iso(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass
class Ordeal:
    """One data folder, one simulator, and the lives of the command."""

    folder: Path
    address: str
    nursery: Nursery
    errors: Path
    reader: LogReader
    killed: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    """Kills after which a cursor had moved."""

    def jobs(self, round_: Round) -> dict[str, dict[str, Any]]:
        """The jobs of a round, by slug."""
        database = self.folder / "state.db"
        if not database.exists():
            return {}
        with closing(sqlite3.connect(database, timeout=60)) as connection:
            try:
                found = connection.execute("SELECT document FROM jobs").fetchall()
            except sqlite3.OperationalError:  # killed before there were tables
                return {}
        documents = [json.loads(text) for (text,) in found]
        names = {slug.upper().replace("_", "/"): slug for slug in PRODUCTS}
        return {names[job["symbol"]]: job for job in documents if round_.owns(job)}

    def ask(self, question: str, **query: object) -> Any:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        with urlopen(f"{self.address}/_sim/{question}?{words}") as answer:
            return json.load(answer)

    def live(self, round_: Round, blow: Blow | None) -> bool:
        """Run the command, killed or not; whether it was killed before it ended."""
        process = self.nursery.begin(self.errors, round_.words)
        if blow is not None and blow.phase == "starting":
            _wait_for_end(process, blow.after_s)
        elif blow is not None:
            self._wait_until_at_work(process, round_)
            _wait_for_end(process, blow.after_s)
        else:
            assert _wait_for_end(process, PATIENCE_S), "it does not end"
        if not _is_alive(process):
            return False
        os.kill(process, signal.SIGKILL)
        assert _wait_for_end(process, PATIENCE_S)
        return True

    def _wait_until_at_work(self, process: int, round_: Round) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while _is_alive(process):
            held = [job["lock"]["locked_by"] or "" for job in self.jobs(round_).values()]
            if any(holder.endswith(f"/{process}") for holder in held):
                return
            assert time.monotonic() < deadline, "it gets no job"
            time.sleep(0.02)

    def look(self, round_: Round, before: dict[str, int]) -> dict[str, int]:
        """Whatever a cursor has left behind can be read, and once; where the cursors are."""
        passed = {slug: round_.passed(job) for slug, job in self.jobs(round_).items()}
        for slug, end in passed.items():
            begin = before.get(slug, round_.first)
            assert begin <= end, f"{slug}: the cursor went back"
            expected = [key_of_id(number) for number in self.true_numbers(round_, slug, begin, end)]
            assert self.keys(round_, slug, begin, end) == expected, f"{slug}: ahead of the data"
        return passed

    def keys(self, round_: Round, slug: str, begin: int, end: int) -> list[bytes]:
        """The keys of all records in a range, twice if two slots have one."""
        span = Span(key_of_id(begin), key_of_id(end))
        return sorted(self.reader.keys_in(round_.stream(slug), [span])) if begin < end else []

    def true_numbers(self, round_: Round, slug: str, begin: int, end: int) -> list[int]:
        if round_.is_of_trades:
            return [*range(begin, end)]
        return [row["start_ms"] for row in self.true_candles(slug, begin, end)]

    def true_candles(self, slug: str, begin: int, end: int) -> Iterator[dict[str, Any]]:
        """The ledger's candles of minutes with trades: others have none."""
        for start_ms in range(begin, end, 10_000 * MINUTE_MS):
            asked = {"start_ms": start_ms, "end_ms": min(start_ms + 10_000 * MINUTE_MS, end)}
            found = self.ask("ledger/candles", symbol=slug, step_ms=MINUTE_MS, **asked)
            yield from (row for row in found["candles"] if row["trades"])

    def true_trades(self, slug: str, begin: int, end: int) -> Iterator[dict[str, Any]]:
        for start in range(begin, end, 5000):
            limit = min(5000, end - start)
            yield from self.ask("ledger/trades", symbol=slug, from_id=start, limit=limit)["trades"]

    def judge(self, round_: Round) -> None:
        """Every record of a round equals the ledger's, and is there once."""
        for slug in PRODUCTS:
            ends = round_.first, round_.end
            numbers = [key_of_id(number) for number in self.true_numbers(round_, slug, *ends)]
            assert self.keys(round_, slug, *ends) == numbers, f"{slug}: not each of them once"
            span = Span(key_of_id(ends[0]), key_of_id(ends[1]))
            events = [stored.event for stored in self.reader.scan(round_.stream(slug), span)]
            if round_.is_of_trades:
                found = [_told_trade(event) for event in events if isinstance(event, Trade)]
                truth = [_true_trade(row) for row in self.true_trades(slug, *ends)]
            else:
                found = [_told_candle(event) for event in events if isinstance(event, Candle)]
                truth = [_true_candle(row) for row in self.true_candles(slug, *ends)]
            assert found == truth, slug
            self.records[round_.stream(slug).channel] += len(found)


def _told_trade(trade: Trade) -> tuple[object, ...]:
    return trade.id, trade.at_ms, Decimal(trade.price_text), Decimal(trade.quantity_text)


def _true_trade(row: dict[str, Any]) -> tuple[object, ...]:
    return row["id"], row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"])


def _told_candle(candle: Candle) -> tuple[object, ...]:
    numbers = (candle.open, candle.high, candle.low, candle.close, candle.volume)
    return (candle.open_ms, *numbers)


def _true_candle(row: dict[str, Any]) -> tuple[object, ...]:
    names = ("open", "high", "low", "close", "volume")
    return (row["start_ms"], *(Decimal(row[name]) for name in names))


def _is_alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _wait_for_end(process: int, seconds: float) -> bool:
    """Wait at most so long; whether it has ended."""
    deadline = time.monotonic() + seconds
    while _is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.005)
    return not _is_alive(process)


def environment(folder: Path, address: str) -> dict[str, str]:
    return {
        **os.environ,
        "PENSTOCK_EXCHANGES_REST_URLS": f"{EXCHANGE}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(folder),
        "PENSTOCK_JOBS_LEASE": str(LEASE_S),
        "PENSTOCK_JOBS_POLL_INTERVAL": "0.1",
    }


def survive(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill, start again, and judge; what was found."""
    began, data, errors = time.monotonic(), folder / "data", folder / "errors"
    data.mkdir(parents=True)
    blows, rounds = schedule(seed, kills), 0
    latency = {"PENSTOCK_SIMULATOR_LATENCY_MS": str(LATENCY_MS)}
    words = ["--symbols", ",".join(PRODUCTS)]
    with (
        (folder / "sim").open("wb") as log,
        simulating(EXCHANGE, seed, words, latency, log) as address,
        nursery(environment(data, address)) as commands,
        closing(open_log(f"rocksdb:{data}").reader()) as reader,
    ):
        ordeal = Ordeal(data, address, commands, errors, reader)
        while blows:
            round_, passed = Round(rounds), dict[str, int]()
            while blows and ordeal.live(round_, blows[0]):
                ordeal.killed[blows.pop(0).phase] += 1
                before, passed = passed, ordeal.look(round_, passed)
                ordeal.moved += passed != before
            ordeal.live(round_, None)
            jobs = ordeal.jobs(round_)
            assert [job["state"] for job in jobs.values()] == ["success"] * len(PRODUCTS)
            ordeal.judge(round_)
            rounds += 1
        refused = ordeal.ask("requests")["totals"].get("429", 0)
    said = errors.read_text()
    return {
        "seed": seed,
        "killed": dict(ordeal.killed),
        "moved": ordeal.moved,
        "rounds": rounds,
        "records": dict(ordeal.records),
        "refused": refused,
        "tracebacks": said.count("Traceback"),
        "seconds": round(time.monotonic() - began, 1),
    }


def test_killed_at_any_moment_and_started_again_it_fetches_everything_once(tmp_path: Path) -> None:
    summary = survive(tmp_path / "ordeal", KILLS, SEED)
    print(json.dumps(summary))

    assert sum(summary["killed"].values()) == KILLS
    assert summary["moved"] > 0, "no run got anywhere: the ordeal is too hard"
    assert (summary["refused"], summary["tracebacks"]) == (0, 0), summary


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert schedule(7, 100) != schedule(8, 100)
    assert {blow.phase for blow in schedule(7, 100)} == {"starting", "working"}
