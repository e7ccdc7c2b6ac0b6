"""The power is cut again and again while a collector, a worker and a broker run on one disk.

Each cut ends all three at once, at a moment drawn from a seed: while they start, or under load. The
disk is mounted again and looked at before anybody writes to it: no cursor is ahead of the candles,
and no status calls an id seen that is not in the log. Then all three are started again, with the
settings that everybody has. In the end the simulator's ledger judges what is left. ``make
chaos-power`` does it thirty times; the last line it prints is what was found.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.children import PENSTOCK, Nursery, nursery, simulating
from tests.chaos.disk import Disk, why_not
from tests.waiting import PATIENCE_S

from penstock import subscribe
from penstock.collect.status import read_status
from penstock.errors import NotOurRecord
from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, JobService, NewJob
from penstock.publish.subscriber import Delivery, Missing
from penstock.storage.log import LogReader, Span, open_log
from penstock.storage.log.keys import Stream, id_of_key, key_of_id
from penstock.storage.state import open_store

EXCHANGE = "binance"
SYMBOLS = ("btc_usdt", "eth_usdt", "bnb_usdt", "sol_usdt", "ada_usdt", "xrp_usdt")
KINDS = {"collect": ["collect", EXCHANGE, *SYMBOLS], "work": ["work"], "bus": ["bus"]}
SLOT = f"collect-{EXCHANGE}"
MINUTE_MS = 60_000
JOB_DAYS = 10
STARTING = 3
"""So many of the first lives are cut while everything is made for the first time."""


@contextmanager
def simulator(seed: int, errors: Path) -> Iterator[str]:
    """A simulator's address."""
    limits = {
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": "6000000",
        "PENSTOCK_SIMULATOR_BINANCE_RAW_LIMIT": "900000",
    }
    words = ["--symbols", ",".join(SYMBOLS)]
    with errors.open("wb") as log, simulating(EXCHANGE, seed, words, limits, log) as address:
        yield address


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@dataclass
class PowerCuts:
    """One disk, one simulator, and the lives of three processes."""

    disk: Disk
    nursery: Nursery
    address: str
    errors: Path
    chance: random.Random
    found: Counter[str] = field(default_factory=Counter)
    made_until_ms: int = 0
    wanted: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Of every job: its market, and the range of its candles."""

    @property
    def data(self) -> Path:
        return self.disk.folder / "data"

    def live(self, *, starting: bool) -> None:
        """One life of all three, and the cut that ends it."""
        asyncio.run(self.give_work())
        pids = {kind: self.nursery.begin(self.errors / kind, KINDS[kind]) for kind in KINDS}
        try:
            if not starting:
                self.wait_until_at_work(pids)
            time.sleep(self.chance.uniform(0.0, 2.5))
            for kind, pid in pids.items():
                if not is_there(pid):
                    self.found["starts_failed"] += 1
                    print(f"   {kind} ended by itself: {self.last_words(kind)}", flush=True)
        finally:
            self.disk.cut()
            for pid in pids.values():
                kill(pid)
            self.disk.unmount()
            self.disk.mount()
        self.found["cuts"] += len(pids)
        self.look()

    def last_words(self, kind: str) -> str:
        return (self.errors / kind).read_text()[-2000:]

    async def give_work(self) -> None:
        """Create a backfill of every market that has none, of older and older candles."""
        self.data.mkdir(exist_ok=True)
        store = await open_store(f"sqlite:{self.data / 'state.db'}")
        job_service = JobService(store, kinds())
        now_ms = await store.now_ms() // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS
        busy = {job.symbol for job in await job_service.find(type="ohlcv_backfill", limit=500)}
        self.made_until_ms = self.made_until_ms or now_ms
        until_ms, fresh = self.made_until_ms, False
        since_ms = until_ms - JOB_DAYS * 1440 * MINUTE_MS
        for symbol in SYMBOLS[:3]:
            unified = symbol.upper().replace("_", "/")
            if unified in busy:
                continue
            new = NewJob(
                exchange_id=EXCHANGE, type="ohlcv_backfill", symbol=unified, timeframe="1m",
                cursor=Cursor(since_ms=since_ms, until_ms=until_ms),
            )  # fmt: skip
            job = await job_service.create(new)
            self.wanted[job.id] = (symbol, since_ms, until_ms)
            fresh = True
        self.made_until_ms = since_ms if fresh else until_ms
        await store.close()

    def documents(self) -> dict[str, dict[str, Any]]:
        with closing(sqlite3.connect(self.data / "state.db", timeout=60)) as connection:
            found = connection.execute("SELECT id, document FROM jobs").fetchall()
        return {id_: json.loads(text) for id_, text in found if id_ in self.wanted}

    def pages(self) -> int:
        return sum(document["cursor"]["page"] for document in self.documents().values())

    def wait_until_at_work(self, pids: Mapping[str, int]) -> None:
        """Until records come in, over the bus too, and a page is saved."""
        before, deadline = self.pages(), time.monotonic() + PATIENCE_S

        def at_work() -> bool:
            with suppress(NotOurRecord):
                status = read_status(self.data, SLOT)
                if status is None or status.pid != pids["collect"] or not status.streams:
                    return False
            done = all(job["state"] == "success" for job in self.documents().values())
            return done or self.pages() > before

        while not at_work():
            if time.monotonic() > deadline or not all(map(is_there, pids.values())):
                self.found["starts_failed"] += 1
                gone = [kind for kind, pid in pids.items() if not is_there(pid)]
                print(f"   not at work: {[(kind, self.last_words(kind)) for kind in gone or pids]}")
                return
            time.sleep(0.05)
        asyncio.run(self.listen())

    async def listen(self) -> None:
        """Have some records from the bus: in order, once each."""
        numbers: Counter[tuple[str, str, int]] = Counter()
        async with subscribe(f"{EXCHANGE}.trades.", data_dir=self.data) as bus:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while len(numbers) < 50:
                        match await anext(bus):
                            case Delivery() as each:
                                numbers[each.topic, each.slot, each.number] += 1
                            case Missing() as hole:
                                self.found["bus_missing"] += hole.last - hole.first + 1
            except TimeoutError:
                self.found["starts_failed"] += 1
                print(f"   the bus brought nothing: {self.last_words('bus')}")
        self.found["bus_records"] += len(numbers)
        self.found["duplicated"] += sum(numbers.values()) - len(numbers)

    def look(self) -> None:
        """Compare what is claimed with what is there."""
        with closing(open_log(f"rocksdb:{self.data}").reader()) as log:
            for id_, document in self.documents().items():
                symbol, since_ms, _ = self.wanted[id_]
                missing = self.lacks(log, symbol, since_ms, document["cursor"]["since_ms"])
                self.found["cursor_ahead"] += bool(missing)
                self.found["unknown_missing"] += missing
                self.found["jobs_done"] = sum(
                    each["state"] == "success" for each in self.documents().values()
                )
            try:
                status = read_status(self.data, SLOT)
            except NotOurRecord:
                self.found["status_unreadable"] += 1
                return
            for ids in status.ids if status else []:
                held = recorded(log, Stream(EXCHANGE, ids.channel, ids.symbol))
                seen = {number for first, last in ids.seen for number in range(first, last + 1)}
                self.found["unknown_missing"] += len(seen - held)
                self.found["status_ahead"] += bool(seen - held)

    def lacks(self, log: LogReader, symbol: str, since_ms: int, until_ms: int) -> int:
        """Candles of a range that are not there."""
        span = Span(key_of_id(since_ms), key_of_id(until_ms))
        held = set(log.keys_in(Stream(EXCHANGE, "candles_1m", symbol), [span]))
        return (until_ms - since_ms) // MINUTE_MS - len(held)

    def end(self) -> None:
        """A last life, in which every job is finished and all stop by themselves."""
        pids = {kind: self.nursery.begin(self.errors / kind, KINDS[kind]) for kind in KINDS}
        try:
            self.wait_until_at_work(pids)
            deadline = time.monotonic() + PATIENCE_S
            while any(job["state"] != "success" for job in self.documents().values()):
                assert time.monotonic() < deadline, self.documents()
                time.sleep(0.2)
            for kind in ("collect", "work", "bus"):
                os.kill(pids[kind], signal.SIGTERM)
            while any(map(is_there, pids.values())):
                assert time.monotonic() < deadline, "they did not stop"
                time.sleep(0.05)
        finally:
            for pid in pids.values():
                kill(pid)
        self.look()
        with closing(open_log(f"rocksdb:{self.data}").reader()) as log:
            for symbol, since_ms, until_ms in self.wanted.values():
                self.found["unknown_missing"] += self.lacks(log, symbol, since_ms, until_ms)
                self.found["candles"] += (until_ms - since_ms) // MINUTE_MS
            for stream in log.streams():
                for slot in log.slots():
                    found = [stored.key for stored in log.numbers(stream, slot, 1)]
                    self.found["duplicated"] += len(found) - len(set(found))
        self.judge()

    def judge(self) -> None:
        done = subprocess.run(
            [*PENSTOCK, "judge", self.address, "--json"],
            env={**os.environ, "PENSTOCK_COLLECT_DATA_DIR": str(self.data)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        findings = json.loads(done.stdout)
        self.found["unknown_missing"] += findings["gaps_unlisted"]
        self.found["duplicated"] += findings["trades_duplicated"]
        for name in ("trades", "trades_missing", "trades_wrong", "gaps_untrue", "book_mismatches"):
            self.found[name] += findings[name]


def recorded(log: LogReader, stream: Stream) -> set[int | None]:
    return set(map(id_of_key, log.keys_in(stream, [Span()])))


def kill(pid: int) -> None:
    """Kill a process, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while is_there(pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)


