"""A collector whose surroundings fail: the connector is paused, or the state store goes away."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from tests import servers
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.fetcher import open_fetcher
from penstock.clock import ManualClock, SystemClock
from penstock.collect.facts import RequestsResumed, RequestsSuspended, SnapshotFailed
from penstock.collect.listings import Listings
from penstock.collect.status import CollectorStatus, read_status
from penstock.config import Fetch, Settings, State
from penstock.connectors import ConnectorManager
from penstock.connectors.markets import Markets
from penstock.errors import StoreUnreachable, UnknownSymbol
from penstock.exchanges.base import Info
from penstock.exchanges.facts import RequestSent
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.symbol import Symbol
from penstock.runtime.stores import open_state
from penstock.storage.log import open_log
from penstock.telemetry import Fact

from .test_collector import (
    SLOT,
    TWO,
    Life,
    Simulate,
    collecting,
    missing,
    settings,
    simulate,
    streaming,
)

__all__ = ["simulate"]


def surrounded(
    address: str, folder: Path, *, patience: float = PATIENCE_S, **collect: object
) -> Settings:
    wanted = settings(address, folder, **{"audit_every": 0.5, **collect})
    return replace(wanted, state=State(timeout=patience))


async def set_paused(wanted: Settings, *, is_paused: bool) -> None:
    patient = replace(wanted, state=State(timeout=PATIENCE_S))
    async with open_state(patient, SystemClock()) as store:
        manager = ConnectorManager(store)
        await manager.ensure_connector("binance")
        await (
            manager.pause_connector("binance") if is_paused else manager.resume_connector("binance")
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another process writes to the state, and does not finish."""
    other = sqlite3.connect(folder / "state.db", isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def disconnected(life: Life, address: str) -> None:
    """Cut its connection, and wait until trades come on the next; the book needs a snapshot."""
    async with aiohttp.ClientSession() as http:
        await http.post(f"http://{address}/_sim/disconnect")
    before = sum(each.records for each in life.collector.reporter.status("running").streams)
    await life.until(lambda status: bool(status.reconnects))
    await life.until(lambda status: sum(each.records for each in status.streams) > before + 20)


def is_paused(status: CollectorStatus) -> bool:
    return "connector of binance is paused" in status.trouble


def is_locked(status: CollectorStatus) -> bool:
    return "state.db" in status.trouble


async def written(
    folder: Path, true: Callable[[CollectorStatus], bool], slot: str = SLOT
) -> CollectorStatus:
    """Its status, once that is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := read_status(folder, slot)) is None or not true(found):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def test_while_its_connector_is_paused_streams_go_on_and_books_follow_later(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)
        await set_paused(wanted, is_paused=True)
        await life.until(is_paused)
        await disconnected(life, server.address)
        status = life.collector.reporter.status("running")
        assert [book.state for book in status.books] == ["stale"]
        assert list(status.troubles) == ["asking"]
        await set_paused(wanted, is_paused=False)
        await life.until(streaming)
        await life.until(lambda status: status.trouble == "")

    told = [f for f in life.facts if isinstance(f, RequestsSuspended | RequestsResumed)]
    assert [type(fact) for fact in told] == [RequestsSuspended, RequestsResumed]
    assert not any(isinstance(fact, SnapshotFailed) for fact in life.facts)
    ended = read_status(tmp_path, SLOT)
    assert ended is not None
    assert (ended.state, ended.trouble) == ("stopped", "")


async def test_stopped_while_its_connector_is_paused_it_says_what_it_did_not_ask(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)
        await set_paused(wanted, is_paused=True)
        await life.until(is_paused)

    ended = read_status(tmp_path, SLOT)
    assert ended is not None
    assert ended.state == "stopped"
    assert "1 of 1 markets were not asked" in ended.troubles["last_look"]


async def test_while_the_state_store_is_locked_streams_go_on_and_books_follow_later(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    async with collecting(surrounded(server.address, tmp_path, patience=0.5)) as life:
        await life.until(streaming)
        with locked(tmp_path):
            await life.until(is_locked)
            await disconnected(life, server.address)
            assert is_locked(life.collector.reporter.status("running"))
        await life.until(streaming)
        await life.until(lambda status: status.trouble == "")
    assert missing(tmp_path, "btc_usdt") is not None


async def test_while_the_state_server_is_gone_streams_go_on_and_books_follow_later(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    with servers.Postgresql() as database:
        state = State(url=database.url, timeout=PATIENCE_S)
        wanted = replace(settings(server.address, tmp_path, audit_every=0.5), state=state)
        async with collecting(wanted) as life:
            await life.until(streaming)
            await asyncio.to_thread(database.stop)
            await life.until(lambda status: "postgresql:" in status.trouble)
            await disconnected(life, server.address)
            await asyncio.to_thread(database.start)
            await life.until(streaming)
            await life.until(lambda status: status.trouble == "")


async def test_started_while_the_state_store_is_locked_it_waits_and_says_so(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path, patience=0.5)
    facts: list[Fact] = []

    async def lives() -> None:
        async with open_collector(wanted, "binance", SystemClock(), facts.append) as collector:
            life = Life(collector, asyncio.Event(), asyncio.current_task())  # type: ignore[arg-type]
            running = asyncio.create_task(collector.run(["btc_usdt"], life.stop))
            await life.until(streaming)
            await life.until(lambda status: status.trouble == "")
            life.stop.set()
            await running

    with locked(tmp_path):
        starting = asyncio.create_task(lives())
        found = await written(tmp_path, is_locked)
        assert found.state == "starting"
        assert not starting.done()
    async with asyncio.timeout(PATIENCE_S):
        await starting
    assert any(isinstance(fact, RequestsSuspended) for fact in facts)


async def test_stopped_while_it_waits_for_the_state_store_it_has_stopped(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path, patience=0.5)

    async def lives() -> None:
        async with open_collector(wanted, "binance", SystemClock()):
            raise AssertionError("there is nothing to collect with")

    with locked(tmp_path):
        starting = asyncio.create_task(lives())
        await written(tmp_path, is_locked)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    ended = read_status(tmp_path, SLOT)
    assert ended is not None
    assert ended.state == "stopped"


async def test_started_while_its_connector_is_paused_it_waits_and_says_so(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path)
    await set_paused(wanted, is_paused=True)
    async with collecting(wanted) as life:
        await life.until(is_paused)
        assert (await written(tmp_path, is_paused)).state == "starting"
        await set_paused(wanted, is_paused=False)
        await life.until(streaming)
        await life.until(lambda status: status.trouble == "")


async def test_a_market_that_another_process_found_listed_is_collected_without_asking(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate(TWO)
    wanted = surrounded(server.address, tmp_path, audit_every=0)
    async with collecting(wanted) as life:
        await life.until(streaming)
        collector = life.collector
        assert collector.listings.symbols is not None
        eth = Symbol.parse("eth_usdt")
        everything = collector.listings.symbols.listed
        # As if it was not listed yet when the collector began.
        collector._info = Info(
            SymbolMap("binance", [each for each in everything if each.symbol != eth]), ()
        )
        collector.listings.symbols = collector._info.symbols
        with pytest.raises(UnknownSymbol):
            collector.add(["eth_usdt"])
        async with open_state(wanted, SystemClock()) as store:
            markets = Markets(store, None)  # type: ignore[arg-type]
            await markets.refresh("binance", Info(SymbolMap("binance", everything), ()))
        asked = sum(isinstance(f, RequestSent) and "exchangeInfo" in f.path for f in life.facts)
        found = await collector._find_listed(["btc_usdt", "eth_usdt"])
        again = sum(isinstance(f, RequestSent) and "exchangeInfo" in f.path for f in life.facts)
        assert [each.slug for each in found] == ["btc_usdt", "eth_usdt"]
        assert asked == again
        assert collector.listings.has_grown.is_set()


async def test_listings_are_looked_for_now_and_then(tmp_path: Path) -> None:
    clock, symbols = ManualClock(), SymbolMap("toy", [])
    answers: list[list[ListedMarket] | Exception] = [
        StoreUnreachable(str(tmp_path), "gone"),
        [ListedMarket("NEWUSDT", Symbol.parse("new_usdt"))],
    ]

    async def stored() -> list[ListedMarket]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    listings = Listings(stored, clock, symbols)
    running = asyncio.create_task(listings.run())
    await clock.advance(61)
    assert len(symbols) == 0
    await clock.advance(60)
    assert symbols.find("new_usdt") == Symbol.parse("new_usdt")
    assert listings.has_grown.is_set()
    running.cancel()


async def test_a_fetcher_waits_for_the_state_store_and_its_connector_too(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = surrounded(server.address, tmp_path, patience=0.5)
    wanted = replace(wanted, fetch=Fetch(every=0.2, what=("book",), first_delay=0.1))
    clock, stop = SystemClock(), asyncio.Event()

    async def lives() -> None:
        async with open_fetcher(wanted, "binance", ["btc_usdt"], clock) as fetcher:
            await fetcher.run(stop)

    slot = "fetch-binance"
    with locked(tmp_path):
        living = asyncio.create_task(lives())
        assert (await written(tmp_path, is_locked, slot)).state == "starting"
    await written(tmp_path, fetched, slot)
    await set_paused(wanted, is_paused=True)
    await written(tmp_path, is_paused, slot)
    await set_paused(wanted, is_paused=False)
    await written(tmp_path, lambda status: fetched(status) and not status.trouble, slot)
    stop.set()
    async with asyncio.timeout(PATIENCE_S):
        await living
    await written(tmp_path, lambda status: status.state == "stopped", slot)


async def test_a_fetcher_that_waits_for_the_state_store_leaves_its_slot_to_a_backup(
    tmp_path: Path, simulate: Simulate
) -> None:
    server, stop, facts = await simulate(), asyncio.Event(), list[Fact]()
    wanted = surrounded(server.address, tmp_path, patience=0.5)
    slot = "fetch-binance"

    async def lives() -> None:
        async with open_fetcher(wanted, "binance", ["btc_usdt"], SystemClock(), facts.append) as it:
            await it.run(stop)

    with locked(tmp_path):
        with closing(open_log(f"rocksdb:{tmp_path}").writer(slot, briefly=True)):
            living = asyncio.create_task(lives())
            async with asyncio.timeout(PATIENCE_S):
                while not any(isinstance(fact, RequestsSuspended) for fact in facts):
                    assert not living.done()
                    await asyncio.sleep(0.05)
        assert (await written(tmp_path, is_locked, slot)).state == "starting"
    await written(tmp_path, lambda status: status.state == "running", slot)
    stop.set()
    async with asyncio.timeout(PATIENCE_S):
        await living


def fetched(status: CollectorStatus) -> bool:
    return bool(status.fetches) and status.fetches[0].fetches > 0
