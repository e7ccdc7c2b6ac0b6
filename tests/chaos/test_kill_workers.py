"""Workers that are killed and frozen again and again finish their jobs, and spoil nothing.

Three workers fetch candles of three markets. Each is ended by ``kill -9`` at moments drawn from a
seed, while it starts or while it works, and started again at once; some are frozen first for longer
than their lease, so that another takes their job, and then go on as if nothing had happened. The
database itself writes down every change of every job. After each kill somebody looks whether a
cursor is ahead of the data. In the end every candle is there once and equals the simulator's
ledger, and no write of a holder whose time was over was made. ``make chaos-jobs`` does the same for
a year of candles; ``SEED=…`` repeats a schedule.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal, NamedTuple
from urllib.request import urlopen

from tests.chaos.children import PENSTOCK, Nursery, nursery, simulating
from tests.waiting import PATIENCE_S

from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, JobService, NewJob
from penstock.market.events import Candle
from penstock.storage.log import LogReader, Span, open_log
from penstock.storage.log.keys import Stream, key_of_id
from penstock.storage.state import open_store

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "12"))
DAYS = int(os.environ.get("PENSTOCK_TEST_DAYS", "12"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))

EXCHANGE = "binance"
SYMBOLS = ("btc_usdt", "eth_usdt", "bnb_usdt")
WORKERS = 3
LEASE_S = 1.5
MINUTE_MS = 60_000

Phase = Literal["starting", "working", "frozen"]
PHASES: tuple[Phase, ...] = ("starting", "working", "working", "working", "frozen")


class Blow(NamedTuple):
    """How one life ends: when after it began to start or to work, and how long it is frozen."""

    phase: Phase
    after_s: float
    frozen_s: float = 0.0


def schedule(seed: int, kills: int) -> list[list[Blow]]:
    """The whole schedule of a seed: the lives of each worker, one after the other."""
    chance = random.Random(seed)
    lives: list[list[Blow]] = [[] for _ in range(WORKERS)]
    for number in range(kills):
        phase = chance.choice(PHASES)
        blow = Blow(phase, chance.uniform(0.0, 0.5))
        if phase != "starting":
            blow = Blow(phase, chance.uniform(0.5, 2.0))
        if phase == "frozen":
            blow = blow._replace(frozen_s=LEASE_S * chance.uniform(1.2, 2.5))
        lives[number % WORKERS].append(blow)
    return lives


def simulator(seed: int, errors: IO[bytes]) -> AbstractContextManager[str]:
    """A simulator's address."""
    # A year in minutes is more than an exchange allows.
    limits = {"PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": "600000"}
    return simulating(EXCHANGE, seed, ["--symbols", ",".join(SYMBOLS)], limits, errors)


class Gone(AssertionError):
    """A worker ended that nobody had killed."""


def signal_to(worker: int, number: int) -> None:
    """Send a signal to a process that ought to be there."""
    try:
        os.kill(worker, number)
    except ProcessLookupError:
        raise Gone(f"worker {worker} ended by itself") from None


def kill(worker: int) -> None:
    """Kill a process, and wait until it is gone."""
    signal_to(worker, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@dataclass
class Range:
    """What is to be fetched of every market."""

    since_ms: int
    until_ms: int

    def opens(self) -> range:
        return range(self.since_ms, self.until_ms, MINUTE_MS)


async def create_jobs(database: Path) -> tuple[Range, dict[str, str]]:
    """A backfill for every market; job ids by symbol."""
    store = await open_store(f"sqlite:{database}")
    until_ms = await store.now_ms() // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS
    wanted = Range(until_ms - DAYS * 24 * 60 * MINUTE_MS, until_ms)
    jobs = {}
    for symbol in SYMBOLS:
        cursor = Cursor(since_ms=wanted.since_ms, until_ms=wanted.until_ms)
        new = NewJob(
            exchange_id=EXCHANGE, type="ohlcv_backfill", symbol=symbol, timeframe="1m",
            cursor=cursor,
        )  # fmt: skip
        jobs[symbol] = (await JobService(store, kinds()).create(new)).id
    await store.close()
    return wanted, jobs


def keep_history(database: Path) -> None:
    """Have the database write down every change that is made to a job, whoever makes it."""
    before_and_after = ", ".join(
        f"json_extract({row}.document, '$.{path}')"
        for path in ("fence", "cursor.page", "cursor.since_ms")
        for row in ("OLD", "NEW")
    )
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "CREATE TABLE history (number INTEGER PRIMARY KEY, id TEXT, fence_before INTEGER,"
            " fence INTEGER, page_before INTEGER, page INTEGER, since_before INTEGER,"
            " since INTEGER)"
        )
        connection.execute(
            "CREATE TRIGGER remember AFTER UPDATE ON jobs BEGIN INSERT INTO history"
            f" SELECT NULL, NEW.id, {before_and_after}; END"
        )
        connection.commit()


