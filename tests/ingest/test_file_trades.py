"""Trades from published files and by requests are stitched without overlap and without a gap."""

import random
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.ingest.archived import put, zipped
from tests.jobs_made import made_job

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import (
    Collect,
    Exchanges,
    Ingest,
    Requests,
    Settings,
    SimulatedBinance,
    Simulator,
)
from penstock.coverage.gap_rows import GapRows
from penstock.errors import BadFile, ExchangeError, NoAnswer
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Info, SymbolMap
from penstock.exchanges.bulk_files import BulkFile, FileSeries, FileSpan
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.gateway import Gateway
from penstock.ingest import archives, registry
from penstock.ingest.context import HandlerContext
from penstock.ingest.file_source import source_of
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import Job
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.events import Event, Trade
from penstock.market.interval import DAY_MS, HOUR_MS
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.storage.log import EventLog, Stored, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

SYMBOL, NATIVE = Symbol("SIM002", "USDT"), "SIM002USDT"
OTHER = Symbol("SIM003", "USDT")
FIRST_MS = int(datetime(2024, 12, 30, tzinfo=UTC).timestamp()) * 1000
"""From the second day after on, times in files are in microseconds."""
PAGE = 1000


class Killed(BaseException):
    """The end of a process, at any point."""


@dataclass
class Place:
    """A simulated Binance with files, and everything that a job is given."""

    address: str
    gateway: Gateway
    symbols: SymbolMap
    settings: Settings
    log: EventLog
    stack: AsyncExitStack
    recorded: list[int] = field(default_factory=list)
    """Every id, as often as it was recorded."""
    kill_at: int = -1
    """The point at which the next run ends."""
    points: int = 0
    runs: int = 0
    files: PublishedFiles | None = None

    async def of(self, _exchange_id: str) -> Any:
        return self.gateway

    def point(self) -> None:
        self.points += 1
        if self.points == self.kill_at:
            raise Killed

    def job(self, **range_: int) -> Job:
        cursor: Any = TradesCursor(**range_)  # type: ignore[arg-type]
        return made_job("trades_backfill", cursor, symbol=SYMBOL.unified, timeframe=None)

    async def run(self, job: Job, stop_at: int = 9999, source: str | None = None) -> Job:
        """The job after a run, whose cursor was never ahead of what is durable."""
        latest = [job]

        async def save(job_run: AnyRun) -> None:
            cursor = job_run.job.cursor
            if cursor.last_id is not None:
                assert set(self.recorded).issuperset(range(cursor.from_id, cursor.last_id + 1))
            self.point()
            latest[0] = job_run.job
            if job_run.job.progress.pages >= stop_at:
                job_run.stop("enough")

        self.runs += 1
        job_run = AnyRun(job, save)
        job_run.good_until_ns = 1 << 62
        if source is not None or self.files is None:
            place = f"{self.address}" if source is None else source
            chosen = Settings(
                collect=self.settings.collect, requests=self.settings.requests,
                ingest=Ingest(files=place),
            )  # fmt: skip
            found = source_of(chosen, SystemClock())
            self.files = None if found is None else PublishedFiles(found, SystemClock())
            if self.files is not None:
                self.stack.push_async_callback(self.files.aclose)
        recorder: Any = Watched(self, Recorder(self.log.writer(f"work-{self.runs}")))
        service = JobService(await open_store("memory:"), registry.kinds())
        context = HandlerContext(
            self, Maps(self.symbols), recorder, SystemClock(), self.log.reader(), service,
            GapRows(service.store), files=self.files,
        )  # fmt: skip
        try:
            await registry.build(context)["trades_backfill"].run(job_run)
        except Killed:
            self.files = None
        return latest[0]

    def trades(self) -> list[Trade]:
        found = self.log.reader().scan(Stream("binance", "trades", SYMBOL.slug))
        return [each.event for each in found if isinstance(each.event, Trade)]

    async def ask(self, path: str, **query: str | int) -> Any:
        url = f"{self.address}/_sim/{path}"
        async with ClientSession() as http, http.get(url, params=query) as answer:
            return await answer.json()

    async def plan(self, text: str) -> None:
        url = f"{self.address}/_sim/faults"
        async with ClientSession() as http, http.post(url, json={"plan": text}) as answer:
            assert answer.status == 200

    async def ids(self, *times_ms: int) -> list[int]:
        asked = [self.ask("ledger/ids", symbol=SYMBOL.slug, at_ms=at_ms) for at_ms in times_ms]
        return [(await each)["next_trade_id"] for each in asked]

    async def check(self, since_ms: int, until_ms: int) -> None:
        """What is stored is the ledger, each trade recorded once."""
        first, end = await self.ids(since_ms, until_ms)
        rows: list[Any] = []
        for start in range(first, end, 10_000):
            limit = min(10_000, end - start)
            asked = self.ask("ledger/trades", symbol=SYMBOL.slug, from_id=start, limit=limit)
            rows += (await asked)["trades"]
        truth = [
            (row["id"], row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"]))
            for row in rows
        ]
        stored = [(each.id, each.at_ms, each.price, each.quantity) for each in self.trades()]
        assert stored == truth
        assert sorted(self.recorded) == list(range(first, end))

    async def requests(self) -> int:
        """Those for pages of trades."""
        rows = (await self.ask("requests"))["requests"]
        return sum(row["path"] == "/api/v3/historicalTrades" for row in rows)

    async def download(self, folder: Path, day: int, symbol: Symbol = SYMBOL) -> Path:
        """Put a day's file and its checksum into a folder, without the exchange's folders."""
        file = file_of(day, symbol)
        found: dict[str, bytes] = {}
        async with ClientSession() as http:
            for path in (file.path, file.checksum_path):
                async with http.get(f"{self.address}/{path}") as answer:
                    assert answer.status == 200
                    found[path.rpartition("/")[2]] = await answer.read()
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
        for name, data in found.items():
            (folder / name).write_bytes(data)
        return folder / file.name


@dataclass
class Watched:
    """A recorder that counts, and at which a process may end before and after each write."""

    place: Place
    recorder: Recorder

    async def record(self, events: list[Event]) -> list[Stored]:
        self.place.point()
        stored = await self.recorder.record(events)
        self.place.recorded += [each.event.id for each in stored if isinstance(each.event, Trade)]
        self.place.point()
        return stored

    async def sync(self) -> None:
        self.place.point()
        await self.recorder.sync()
        self.place.point()


@dataclass
class Maps:
    symbols: SymbolMap

    async def of(self, _exchange_id: str) -> SymbolMap:
        return self.symbols

    async def refresh(self, exchange_id: str, info: Info) -> object:
        raise AssertionError("no trade needs that")


def series_of(symbol: Symbol = SYMBOL) -> FileSeries[Trade]:
    files = exchanges.load("binance").bulk_files
    assert files is not None
    series = files.trades(f"{symbol.base}{symbol.quote}", symbol)
    assert series is not None
    return series


def file_of(day: int, symbol: Symbol = SYMBOL) -> BulkFile:
    since_ms = FIRST_MS + day * DAY_MS
    return series_of(symbol).file(FileSpan("daily", since_ms, since_ms + DAY_MS))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        wide = SimulatedBinance(weight_limit=1_000_000)
        simulator = Simulator(
            port=0, symbols=(SYMBOL.slug, OTHER.slug), uplink_ms=0, latency_ms=1, binance=wide
        )
        server = build_simulator(simulator, SystemClock(), exchange="binance")
        await server.start()
        stack.push_async_callback(server.stop)
        address = f"http://{server.address}"
        settings = Settings(
            exchanges=Exchanges(rest_urls={"binance": address}),
            requests=Requests(guard_ms=0, attempts=2, first_delay=0.01),
            collect=Collect(data_dir=str(tmp_path)),
        )
        gateway = gateway_for(exchanges.load("binance"), settings, SystemClock())
        stack.push_async_callback(gateway.aclose)
        symbols = (await gateway.learn()).symbols
        log = open_log("memory:")
        yield Place(address, gateway, symbols, settings, log, stack)


SINCE_MS, UNTIL_MS = FIRST_MS + 22 * HOUR_MS, FIRST_MS + 3 * DAY_MS + 2 * HOUR_MS
RANGE = {"since_ms": SINCE_MS, "until_ms": UNTIL_MS}
Way = Callable[[Place], Awaitable[dict[str, int]]]


async def by_time(_place: Place) -> dict[str, int]:
    return RANGE


async def by_id(place: Place) -> dict[str, int]:
    first, end = await place.ids(SINCE_MS, UNTIL_MS)
    return {"from_id": first, "to_id": end - 1}


@pytest.mark.parametrize("way", [by_time, by_id])
async def test_whole_days_come_from_files_and_the_rest_by_requests(place: Place, way: Way) -> None:
    job = await place.run(place.job(**await way(place)))

    await place.check(SINCE_MS, UNTIL_MS)
    assert job.progress.rows == len(place.trades())
    outside_files = await place.ids(SINCE_MS, FIRST_MS + DAY_MS)
    pages = (outside_files[1] - outside_files[0]) // PAGE
    assert pages <= await place.requests() <= pages + 14, "a day would take nine more"


async def test_a_range_of_whole_days_needs_pages_for_nothing_but_its_ends(place: Place) -> None:
    since_ms, until_ms = FIRST_MS, FIRST_MS + 2 * DAY_MS

    await place.run(place.job(since_ms=since_ms, until_ms=until_ms))

    await place.check(since_ms, until_ms)
    assert await place.requests() <= 10


async def test_the_first_day_of_a_market_is_whole(place: Place) -> None:
    listed_ms = int(datetime(2021, 1, 3, tzinfo=UTC).timestamp()) * 1000

    await place.run(place.job(until_ms=listed_ms + DAY_MS))

    await place.check(listed_ms, listed_ms + DAY_MS)
    assert await place.requests() <= 6


async def test_what_a_missing_file_has_is_requested(place: Place) -> None:
    await place.plan("http404@*2024-12-31*=1")

    await place.run(place.job(**RANGE))

    await place.check(SINCE_MS, UNTIL_MS)


@pytest.mark.parametrize("fault", ["corrupt", "short", "corrupt@*.CHECKSUM"])
async def test_a_wrong_checksum_is_an_error_and_nothing_of_the_file_is_recorded(
    place: Place, fault: str
) -> None:
    name = "*2025-01-01.zip" if "CHECKSUM" not in fault else "*2025-01-01.zip.CHECKSUM"
    await place.plan(f"{fault.partition('@')[0]}@{name}=1")
    job = place.job(**RANGE)

    with pytest.raises(BadFile, match=r"SHA-256|checksum") as raised:
        await place.run(job)

    assert file_of(2).path in str(raised.value)
    first, end = await place.ids(SINCE_MS, FIRST_MS + 2 * DAY_MS)
    assert place.recorded == list(range(first, end)), "all before it, and nothing of it"
    await place.plan("")
    await place.run(job)
    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_transfer_that_is_cut_is_repeated_and_then_an_error(place: Place) -> None:
    await place.plan("cutbody@*.zip=1")

    with pytest.raises(NoAnswer):
        await place.run(place.job(**RANGE))

    await place.plan("http500@*.zip=1")
    with pytest.raises(ExchangeError):
        await place.run(place.job(**RANGE))
    await place.plan("cutbody@*.zip=0.3,http500@*.zip*=0.1")
    job = place.job(**RANGE)
    for _ in range(20):
        try:
            job = await place.run(job)
        except (NoAnswer, ExchangeError):
            continue
        break
    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_folder_may_have_the_files_with_or_without_the_exchanges_folders(
    place: Place, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    data = (await place.download(tmp_path / "other", 1)).read_bytes()
    put(folder, data, file_of(1))
    await place.download(folder, 2)

    await place.run(place.job(**RANGE), source=str(folder))

    await place.check(SINCE_MS, UNTIL_MS)
    outside_files = await place.ids(SINCE_MS, FIRST_MS + DAY_MS)
    assert await place.requests() <= (outside_files[1] - outside_files[0]) // PAGE + 14


async def test_a_file_without_a_checksum_is_refused(place: Place, tmp_path: Path) -> None:
    path = await place.download(tmp_path / "files", 1)
    path.with_name(f"{path.name}.CHECKSUM").unlink()

    with pytest.raises(BadFile, match="no checksum file"):
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))


