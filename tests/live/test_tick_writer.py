"""Ticks written in the background: in batches, with bounded memory, and right after an outage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from tests.live.ticks import ticker
from tests.servers import RedisServer
from tests.waiting import PATIENCE_S

from penstock.clock import Clock, ManualClock, SystemClock
from penstock.errors import BadTick, StoreUnreachable
from penstock.live import TickCache, TickWriter
from penstock.live.facts import TicksNotWritten, TicksWritten
from penstock.live.tick_writer import Pending, WriteCounts
from penstock.market.events import Ticker
from penstock.storage.cache import LiveStore, LiveValue, open_live_store
from penstock.telemetry import Fact

CLOCK = SystemClock()
MARKETS = ("A/X", "B/X", "C/X")


class Away(LiveStore):
    """A store that can be away."""

    away = False

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        if self.away:
            raise StoreUnreachable("here", "is away")
        return await super().put(space, values)


async def open_away(clock: Clock) -> Away:
    return Away((await open_live_store("memory:", clock=clock))._backend, clock, 5)


@asynccontextmanager
async def running(writer: TickWriter) -> AsyncIterator[None]:
    task = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("coalesce", [True, False])
async def test_what_is_offered_is_written(live_url: str, coalesce: bool) -> None:
    store = await open_live_store(live_url, clock=CLOCK, timeout_s=30)
    cache = TickCache(store, clock=CLOCK)
    writer = TickWriter(cache, CLOCK, coalesce=coalesce)
    async with running(writer):
        for number in range(300):
            for market in MARKETS:
                writer.offer(ticker(CLOCK, str(number), market, update_id=number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        await writer.drain()

        assert [tick.ticker.bid_text for tick in await cache.get_all()] == ["299"] * 3
    counts = writer.counts
    assert counts.offered == 900 == counts.written + counts.superseded
    assert (counts.superseded > 0) == coalesce
    assert (counts.expired, counts.dropped, counts.failures, writer.waiting) == (0, 0, 0, 0)
    assert counts.batches < 20
    await store.close()


async def test_while_the_store_is_away_the_newest_of_each_market_waits() -> None:
    clock, facts = ManualClock(1_700_000_000_000), list[Fact]()
    store = await open_away(clock)
    cache = TickCache(store, clock=clock)
    for coalesce in (True, False):
        facts.clear()
        writer = TickWriter(cache, clock, coalesce=coalesce, listener=facts.append)
        async with running(writer):
            store.away = True
            for second in range(20):
                for market in MARKETS:
                    tick = ticker(clock, str(second), market, update_id=second + 20 * coalesce)
                    writer.offer(tick)
                await clock.advance(1)
                assert writer.waiting == 3
            store.away = False
            await clock.advance(5)
            await writer.drain()

        assert [tick.ticker.bid_text for tick in await cache.get_all()] == ["19"] * 3
        assert [type(fact) for fact in facts] == [TicksNotWritten, TicksWritten], "once each"
        counts = writer.counts
        assert counts.failures > 5
        assert counts.offered == 60 == counts.written + counts.superseded
        await store.remove("ticks", [f"sim:{market}" for market in MARKETS])


async def test_ticks_that_expire_while_the_store_is_away_are_dropped() -> None:
    clock = ManualClock(1_700_000_000_000)
    store = await open_away(clock)
    cache, store.away = TickCache(store, clock=clock), True
    writer = TickWriter(cache, clock)
    async with running(writer):
        writer.offer(ticker(clock, "1", "A/X"))
        await clock.advance(200)
        writer.offer(ticker(clock, "2", "B/X"))
        await clock.advance(200)
        store.away = False
        await clock.advance(5)
        await writer.drain()

    [left] = await cache.get_all()
    assert (left.ticker.bid_text, left.stale) == ("2", True)
    assert left.age_ms >= 200_000, "it is as old as it is, though it was written just now"
    assert writer.counts.expired == 1


@pytest.mark.parametrize("write_s", [0.0, 0.006])
async def test_an_interval_makes_larger_batches(write_s: float) -> None:
    class Slow(Away):
        async def put(self, space: str, values: Sequence[LiveValue]) -> int:
            await clock.sleep(write_s)
            return await super().put(space, values)

    clock = ManualClock(1_700_000_000_000)
    cache = TickCache(Slow((await open_away(clock))._backend, clock, 5), clock=clock)
    writer = TickWriter(cache, clock, interval_s=0.01)
    async with running(writer):
        for number in range(100):
            writer.offer(ticker(clock, update_id=number))
            await clock.advance(0.001)
        await clock.advance(1)

    assert 9 <= writer.counts.batches <= 12
    assert writer.counts.written == writer.counts.batches


async def test_a_cancelled_writer_keeps_what_it_had_not_written() -> None:
    class Hangs(Away):
        async def put(self, space: str, values: Sequence[LiveValue]) -> int:
            await asyncio.get_running_loop().create_future()
            return 0

    store = Hangs((await open_live_store("memory:"))._backend, CLOCK, 5)
    writer = TickWriter(TickCache(store, clock=CLOCK), CLOCK)
    async with running(writer):
        writer.offer(ticker(CLOCK))
        while writer.waiting:  # noqa: ASYNC110 (it waits for the store then)
            await asyncio.sleep(0)

    assert len(writer._pending.take()) == 1


async def test_what_is_no_tick_is_refused_at_once() -> None:
    writer = TickWriter(TickCache(await open_live_store("memory:")), CLOCK)

    with pytest.raises(BadTick):
        writer.offer("BTC/USDT")  # type: ignore[arg-type]

    assert (writer.waiting, writer.counts.offered) == (0, 0)


offers = st.lists(
    st.tuples(st.sampled_from(["add", "take", "fail"]), st.integers(0, 9), st.integers(0, 5)),
    max_size=60,
)


@given(offers, st.booleans(), st.integers(1, 8))
def test_memory_is_bounded_and_the_newest_is_never_lost(
    offers: list[tuple[str, int, int]], coalesce: bool, most: int
) -> None:
    clock, counts = ManualClock(1000), WriteCounts()
    pending = Pending(counts, coalesce=coalesce, most=most)
    offered, stored = dict[str, int](), dict[str, int]()
    written = 0

    def store(tickers: list[Ticker]) -> None:
        nonlocal written
        written += len(tickers)
        for tick in tickers:
            key = tick.symbol.base
            stored[key] = max(stored.get(key, -1), tick.update_id or 0)

    total = 0
    for what, number, market in offers:
        if what == "add":
            total += 1
            pending.add(ticker(clock, symbol=f"M{market}/X", update_id=number))
            offered[f"M{market}"] = max(offered.get(f"M{market}", -1), number)
        elif what == "take":
            store(pending.take())
        else:
            pending.put_back(pending.take())
        assert len(pending) <= most
    store(pending.take())

    assert total == written + counts.superseded + counts.dropped
    if not counts.dropped:
        assert stored == offered


@pytest.mark.parametrize("how", ["killed", "paused", "full"])
async def test_redis_that_was_away_has_the_newest_ticks_soon_after(how: str) -> None:
    with RedisServer() as server:
        store = await open_live_store(server.url, clock=CLOCK, timeout_s=0.5)
        cache = TickCache(store, clock=CLOCK)
        writer = TickWriter(cache, CLOCK, coalesce=False)
        last = 0

        async def offer_until(done: Callable[[], bool]) -> None:
            nonlocal last
            while not done():
                last += 1
                for market in MARKETS:
                    writer.offer(ticker(CLOCK, str(last), market, update_id=last))
                await asyncio.sleep(0.001)

        async with running(writer), away(server, how):
            before = writer.counts.failures
            await offer_until(lambda: writer.counts.failures >= before + 3)
            assert writer.waiting <= 3 + 3 * last
        async with running(writer):
            await offer_until(lambda: writer.counts.written > 0)
            await writer.drain()

            assert [tick.ticker.update_id for tick in await cache.get_all()] == [last] * 3
        counts = writer.counts
        assert counts.offered == 3 * last == counts.written + counts.superseded
        await store.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@asynccontextmanager
async def away(server: RedisServer, how: str) -> AsyncIterator[None]:
    if how == "killed":
        server.stop()
        yield
        server.start()
    elif how == "paused":
        with server.paused():
            yield
    else:
        async with Redis(port=server.port) as admin:
            await admin.config_set("maxmemory", "1")
            yield
            await admin.config_set("maxmemory", "0")
