"""A collector that is killed again and again loses nothing it acknowledged, and knows its holes.

Simulator and collector are processes; the collector is ended by ``kill -9`` at moments drawn from a
seed (while it starts, while it streams, while it stops) and started again at once. Somebody reads
along. In the end every record that was ever readable is still there under its number, numbers run
on without a hole, and the judge compares all of it, the list of what is missing included, with the
simulator's ledger. ``make chaos-collect`` does the same for longer; ``SEED=…`` repeats a run.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import pytest
from tests.chaos.children import PENSTOCK, collecting, judged, simulating
from tests.waiting import PATIENCE_S

from penstock.collect.status import CollectorStatus, read_status
from penstock.storage.log import LogReader, open_log
from penstock.storage.log.keys import Stream, id_of_key

KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "5"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))
FAULTS = "drop=0.003,reorder=0.02,duplicate=0.02,malformed=0.002,cut=4s"

EXCHANGE, SLOT = "binance", "collect-binance"
SYMBOLS = ("btc_usdt", "eth_usdt", "bnb_usdt", "sol_usdt", "ada_usdt")

Phase = Literal["starting", "streaming", "stopping"]


class Kill(NamedTuple):
    """When one life ends: so long after it began to start, to stream, or to stop."""

    phase: Phase
    after_s: float


LATEST_S: Mapping[Phase, float] = {"starting": 1.5, "streaming": 2.0, "stopping": 0.3}


def schedule(seed: int, kills: int) -> list[Kill]:
    """The whole schedule of a seed: mostly while it streams, for that is what it mostly does."""
    chance = random.Random(seed)
    phases: list[Phase] = ["streaming", "streaming", "streaming", "starting", "stopping"]
    drawn = [chance.choice(phases) for _ in range(kills)]
    return [Kill(phase, chance.uniform(0, LATEST_S[phase])) for phase in drawn]


@dataclass
class Onlooker:
    """Reads along, and remembers every record it was ever shown."""

    reader: LogReader
    seen: dict[Stream, list[bytes]] = field(default_factory=dict)
    """Records by stream; a record's place in the list is its number less one."""

    def look(self) -> int:
        """Read what is new; how many records there are now."""
        assert self.reader.slots() in ([], [SLOT]), "it resumes in its slot"
        for stream in self.reader.streams():
            records = self.seen.setdefault(stream, [])
            for stored in self.reader.numbers(stream, SLOT, len(records) + 1):
                assert stored.number == len(records) + 1, f"{stream} is numbered out of turn"
                records.append(stored.record)
        return sum(map(len, self.seen.values()))

    def check_against(self, fresh: LogReader) -> None:
        """Everything that was ever seen is there, as it was, and no key twice."""
        for stream, records in self.seen.items():
            found = list(fresh.numbers(stream, SLOT, 1))
            assert [stored.number for stored in found] == list(range(1, len(found) + 1))
            assert [stored.record for stored in found[: len(records)]] == records, f"{stream} lost"
            assert len({stored.key for stored in found}) == len(found)


def simulator(seed: int, faults: str, errors: IO[bytes]) -> AbstractContextManager[str]:
    """A simulator's address."""
    # Books are begun anew in every life: more of them than an exchange allows a minute.
    limits = {
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": "60000",
        "PENSTOCK_SIMULATOR_BINANCE_CONNECT_LIMIT": "3000",
    }
    words = ["--symbols", ",".join(SYMBOLS), "--faults", faults]
    return simulating(EXCHANGE, seed, words, limits, errors)