def lines_of(data: bytes) -> list[str]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return archive.read(archive.namelist()[0]).decode().splitlines()


async def test_ids_that_a_file_lacks_are_requested(place: Place, tmp_path: Path) -> None:
    rows = lines_of((await place.download(tmp_path / "other", 1)).read_bytes())
    kept = [*rows[3:100], *rows[101:4000], *rows[4300:-2]]
    put(tmp_path / "files", zipped("\n".join(kept), file_of(1).member), file_of(1))

    await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_file_of_another_market_is_refused(place: Place, tmp_path: Path) -> None:
    rows = lines_of((await place.download(tmp_path / "other", 1, OTHER)).read_bytes())
    first, end = await place.ids(FIRST_MS + DAY_MS, FIRST_MS + 2 * DAY_MS)
    wrong = [
        ",".join((str(number), *row.split(",")[1:]))
        for number, row in zip(range(first, end), rows, strict=False)
    ]
    put(tmp_path / "files", zipped("\n".join(wrong), file_of(1).member), file_of(1))

    with pytest.raises(BadFile, match="another market"):
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    assert max(place.recorded, default=0) < first


async def test_a_row_that_is_malformed_is_an_error_after_the_rows_before_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 500)
    rows = lines_of((await place.download(tmp_path / "other", 1)).read_bytes())
    rows[1200] = "nonsense"
    put(tmp_path / "files", zipped("\n".join(rows), file_of(1).member), file_of(1))

    with pytest.raises(BadFile) as raised:
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    assert raised.value.line == 1201
    (first,) = await place.ids(FIRST_MS + DAY_MS)
    assert max(place.recorded) == first + 999


