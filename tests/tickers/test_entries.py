"""The entries of symbols: how often they are written, and that none outlives its symbol."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.clock import ManualClock
from penstock.errors import StoreUnreachable
from penstock.live import ProcessCache, ProcessInfo, ProcessStatus, ProcessType
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.storage.cache import LiveStore, LiveValue, open_live_store
from penstock.telemetry import Fact
from penstock.tickers.entries import SymbolEntries
from penstock.tickers.facts import EntriesNotWritten

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[LiveStore]:
    store = await open_live_store("memory:", clock=clock)
    yield store
    await store.close()


class Run:
    """The entries of an exchange, which are written meanwhile."""

    def __init__(self, store: LiveStore, clock: ManualClock) -> None:
        self.facts: list[Fact] = []
        self.clock = clock
        self.cache = ProcessCache(store, clock=clock)
        self.entries = SymbolEntries("sim", self.cache, clock, self.facts.append, "public")

    def tick(self, symbol: Symbol = BTC) -> None:
        now_ns = self.clock.now_ns()
        self.entries.heard(Ticker(exchange="sim", symbol=symbol, received_at_ns=now_ns))

    async def shown(self) -> dict[str, ProcessInfo]:
        return {each.component: each for each in await self.cache.get_processes(ProcessType.TICK)}


@asynccontextmanager
async def running(store: LiveStore, clock: ManualClock) -> AsyncIterator[Run]:
    run = Run(store, clock)
    writing = asyncio.create_task(run.entries.run())
    yield run
    writing.cancel()
    await asyncio.wait([writing])


async def test_an_entry_is_written_every_30_seconds_however_many_ticks_come(
    store: LiveStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, put = 0, store.put

    async def counting(space: str, values: Sequence[LiveValue]) -> int:
        nonlocal writes
        writes += 1
        return await put(space, values)

    monkeypatch.setattr(store, "put", counting)
    async with running(store, clock) as run:
        run.entries.start(BTC)
        await clock.advance(0.1)
        assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.STARTING
        for _ in range(600):
            run.tick()
            run.tick()
            await clock.advance(1.0)
            assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.RUNNING
        assert 20 <= writes <= 22, "20 in 10 minutes, which is 120 an hour; 2 changes of status"


async def test_a_thousand_symbols_are_written_together(
    store: LiveStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, put = list[int](), store.put

    async def counting(space: str, values: Sequence[LiveValue]) -> int:
        batches.append(len(values))
        return await put(space, values)

    monkeypatch.setattr(store, "put", counting)
    symbols = [Symbol(f"A{number}", "USDT") for number in range(1000)]
    async with running(store, clock) as run:
        for symbol in symbols:
            run.entries.start(symbol)
        await clock.advance(0.1)
        for symbol in symbols:
            run.tick(symbol)
        await clock.advance(0.1)
        assert {each.status for each in (await run.shown()).values()} == {ProcessStatus.RUNNING}
        await run.entries.close()
        assert {each.status for each in (await run.shown()).values()} == {ProcessStatus.STOPPED}
    assert batches == [1000] * 3


async def test_a_quiet_symbol_is_shown_as_active_too(store: LiveStore, clock: ManualClock) -> None:
    async with running(store, clock) as run:
        run.entries.start(BTC)
        for _ in range(300):
            await clock.advance(1.0)
        assert [each.component for each in await run.cache.get_active_processes()]


async def test_a_failure_is_shown_at_once_until_the_next_tick(
    store: LiveStore, clock: ManualClock
) -> None:
    async with running(store, clock) as run:
        run.entries.start(BTC)
        run.tick()
        await clock.advance(0.1)
        run.entries.failed(BTC, "disconnected")
        await clock.advance(0.1)
        entry = (await run.shown())["sim:BTC/USDT"]
        assert (entry.status, entry.message) == (ProcessStatus.ERROR, "disconnected")
        run.tick()
        await clock.advance(0.1)
        entry = (await run.shown())["sim:BTC/USDT"]
        assert entry.status is ProcessStatus.RUNNING
        run.entries.lost(BTC, "disconnected")
        await clock.advance(0.1)
        assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.ERROR
        run.entries.reconnected(BTC)
        await clock.advance(0.1)
        assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.STARTING
        run.entries.failed(BTC, "refused")
        run.entries.reconnected(BTC)
        await clock.advance(0.1)
        assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.ERROR
        run.entries.failed(ETH, "it has no entry")
        run.tick(ETH)


async def test_stopped_entries_are_not_written_again(store: LiveStore, clock: ManualClock) -> None:
    async with running(store, clock) as run:
        run.entries.start(BTC)
        run.entries.start(ETH)
        await clock.advance(0.1)
        await run.entries.stop([BTC])
        run.tick()
        await clock.advance(60.0)
        statuses = {name: each.status for name, each in (await run.shown()).items()}
        assert statuses == {
            "sim:BTC/USDT": ProcessStatus.STOPPED,
            "sim:ETH/USDT": ProcessStatus.STARTING,
        }
        await run.entries.close()
        assert {each.status for each in (await run.shown()).values()} == {ProcessStatus.STOPPED}


async def test_an_entry_that_is_stopped_while_it_is_registered_does_not_stay(
    store: LiveStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(store, clock) as run:
        begun, register = asyncio.Event(), run.cache.register_processes

        async def slow(*args: Any) -> list[str]:
            begun.set()
            await clock.sleep(1.0)
            return await register(*args)

        monkeypatch.setattr(run.cache, "register_processes", slow)
        run.entries.start(BTC)
        await begun.wait()
        stopping = asyncio.create_task(run.entries.stop([BTC]))
        await clock.advance(2.0)
        await stopping
        assert (await run.shown())["sim:BTC/USDT"].status is ProcessStatus.STOPPED


async def test_an_entry_that_another_daemon_took_over_and_ended_is_reclaimed(
    store: LiveStore, clock: ManualClock
) -> None:
    async with running(store, clock) as run:
        run.entries.start(BTC)
        run.tick()
        await clock.advance(0.1)
        other = await run.cache.register_process(
            ProcessType.TICK, "sim:BTC/USDT", {}, "", ProcessStatus.RUNNING
        )
        await clock.advance(0.1)
        run.entries.reclaim(await run.shown())
        await clock.advance(0.1)
        assert (await run.shown())["sim:BTC/USDT"].process_id == other, "it is collected there"
        await run.cache.stop_process(other)
        run.entries.reclaim(await run.shown())
        await clock.advance(0.1)
        entry = (await run.shown())["sim:BTC/USDT"]
        assert entry.process_id != other
        assert entry.status is ProcessStatus.RUNNING


async def test_what_the_store_does_not_take_is_retried_and_said_once(
    store: LiveStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = store.put

    async def fail(space: str, values: Sequence[LiveValue]) -> int:
        raise StoreUnreachable("memory:", "planned")

    async with running(store, clock) as run:
        monkeypatch.setattr(store, "put", fail)
        run.entries.start(BTC)
        await clock.advance(10.0)
        assert [type(each) for each in run.facts] == [EntriesNotWritten]
        await run.entries.stop([BTC])  # does not raise
        run.entries.start(ETH)
        monkeypatch.setattr(store, "put", put)
        await clock.advance(5.0)
        assert list(await run.shown()) == ["sim:ETH/USDT"]
