"""Books of every exchange, audited while they are streamed from its simulator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from tests.quick_limits import simulated_limits
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.simulator import build_simulator
from penstock.books.sequenced import SequencedBook
from penstock.cli.judge import gather
from penstock.clock import SystemClock
from penstock.collect.books import BookMaintainer
from penstock.collect.collector import Collector
from penstock.collect.status import BookStatus
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.exchanges import registry
from penstock.market.levels import write_levels
from penstock.simulator.judge import Evidence, Findings, Judge
from penstock.storage.log import open_log

pytestmark = pytest.mark.usefixtures("quick_kraken")

MARKETS = {"binance": "btc_usdt", "kraken": "btc_usd", "coinbase": "btc_usd", "upbit": "btc_krw"}


@dataclass
class Scene:
    """A collector at work, and the simulator it collects from."""

    name: str
    address: str
    folder: Path
    collector: Collector
    running: asyncio.Task[None]
    maintainers: list[BookMaintainer]

    @property
    def book(self) -> BookStatus | None:
        return next(iter(self.collector.reporter.status("running").books), None)

    async def until(self, true: Callable[[BookStatus], bool]) -> BookStatus:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert not self.running.done(), "it ended by itself"
                if (book := self.book) is not None and true(book):
                    return book
                await asyncio.sleep(0.02)

    async def until_recorded(self, count: int) -> int:
        """Wait for so many books that can be held against the ledger; how many there are."""
        async with asyncio.timeout(PATIENCE_S):
            while (  # noqa: ASYNC110 (the log sets no event)
                found := sum(len(each.books) for each in self._evidence().values())
            ) < count:
                await asyncio.sleep(0.2)
        return found

    async def post(self, question: str, **body: str) -> None:
        async with aiohttp.ClientSession() as http:
            await http.post(f"{self.address}/_sim/{question}", json=body)

    async def judge(self) -> Findings:
        async with aiohttp.ClientSession() as http:
            return await Judge(http, self.address).judge(self._evidence())

    def _evidence(self) -> dict[str, Evidence]:
        return gather(self.folder, open_log(f"rocksdb:{self.folder}"), self.name)


@asynccontextmanager
async def collecting(name: str, folder: Path, **collect: object) -> AsyncIterator[Scene]:
    limits = simulated_limits(name)
    simulated = Simulator(
        port=0, symbols=(MARKETS[name],), uplink_ms=0, latency_ms=1, limits=limits
    )
    server = build_simulator(simulated, SystemClock(), exchange=name)
    await server.start()
    address = f"http://{server.address}"
    given = {"data_dir": str(folder), "book_every": 1.0, "audit_every": 1.0, **collect}
    settings = Settings(
        collect=Collect(channels=("book_deltas",), **given),  # type: ignore[arg-type]
        exchanges=Exchanges(rest_urls={name: address}, stream_urls={name: address}),
    )
    try:
        async with open_collector(settings, name, SystemClock()) as collector:
            stop, maintainers = asyncio.Event(), list[BookMaintainer]()
            watch_books = collector.reporter.watch_books

            def note(maintainer: BookMaintainer) -> None:
                maintainers.append(maintainer)
                watch_books(maintainer)

            collector.reporter.watch_books = note  # type: ignore[method-assign]
            running = asyncio.create_task(collector.run([MARKETS[name]], stop))
            try:
                yield Scene(name, address, folder, collector, running, maintainers)
            finally:
                stop.set()
                await running
    finally:
        await server.stop()


@pytest.mark.parametrize("name", [*MARKETS])
async def test_a_book_that_is_kept_well_is_found_right(name: str, tmp_path: Path) -> None:
    assert name in registry.names()
    async with collecting(name, tmp_path) as scene:
        await scene.until(lambda book: book.audits >= 2 or bool(book.drift))
        book = scene.book
        assert book is not None
        assert (book.state, book.drift, book.resyncs) == ("synced", 0, 0)
        assert book.audited_at_ms is not None


async def test_a_level_that_went_wrong_by_itself_is_found_and_mended(tmp_path: Path) -> None:
    async with collecting("binance", tmp_path, book_every=0.2) as scene:
        await scene.until(lambda book: book.audits >= 1)
        [sync] = scene.maintainers[0].books().values()
        assert isinstance(sync, SequencedBook)
        assert sync.levels is not None
        # Of many levels: the stream may set some right again before the next audit.
        wrong = [(price, "123.00000000") for price, _ in sync.levels.texts()[0][700:720]]
        sync.levels.apply_raw(write_levels(wrong), write_levels([]))
        # Nobody would ever notice by looking at the stream.
        book = await scene.until(lambda book: book.resyncs > 0)
        assert book.resyncs == 1
        await scene.until(lambda book: book.drift == 0 and book.state == "synced")
        await scene.until_recorded(4)
        findings = await scene.judge()
    assert findings.books_checked > 3
    assert findings.book_mismatches == 0


async def test_where_losses_do_not_show_only_right_books_are_recorded(tmp_path: Path) -> None:
    async with collecting("coinbase", tmp_path) as scene:
        # An audit proves nothing of a book that changed meanwhile, and then none is recorded.
        await scene.until_recorded(2)
        await scene.post("faults", plan="drop=0.1")
        await scene.until(lambda book: book.resyncs >= 1)
        await scene.post("faults", plan="")
        await scene.until(lambda book: book.drift == 0 and book.state == "synced")
        await scene.until_recorded(await scene.until_recorded(0) + 2)
        findings = await scene.judge()
    assert findings.books_checked >= 4
    assert findings.book_mismatches == 0


async def test_with_a_shallow_snapshot_the_book_is_refreshed_as_its_price_moves(
    tmp_path: Path,
) -> None:
    async with collecting("binance", tmp_path, book_depth=40, audit_every=0.0) as scene:
        first = await scene.until(lambda book: book.known_bid is not None)
        refreshed = await scene.until(lambda book: book.audits >= 1)
        assert (refreshed.drift, refreshed.audits) == (0, 1)
        assert refreshed.known_bid != first.known_bid
        findings = await scene.judge()
    assert findings.book_mismatches == 0