NOTHING_OF = ("unknown_missing", "duplicated", "cursor_ahead", "status_ahead", "starts_failed")


def cut_power(folder: Path, cuts: int, seed: int) -> dict[str, int]:
    """Cut, start again, look, and judge; what was found."""
    began, errors, disk = time.monotonic(), folder / "errors", Disk(folder)
    errors.mkdir()
    try:
        with simulator(seed, errors / "sim") as address:
            environment = {
                **os.environ,
                "PENSTOCK_EXCHANGES_REST_URLS": f"{EXCHANGE}={address}",
                "PENSTOCK_EXCHANGES_STREAM_URLS": f"{EXCHANGE}={address}",
                "PENSTOCK_COLLECT_DATA_DIR": str(disk.folder / "data"),
                # A worker that is cut holds its jobs for as long; the next waits for them.
                "PENSTOCK_JOBS_LEASE": "8",
                "PENSTOCK_JOBS_LOOK_EVERY": "0.2",
            }
            with nursery(environment) as begun:
                ordeal = PowerCuts(disk, begun, address, errors, random.Random(seed))
                for number in range(cuts):
                    starting = number < min(STARTING, cuts - 1) or ordeal.chance.random() < 0.2
                    ordeal.live(starting=starting)
                    print(f"   cut {number + 1} of {cuts}: {dict(ordeal.found)}", flush=True)
                ordeal.end()
    finally:
        disk.unmount()
    said = "".join(file.read_text() for file in errors.iterdir())
    zeros = dict.fromkeys(NOTHING_OF, 0)
    told = {"tracebacks": said.count("Traceback"), "seed": seed}
    return {**zeros, **ordeal.found, **told, "seconds": round(time.monotonic() - began)}


def main() -> int:
    """Cut the power so often, and say what was found in one line."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--cuts", type=int, default=30)
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = options.parse_args()
    if reason := why_not():
        print(f"{reason}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="penstock-power-") as folder:
        found = cut_power(Path(folder), asked.cuts, asked.seed)
    print(json.dumps(found))
    return 1 if any(found[name] for name in NOTHING_OF) or found["tracebacks"] else 0


if __name__ == "__main__":
    sys.exit(main())
