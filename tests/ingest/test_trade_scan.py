"""``trade_scan``: trades that were lost behind the ledger's back are found, and fetched again."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import invoke
from tests.damaged import delete_ids
from tests.dataset.stored import seal
from tests.dataset.stored import stored as sealable
from tests.events import trade
from tests.ingest.simulated import Filled, Open
from tests.jobs_made import made_job

from penstock.clock import ManualClock
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_scan import BATCH
from penstock.coverage.model import GapRow, Run, SlotCoverage
from penstock.coverage.writing import write_coverage
from penstock.errors import BadJob, StorageError
from penstock.ingest.context import HandlerContext
from penstock.ingest.kinds.trade_scan import ScanCursor, TradeScan
from penstock.ingest.registry import kinds
from penstock.jobs.model import Job, NewJob
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.channels import TRADES
from penstock.storage.lake import Lake, open_lake
from penstock.storage.lake.documents import SealState, merge_seals
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Fact

NOW_MS = 1_700_000_000_000
STREAM = Stream("binance", "trades", "btc_usdt")
OURS, THEIRS = 1, 2


class Killed(Exception):
    """The process ends here."""


class World:
    """A log in memory, a store with a ledger, and workers that may be killed."""

    def __init__(self, store: StateStore, clock: ManualClock) -> None:
        self.store, self.clock, self.gaps = store, clock, GapRows(store)
        self.log, self.facts = open_log("memory:"), list[Fact]()
        self.lake: Lake | None = None

    def hold(self, ids: Iterable[int], at_ms: int = NOW_MS - 3_600_000) -> None:
        times: dict[str, Any] = {"received_at_ns": at_ms * 10**6, "at_ns": at_ms * 10**6}
        with closing(self.log.writer("a")) as writer:
            writer.append([trade(each, exchange="binance", **times) for each in ids])

    async def enter(self, *runs: tuple[int, int], log_id: int = OURS, slot: str = "a") -> None:
        """Let the ledger say that a slot holds these ids."""
        held = tuple(Run(first, last, 1, 1) for first, last in runs)
        document = SlotCoverage(
            **STREAM._asdict(), log_id=log_id, slot=slot, number=1, by="id", runs=held
        )
        await write_coverage(self.store, [document])

    async def row(self, first: int, last: int, **fields: Any) -> None:
        row = GapRow(**STREAM._asdict(), by="id", first=first, last=last, cause="lost", **fields)
        await self.gaps.open(row)

    async def run(self, job: Job, killed_at: int = 0) -> tuple[Job, bool]:
        """Run a job by a new worker; return it as it was last saved, and whether it is done."""
        saved = [job]

        async def save(job_run: AnyRun) -> None:
            if len(saved) == killed_at:
                raise Killed
            saved.append(job_run.job)

        service = JobService(self.store, kinds())
        context = HandlerContext(
            None, None, None, self.clock, self.log.reader(), service, self.gaps,  # type: ignore[arg-type]
            self.facts.append, OURS, None, lambda: self.lake,
        )  # fmt: skip
        try:
            done = await TradeScan(context).run(AnyRun(job, save))
        except Killed:
            return saved[-1], False
        return saved[-1], done

    async def missing(self) -> list[tuple[int, int, str, str]]:
        return [(row.first, row.last, row.state, row.cause) for row in await self.gaps.find()]


@pytest.fixture
async def world() -> World:
    clock = ManualClock(NOW_MS)
    return World(await open_store("memory:", clock=clock), clock)


def scan_job(**cursor: Any) -> Job:
    return made_job("trade_scan", ScanCursor(**cursor), timeframe=None)  # type: ignore[arg-type]


async def test_what_the_ledger_lists_and_nobody_holds_is_a_gap(world: World) -> None:
    world.hold([*range(1, 10), *range(20, 30), *range(35, 50)])
    await world.enter((1, 49))
    await world.row(12, 13)
    await world.gaps.mark_filled(STREAM, "id", 12, 13)
    await world.row(30, 31)
    await world.clock.advance(120)

    job, done = await world.run(scan_job())

    assert done
    assert await world.missing() == [
        (10, 11, "open", "damaged"), (12, 19, "open", "damaged"),
        (30, 31, "open", "lost"), (32, 34, "open", "damaged"),
    ]  # fmt: skip
    assert (job.cursor.next_id, job.cursor.missing, job.progress.rows) == (50, 13, 34)
    (event,) = [each for each in job.events if each.what == "missing"]
    assert event.detail == "13 ids from 10 to 34; jobs of the gap watch fetch them"
    (lost, _) = [row for row in await world.gaps.find() if row.first in (10, 32)]
    assert (lost.origin, lost.since_ms, lost.log_id) == ("ours", NOW_MS - 3_600_000, OURS)
    assert sum(fact.count for fact in world.facts) == 13  # type: ignore[attr-defined]


async def test_what_was_filled_and_is_in_no_slot_is_a_gap_again(world: World) -> None:
    """As after a slot was restored from an older copy, and read again as a whole."""
    world.hold(range(1, 10))
    await world.enter((1, 9))
    await world.row(10, 19)
    await world.gaps.mark_filled(STREAM, "id", 10, 19)

    await world.run(scan_job())
    assert await world.missing() == [(10, 19, "filled", "lost")], "it may not be listed yet"

    await world.clock.advance(120)
    await world.run(scan_job())
    assert await world.missing() == [(10, 19, "open", "damaged")]


async def test_what_is_whole_has_no_gaps(world: World) -> None:
    assert (await world.run(scan_job()))[1], "nothing is listed"
    world.hold(range(1, 30))
    await world.enter((1, 29))

    assert (await world.run(scan_job()))[1]
    assert await world.missing() == []


async def test_what_another_machine_holds_is_not_missing(world: World) -> None:
    world.hold(range(1, 10))
    await world.enter((1, 20))
    await world.enter((15, 40), log_id=THEIRS)

    await world.run(scan_job())

    assert await world.missing() == [(10, 14, "open", "damaged")]


async def test_what_was_never_recorded_is_reported_once_live_detection_had_its_time(
    world: World,
) -> None:
    world.hold([*range(1, 10), 20])
    world.hold([30], at_ms=NOW_MS - 1000)
    await world.enter((1, 9), (20, 20), (30, 30))

    await world.run(scan_job())
    assert await world.missing() == [(10, 19, "open", "lost")]

    await world.clock.advance(120)
    await world.run(scan_job())
    assert await world.missing() == [(10, 19, "open", "lost"), (21, 29, "open", "lost")]


async def test_a_scan_that_was_killed_continues_from_its_cursor(world: World) -> None:
    last = 3 * BATCH + 500
    lost = {7, BATCH + 1, 2 * BATCH, 2 * BATCH + 9, last - 1}
    world.hold(each for each in range(1, last + 1) if each not in lost)
    await world.enter((1, last))

    job, done = await world.run(scan_job(), killed_at=3)
    assert not done
    assert job.cursor.next_id == 2 * BATCH + 1
    # Found before the cursor was saved: reported once nevertheless.
    assert [row.first for row in await world.gaps.find()] == sorted(lost - {last - 1})
    job, done = await world.run(job)

    assert done
    assert [row.first for row in await world.gaps.find()] == sorted(lost)
    assert job.progress.rows == last - len(lost)
    assert job.progress.pages == 4


# Records that are in the lake.


async def sealed(world: World, folder: Path, ids: Iterable[int]) -> None:
    """Records of our log that the keeper has sealed; the log need not hold them any more."""
    day_ns = 86_400 * 10**9
    made = [
        trade(each, exchange="binance", at_ns=each * day_ns, received_at_ns=each * day_ns)
        for each in ids
    ]
    await asyncio.to_thread(seal, folder, sealable(made, "a"), OURS)
    state = SealState(log_id=f"{OURS:x}", slot="a", channel="trades", numbers={str(STREAM): 9})
    await merge_seals(world.store, state)
    world.lake = open_lake(str(folder), alone=True)


async def test_what_is_sealed_is_not_missing(world: World, tmp_path: Path) -> None:
    world.hold(range(10, 20))
    await world.enter((1, 25))
    await sealed(world, tmp_path, [1, 2, 3, 4, 6, 7, 20, 21])

    await world.run(scan_job())

    assert [(row.first, row.last) for row in await world.gaps.find()] == [
        (5, 5), (8, 9), (22, 25)
    ]  # fmt: skip


async def test_what_retention_deleted_is_not_missing(world: World, tmp_path: Path) -> None:
    world.hold(range(10, 20))
    await world.enter((1, 19))
    await sealed(world, tmp_path, [1, 2, 3, 4, 6, 7])
    lake = world.lake
    assert lake is not None
    assert lake.delete(TRADES, lake.partitions(TRADES)[:2])

    await world.run(scan_job())
    assert [(row.first, row.last) for row in await world.gaps.find()] == [(5, 5), (8, 9)]

    assert lake.delete(TRADES, lake.partitions(TRADES))
    await world.enter((1, 30))
    await world.run(scan_job())
    assert [row.first for row in await world.gaps.find()] == [5, 8, 20], "nothing else"


async def test_without_the_lake_of_the_keeper_nothing_is_reported(
    world: World, tmp_path: Path
) -> None:
    world.hold(range(10, 20))
    await world.enter((1, 19))
    await sealed(world, tmp_path / "theirs", range(1, 10))

    for lake in (None, open_lake(str(tmp_path / "ours"), alone=True)):
        world.lake = lake
        with pytest.raises(StorageError, match=r"no trades, although.*storage.lake_url"):
            await world.run(scan_job())
    assert await world.missing() == []


# Creating one.


@pytest.mark.parametrize(
    ("exchange", "fields", "field"),
    [
        ("binance", {"symbol": None}, "symbol"),
        ("binance", {"symbol": "nonsense"}, "symbol"),
        ("binance", {"timeframe": "1h"}, "timeframe"),
        ("binance", {"cursor": {"channel": "tickers"}}, "cursor.channel"),
        ("binance", {"cursor": {"done": True}}, "cursor.done"),
        ("binance", {"cursor": {"next_id": -1}}, "cursor.next_id"),
        ("kraken", {"cursor": {"channel": "agg_trades"}}, "cursor.channel"),
        ("upbit", {}, "cursor.channel"),
    ],
)
async def test_a_scan_that_makes_no_sense_is_rejected(
    world: World, exchange: str, fields: dict[str, Any], field: str
) -> None:
    service = JobService(world.store, kinds())
    said = {"exchange_id": exchange, "type": "trade_scan", "symbol": "btc_usdt", **fields}

    with pytest.raises(BadJob) as refusal:
        await service.create(NewJob(**said))

    assert refusal.value.field == field
    assert await service.find() == []


# In a real log, with a simulated exchange.


async def collected(at: Filled, first: int, last: int) -> None:
    """Have these trades recorded and listed in the ledger, in the slot work-0."""
    row = GapRow(
        exchange=at.name, channel="trades", symbol=at.slug, by="id", first=first, last=last,
        cause="lost",
    )  # fmt: skip
    await at.gaps.open(row)
    await at.work(at.is_closed)


async def verified(folder: str) -> dict[str, Any]:
    done = await asyncio.to_thread(invoke, "verify", "--json", "--data-dir", folder)
    report: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (not report["findings"])
    return report


@pytest.mark.parametrize("name", ["binance", "kraken"])
async def test_deleted_trades_are_found_and_fetched_again(
    name: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await opened(name, {"binance": "btc_usdt", "kraken": "btc_usd"}[name])
    folder, stream = at.settings.collect.data_dir, Stream(name, "trades", at.slug)
    last = await at.latest_id() - 1000
    first = last - 2500
    await collected(at, first, last)
    assert (await verified(folder))["findings"] == []
    ranges = [(first, first + 4), (first + 900, first + 2100), (last - 1, last - 1)]
    for low, high in ranges:
        delete_ids(Path(folder), "work-0", stream, low, high)
    assert {each["check"] for each in (await verified(folder))["findings"]} == {"records", "ids"}
    monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"{name}={at.address}")
    words = ("jobs", "add", name, "trade_scan", at.slug, "--json", "--data-dir", folder)

    made = await asyncio.to_thread(invoke, *words)

    assert made.returncode == 0, made.stderr
    service, job_id = JobService(at.store, kinds()), json.loads(made.stdout)["id"]

    async def is_done() -> bool:
        return (await service.get(job_id)).state == "success" and await at.is_closed()

    await at.work(is_done)
    assert (await service.get(job_id)).cursor.missing == sum(b - a + 1 for a, b in ranges)
    truth = await at.truth(first, last)
    assert [each.id for each in at.stored()] == [number for number, _, _ in truth]
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        keys = [each.key for each in reader.scan(stream)]
    assert len(keys) == len(set(keys)) == len(truth)
    assert (await verified(folder))["findings"] == []
    assert all(row.state == "filled" for row in await at.gaps.find())
