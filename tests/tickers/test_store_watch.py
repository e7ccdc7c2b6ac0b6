"""A store that lost its data is noticed, and all that is current is written again."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from tests.tickers.conftest import BTC, ETH, Simulate, entries, settings_for, ticked, until

from penstock.clock import ManualClock
from penstock.errors import StoreUnreachable
from penstock.live import process_cache, tick_cache
from penstock.storage.cache import LiveStore, open_live_store
from penstock.telemetry import Fact
from penstock.tickers import LiveTickerCollector
from penstock.tickers.facts import StoreEmptied
from penstock.tickers.store_watch import SPACE, StoreWatch


async def clear(store: LiveStore, space: str) -> int:
    keys = [each.key for each in await store.find(space)]
    await store.remove(space, keys)
    return len(keys)


async def test_a_store_that_lost_its_data_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(1_000_000)
    store = await open_live_store("memory:", clock=clock)
    facts: list[Fact] = []
    times: list[int] = []
    watch = StoreWatch(store, clock, facts.append, lambda: times.append(clock.now_ms()))
    running = asyncio.create_task(watch.run())
    await clock.advance(200.0)
    assert not times, "its own value does not expire"

    assert await clear(store, SPACE) == 1
    await clock.advance(1.0)
    assert len(times) == len(facts) == 1
    assert isinstance(facts[0], StoreEmptied)
    await clock.advance(5.0)
    assert len(times) == 1

    async def away(*_: object) -> None:
        raise StoreUnreachable("memory:", "is away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "get", away)
        await clock.advance(10.0)
    await clock.advance(10.0)
    assert len(times) == 1, "it was away, and kept its data"
    running.cancel()
    await asyncio.wait([running])
    await store.close()


async def test_ticks_and_entries_are_written_again(tmp_path: Path, simulate: Simulate) -> None:
    server = await simulate()
    settings = settings_for(tmp_path, server)
    url = f"sqlite:{tmp_path / 'live.db'}"
    collector = LiveTickerCollector([BTC, ETH], settings=settings)
    await collector.start_collection()
    try:
        await until(lambda: ticked(url, BTC, ETH))
        # From now on no tick comes, so what is there afterwards was written again.
        async with aiohttp.ClientSession() as http:
            body = {"streams": "*"}
            async with http.post(f"http://{server.address}/_sim/hold", json=body) as answer:
                assert answer.status == 200
        seen: list[int] = []

        def still() -> bool:
            seen.append(collector.received)
            return len(seen) > 10 and seen[-10] == seen[-1]

        await until(still)
        store = await open_live_store(url)
        for space in (tick_cache.SPACE, process_cache.SPACE, SPACE):
            assert await clear(store, space)
        await store.close()
        await until(lambda: ticked(url, BTC, ETH))

        async def shown() -> bool:
            return {BTC.key, ETH.key} <= (await entries(url)).keys()

        await until(shown)
    finally:
        await collector.stop_collection()