async def test_a_run_that_is_stopped_goes_on_in_the_same_file(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 500)
    job = place.job(since_ms=FIRST_MS, until_ms=FIRST_MS + DAY_MS)
    job = await place.run(job, stop_at=4)
    assert place.trades()
    await place.plan("http500@*.zip*=1")

    while not job.cursor.last_id or job.cursor.last_id < (job.cursor.to_id or 0):
        job = await place.run(job, stop_at=job.progress.pages + 3)

    await place.check(FIRST_MS, FIRST_MS + DAY_MS)


@pytest.mark.parametrize("seed", range(3))
async def test_killed_anywhere_and_run_again_it_ends_equal_to_the_ledger(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 2000)
    drawn = random.Random(seed)
    job = place.job(**RANGE)
    for _ in range(500):
        place.points, place.kill_at = 0, drawn.randrange(1, 40)
        job = await place.run(job)
        if not job.cursor.is_resolved or job.cursor.last_id == job.cursor.to_id:
            break
    place.kill_at = -1
    await place.run(job)

    assert place.runs > 5
    await place.check(SINCE_MS, UNTIL_MS)


async def test_the_files_of_a_range_are_listed_with_their_sizes(
    place: Place, tmp_path: Path
) -> None:
    await place.plan("http404@*2025-01-01*=1")
    path = await place.download(tmp_path / "files", 1)
    for source in (place.address, str(tmp_path / "files")):
        chosen = Settings(collect=place.settings.collect, ingest=Ingest(files=source))
        found = source_of(chosen, SystemClock())
        assert found is not None
        files = PublishedFiles(found, SystemClock())

        listed = await files.listed(series_of(), SINCE_MS, UNTIL_MS)

        await files.aclose()
        assert listed == [(file_of(1), path.stat().st_size)]
