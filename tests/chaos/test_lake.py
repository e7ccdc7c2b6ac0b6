"""A keeper that is killed at every point where it writes loses no row and stores none twice.

Records are appended to a log, and a keeper seals, deletes, compacts and applies the retention.
It kills itself (``kill -9``) before or after each call that writes, or at a random moment; every
third time another keeper works on the same log and lake. After each kill every record is in the
log or in the lake, no row is in the lake twice, and the lake calls nothing complete that it lacks.
``make chaos-lake`` does the same twenty times for each point; ``SEED=…`` repeats a schedule.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.chaos.lake_keeper import NAMES
from tests.events import ticker, trade

from penstock.coverage.model import Run, SlotCoverage, as_document
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.publish.endpoints import log_id
from penstock.storage.lake.columns import records_of
from penstock.storage.log import open_log
from penstock.storage.log.keys import stream_of
from penstock.storage.state import Document, open_store
from penstock.storage.state.schema import COVERAGE

KILLED = -9
HOUR_NS = 3_600_000_000_000
SLOT = "collect-toy"
SYMBOLS = [Symbol("BTC", "USDT"), Symbol("ETH", "USDT")]
EACH = int(os.environ.get("PENSTOCK_TEST_KILLS", "1"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or "1")


class Keepers:
    """A process that forks keepers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def begin(self, folder: Path, point: str = "", count: int = 0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(folder), point, count]) + "\n")
        self._process.stdin.flush()

    def ended(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def keepers() -> Iterator[Keepers]:
    command = [sys.executable, "-m", "tests.chaos.lake_keeper"]
    folder = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder) as process:
        yield Keepers(process)
        assert process.stdin is not None
        process.stdin.close()


class Records:
    """Everything that was ever appended, and where it is now."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._log = folder, open_log(f"rocksdb:{folder}")
        self.log_id = log_id(folder)
        self.trades: set[bytes] = set()
        self.young_tickers: set[bytes] = set()
        self._next_id, self._age_ns = 1, 80 * HOUR_NS

    def append(self, chance: random.Random) -> None:
        """Append trades and tickers: some received long ago, and so to be deleted from the log."""
        now_ns = time.time_ns()
        for _ in range(2):
            self._age_ns = self._age_ns * 9 // 10
            received = now_ns - self._age_ns
            first, self._next_id = self._next_id, self._next_id + chance.randint(5, 40)
            events: list[Event] = [
                trade(n, symbol, received_at_ns=received + n, at_ns=received)
                for n in range(first, self._next_id)
                for symbol in SYMBOLS
            ]
            age = chance.choice((1, 300)) * HOUR_NS
            tickers: list[Event] = [
                ticker(received + n, at_ns=received - age, update_id=n, bid_text=f"{n}")
                for n in range(first, first + 5)
            ]
            with closing(self._log.writer(SLOT)) as writer:
                self.trades |= {each.record for each in writer.append(events)}
                written = {each.record for each in writer.append(tickers)}
                self.young_tickers |= written if age == HOUR_NS else set()

    async def cover(self) -> None:
        """Write what the slot has to the ledger, as its owner does."""
        store = await open_store(f"sqlite:{self.folder / 'state.db'}")
        for symbol in SYMBOLS:
            stream = stream_of(trade(1, symbol))
            coverage = SlotCoverage(
                **stream._asdict(), log_id=self.log_id, slot=SLOT, by="id",
                number=self._next_id - 1, runs=(Run(1, self._next_id - 1, 0, 1),),
            )  # fmt: skip
            document = as_document(coverage)
            if not (await store.insert_if_absent(COVERAGE, document)).created:
                await store.update(COVERAGE, coverage.id, partial(_newer, document))
        await store.close()

    def in_log(self, row: Channel) -> set[bytes]:
        with closing(self._log.reader()) as reader:
            streams = [each for each in reader.streams() if each.channel == row.name]
            return {each.record for stream in streams for each in reader.scan(stream)}

    def in_lake(self, row: Channel) -> list[bytes]:
        folder = self.folder / "lake" / row.name
        if not DeltaTable.is_deltatable(str(folder)):
            return []
        return records_of(row, DeltaTable(folder).to_pyarrow_table())

    def judge(self, point: str) -> None:
        """Check that nothing is lost, doubled, or called complete without being there."""
        sealed = Counter(self.in_lake(channels.TRADES))
        doubled = [record for record, count in sealed.items() if count > 1]
        assert not doubled, f"{point}: {len(doubled)} rows are there twice"
        assert self.trades == {*sealed} | self.in_log(channels.TRADES), f"{point}: rows are lost"
        folder = self.folder / "lake" / "coverage"
        if DeltaTable.is_deltatable(str(folder)):
            known = DeltaTable(self.folder / "lake" / "trades").to_pyarrow_table(
                columns=["symbol", "id"]
            )
            there = {(each["symbol"], each["id"]) for each in known.to_pylist()}
            for each in DeltaTable(folder).to_pyarrow_table().to_pylist():
                said = {(each["symbol"], n) for n in range(each["first"], each["last"] + 1)}
                assert said <= there, f"{point}: the ledger leads"


@pytest.mark.sample
def test_a_keeper_that_is_killed_anywhere_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    points = [*NAMES, *["any"] * 4] * EACH
    chance.shuffle(points)
    records, ends = Records(tmp_path), Counter[int]()
    reached: set[str] = set()
    with keepers() as dying, keepers() as others:
        for number, point in enumerate(points):
            records.append(chance)
            asyncio.run(records.cover())
            often = point.endswith(("append", "verify", "note"))
            count = chance.randint(50, 1500) if point == "any" else 1 + often * chance.randint(0, 1)
            dying.begin(tmp_path, point, count)
            if number % 3 == 2:
                others.begin(tmp_path)
                assert others.ended() in (0, 3), errors(tmp_path)
            end = dying.ended()
            ends[end] += 1
            if end == KILLED:
                reached.add(point)
            records.judge(point)
        dying.begin(tmp_path)
        assert dying.ended() == 0, errors(tmp_path)
    records.judge("at the end")
    assert {*records.in_lake(channels.TRADES)} == records.trades
    tickers = Counter(records.in_lake(channels.TICKERS))
    assert {*tickers} == records.young_tickers, "the retention keeps seven days"
    assert max(tickers.values()) == 1
    print(f"{len(points)} keepers, {len(records.trades):,} trades; ended: {dict(ends)};")
    print(f"killed at: {', '.join(sorted(reached))}")
    assert EACH == 1 or reached >= {*NAMES}


def _newer(new: Document, old: Document) -> Document:
    return {**old, **new}


def errors(folder: Path) -> str:
    found = folder / "errors"
    return found.read_text()[-3000:] if found.exists() else ""