@dataclass
class Ordeal:
    """One data folder, one simulator, and the lives of one collector after another."""

    folder: Path
    address: str
    errors: IO[bytes]
    onlooker: Onlooker

    @property
    def environment(self) -> dict[str, str]:
        return collecting(EXCHANGE, self.address, self.folder)

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*PENSTOCK, "collect", EXCHANGE, *SYMBOLS],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=self.errors,
        )  # fmt: skip

    def live(self, kill: Kill) -> bool:
        """One life; whether the kill ended it, for one that stops may be quicker."""
        process = self.start()
        try:
            if kill.phase != "starting":
                self.wait_for_records(process)
            if kill.phase == "stopping":
                process.terminate()
            time.sleep(kill.after_s)
            assert kill.phase == "stopping" or process.poll() is None, "it ended by itself"
            before = self.onlooker.look()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert self.onlooker.look() >= before
        self.check_status()
        return process.returncode == -signal.SIGKILL

    def wait_for_records(self, process: subprocess.Popen[bytes]) -> None:
        before, deadline = self.onlooker.look(), time.monotonic() + PATIENCE_S
        while self.onlooker.look() == before:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "it never streamed"
            time.sleep(0.02)

    def check_status(self) -> None:
        """What the status calls seen can be read back, whenever the process died."""
        status = read_status(self.folder, SLOT)
        for ids in status.ids if status else []:
            recorded = self.recorded_ids(Stream(EXCHANGE, ids.channel, ids.symbol))
            claimed = {number for first, last in ids.seen for number in range(first, last + 1)}
            assert claimed <= recorded, f"{ids.symbol}: seen without being recorded"

    def recorded_ids(self, stream: Stream) -> set[int | None]:
        return {id_of_key(stored.key) for stored in self.onlooker.reader.scan(stream)}

    def end(self) -> CollectorStatus:
        """A last life, which is allowed to sync its books and to stop."""
        process = self.start()
        try:
            self.wait_for_records(process)
            self.wait_for_books(process)
            process.terminate()
            assert process.wait(15) == 0
        finally:
            process.kill()
            process.wait()
        status = read_status(self.folder, SLOT)
        assert status is not None
        return status

    def wait_for_books(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status = read_status(self.folder, SLOT)
            assert status is not None
            synced = sum(book.state == "synced" for book in status.books)
            if status.pid == process.pid and synced == len(SYMBOLS):
                return
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "the books never synced"
            time.sleep(0.05)


def survive(folder: Path, kills: int, seed: int, faults: str) -> dict[str, Any]:
    """Kill, start again, and judge; what was found."""
    plan, began = schedule(seed, kills), time.monotonic()
    log = open_log(f"rocksdb:{folder / 'data'}")
    folder.mkdir(exist_ok=True)
    with (folder / "errors").open("wb") as errors, simulator(seed, faults, errors) as address:
        onlooker = Onlooker(log.reader())
        ordeal = Ordeal(folder / "data", address, errors, onlooker)
        killed = sum([ordeal.live(kill) for kill in plan])
        status = ordeal.end()
        onlooker.look()
        fresh = log.reader()
        onlooker.check_against(fresh)
        fresh.close()
        onlooker.reader.close()
        findings = judged(address, ordeal.environment)
    return {
        "seed": seed,
        "kills": {phase: sum(kill.phase == phase for kill in plan) for phase in LATEST_S},
        "killed": killed,
        "faults": faults,
        "records": sum(map(len, onlooker.seen.values())),
        "holes": {ids.symbol: len(ids.missing) for ids in status.ids},
        "seconds": round(time.monotonic() - began, 1),
        "findings": findings,
    }


@pytest.mark.parametrize("faults", ["", FAULTS], ids=["calm", "faulty"])
def test_killed_at_any_moment_it_loses_nothing_and_knows_its_holes(
    tmp_path: Path, faults: str
) -> None:
    kills = (KILLS + (faults == "")) // 2
    summary = survive(tmp_path / "ordeal", kills, SEED + bool(faults), faults)
    print(json.dumps(summary))

    findings = summary["findings"]
    assert findings["trades"] > 0, summary
    # With faults a book may just have been spoilt when it ended, and says so.
    assert findings["books_synced"] >= (1 if faults else len(SYMBOLS)), summary
    for wrong in (
        "trades_duplicated", "trades_wrong", "gaps_unlisted", "gaps_untrue", "book_mismatches",
        "http_429", "http_418",
    ):  # fmt: skip
        assert findings[wrong] == 0, summary
    if not faults:
        assert max(summary["holes"].values()) <= kills, "nothing is missed while it streams"
    errors = (tmp_path / "ordeal" / "errors").read_text()
    assert "Traceback" not in errors, errors[-2000:]


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert schedule(7, 100) != schedule(8, 100)
    assert {kill.phase for kill in schedule(7, 100)} == set(LATEST_S)