def check_history(database: Path, job_id: str) -> Counter[str]:
    """Every change was made by who held the job: pages follow one another, fences only rise."""
    seen: Counter[str] = Counter()
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT fence_before, fence, page_before, page, since_before, since FROM history"
            " WHERE id = ? ORDER BY number",
            (job_id,),
        ).fetchall()
    assert rows
    for fence_before, fence, page_before, page, since_before, since in rows:
        assert fence_before <= fence <= fence_before + 1
        assert page_before <= page <= page_before + 1, "a page was saved by two, or forgotten"
        seen["claims or releases"] += fence != fence_before
        if page != page_before:
            assert fence == fence_before, "a cursor moves only while its job is held"
            assert since > since_before
            seen["pages"] += 1
        else:
            assert since == since_before
    return seen


@dataclass
class Ordeal:
    """One data folder, one simulator, one store, and the lives of three workers."""

    folder: Path
    address: str
    nursery: Nursery
    errors: Path
    jobs: Mapping[str, str]
    wanted: Range
    reader: LogReader
    looking: Lock = field(default_factory=Lock)
    verified_ms: dict[str, int] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)

    @property
    def database(self) -> Path:
        return self.folder / "state.db"

    def documents(self) -> dict[str, dict[str, Any]]:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            found = connection.execute("SELECT id, document FROM jobs").fetchall()
        documents = {id_: json.loads(text) for id_, text in found}
        return {symbol: documents[id_] for symbol, id_ in self.jobs.items()}

    def live_through(self, name: str, blows: list[Blow]) -> None:
        """All lives of one worker."""
        for blow in blows:
            worker = self.nursery.begin(self.errors / name)
            try:
                self.live(worker, blow)
            finally:
                kill(worker)
            self.killed[blow.phase] += 1
            self.look()

    def live(self, worker: int, blow: Blow) -> None:
        if blow.phase != "starting":
            self.wait_until_at_work(worker)
        time.sleep(blow.after_s)
        if blow.phase == "frozen":
            signal_to(worker, signal.SIGSTOP)
            time.sleep(blow.frozen_s)
            signal_to(worker, signal.SIGCONT)
            time.sleep(blow.after_s / 2)

    def wait_until_at_work(self, worker: int) -> None:
        """Until it holds a job, if it gets one: the others may hold them all."""
        deadline = time.monotonic() + 2 * LEASE_S
        while time.monotonic() < deadline:
            locks = [job["lock"]["locked_by"] or "" for job in self.documents().values()]
            if any(holder.endswith(f"/{worker}") for holder in locks):
                return
            signal_to(worker, 0)
            time.sleep(0.02)

    def look(self) -> None:
        """Whatever a cursor has left behind can be read."""
        with self.looking:
            for symbol, document in self.documents().items():
                begin_ms = self.verified_ms.get(symbol, self.wanted.since_ms)
                end_ms = document["cursor"]["since_ms"]
                span = Span(key_of_id(begin_ms), key_of_id(end_ms))
                keys = [stored.key for stored in self.reader.scan(self.stream(symbol), span)]
                expected = [key_of_id(at_ms) for at_ms in range(begin_ms, end_ms, MINUTE_MS)]
                assert keys == expected, f"{symbol}: the cursor is ahead of the data"
                self.verified_ms[symbol] = end_ms

    def stream(self, symbol: str) -> Stream:
        return Stream(EXCHANGE, "candles_1m", symbol)

    def end(self) -> None:
        """A last worker, which is allowed to finish what is left, and to stop."""
        if all(job["state"] == "success" for job in self.documents().values()):
            return
        process = subprocess.Popen(
            [*PENSTOCK, "work"], env=workers_environment(self.folder, self.address)
        )
        try:
            deadline = time.monotonic() + PATIENCE_S + DAYS
            while any(job["state"] != "success" for job in self.documents().values()):
                assert process.poll() is None, "it ended by itself"
                assert time.monotonic() < deadline, self.documents()
                time.sleep(0.1)
            process.terminate()
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.wait()

    def candles(self, symbol: str) -> list[Candle]:
        found = [stored.event for stored in self.reader.scan(self.stream(symbol))]
        return [event for event in found if isinstance(event, Candle)]

    def truth(self, symbol: str) -> Iterator[dict[str, Any]]:
        """The ledger's candles."""
        step_ms = 10_000 * MINUTE_MS
        for start_ms in range(self.wanted.since_ms, self.wanted.until_ms, step_ms):
            end_ms = min(start_ms + step_ms, self.wanted.until_ms)
            asked = f"symbol={symbol}&start_ms={start_ms}&end_ms={end_ms}&step_ms={MINUTE_MS}"
            with urlopen(f"{self.address}/_sim/ledger/candles?{asked}") as answer:
                yield from json.load(answer)["candles"]


def as_told(candle: Candle) -> tuple[object, ...]:
    numbers = (candle.open, candle.high, candle.low, candle.close, candle.volume)
    return (candle.open_ms, *numbers, Decimal(candle.quote_volume_text or "0"), candle.trades)


def as_true(row: dict[str, Any]) -> tuple[object, ...]:
    names = ("open", "high", "low", "close", "volume", "quote")
    return (row["start_ms"], *(Decimal(row[name]) for name in names), row["trades"])


def workers_environment(folder: Path, address: str) -> dict[str, str]:
    return {
        **os.environ,
        "PENSTOCK_EXCHANGES_REST_URLS": f"{EXCHANGE}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(folder),
        "PENSTOCK_JOBS_LEASE": str(LEASE_S),
        "PENSTOCK_JOBS_LOOK_EVERY": "0.2",
        # Room to take over what a frozen one held.
        "PENSTOCK_JOBS_CONCURRENCY": "2",
        # What the raised limits allow would keep the processor busy.
        "PENSTOCK_INGEST_CHUNK_CONCURRENCY": "4",
    }


def survive(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill, freeze, start again, and judge; what was found."""
    began, data, errors = time.monotonic(), folder / "data", folder / "errors"
    errors.mkdir(parents=True)
    wanted, jobs = asyncio.run(create_jobs(data / "state.db"))
    keep_history(data / "state.db")
    lives = schedule(seed, kills)
    with (
        (errors / "sim").open("wb") as log,
        simulator(seed, log) as address,
        nursery(workers_environment(data, address)) as workers,
    ):
        reader = open_log(f"rocksdb:{data}").reader()
        ordeal = Ordeal(data, address, workers, errors, jobs, wanted, reader)
        with ThreadPoolExecutor(WORKERS) as pool:
            names = [f"worker-{number}" for number in range(WORKERS)]
            list(pool.map(ordeal.live_through, names, lives))
        pages = sum(job["cursor"]["page"] for job in ordeal.documents().values())
        ordeal.end()
        ordeal.look()
        wrong = candles = 0
        for symbol in SYMBOLS:
            found = ordeal.candles(symbol)
            assert [candle.open_ms for candle in found] == list(wanted.opens()), symbol
            truth = ordeal.truth(symbol)
            wrong += sum(as_told(c) != as_true(row) for c, row in zip(found, truth, strict=True))
            candles += len(found)
        reader.close()
    history = sum((check_history(ordeal.database, id_) for id_ in jobs.values()), Counter())
    said = "".join(file.read_text() for file in errors.iterdir())
    return {
        "seed": seed,
        "killed": dict(ordeal.killed),
        "candles": candles,
        "wrong": wrong,
        "history": dict(history),
        "leases_lost": said.count("JobLost"),
        "taken_over": sum(
            event["what"] == "taken_over"
            for job in ordeal.documents().values()
            for event in job["doings"]
        ),
        "pages_meanwhile": pages,
        "told_to_stop": said.count("SendingStopped"),
        "tracebacks": said.count("Traceback"),
        "seconds": round(time.monotonic() - began, 1),
    }


def test_killed_and_frozen_at_any_moment_workers_finish_their_jobs(tmp_path: Path) -> None:
    summary = survive(tmp_path / "ordeal", KILLS, SEED)
    print(json.dumps(summary))

    assert sum(summary["killed"].values()) == KILLS
    assert summary["candles"] == len(SYMBOLS) * DAYS * 24 * 60
    assert summary["wrong"] == 0, summary
    # Several pages may be saved together.
    assert summary["history"]["pages"] > len(SYMBOLS)
    assert (summary["told_to_stop"], summary["tracebacks"]) == (0, 0), summary
    if summary["killed"].get("frozen", 0) >= 10:
        assert summary["leases_lost"] > 0, "nobody ever lost a lease: the ordeal is too mild"


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert schedule(7, 100) != schedule(8, 100)
    assert {blow.phase for life in schedule(7, 100) for blow in life} == {
        "starting", "working", "frozen",
    }  # fmt: skip
