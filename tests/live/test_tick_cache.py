"""The latest tick of every market: the newest wins, and none is served past its time."""

import asyncio
import os
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.ticks import ticker
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock, SystemClock
from penstock.errors import BadTick, MalformedSymbol, PenstockError
from penstock.live import TickCache
from penstock.live.tick_cache import key_of, order_of
from penstock.market.events import Ticker24h, Trade
from penstock.market.symbol import Symbol
from penstock.storage.cache import LiveValue, open_live_store, replaces

CLOCK = SystemClock()


@pytest.fixture
async def cache(live_url: str) -> AsyncIterator[TickCache]:
    store = await open_live_store(live_url, clock=CLOCK, timeout_s=30)
    yield TickCache(store, clock=CLOCK)
    await store.close()


async def test_a_tick_is_found_by_any_spelling_of_its_symbol(cache: TickCache) -> None:
    tick = ticker(CLOCK, last_text="1.510", at_ns=7)

    assert await cache.set_ticker(tick)

    for symbol in ("BTC/USDT", "btc_usdt", "BTC-USDT", Symbol("btc", "usdt")):
        found = await cache.get_ticker(symbol, "sim")
        assert found is not None
        assert found.ticker == tick
        assert (found.exchange, found.symbol, found.last) == (
            "sim", Symbol("BTC", "USDT"), Decimal("1.510"),
        )  # fmt: skip
        assert (found.bid, found.ask) == (Decimal("1.50"), None)
        assert not found.stale or found.age_ms > 60_000
    assert await cache.get_ticker("BTC/USDT", "other") is None
    assert await cache.get_ticker("ETH/USDT", "sim") is None


async def test_all_ticks_are_found_or_those_of_one_exchange(cache: TickCache) -> None:
    ticks = [ticker(CLOCK, symbol=f"S{n}/USD", exchange=name) for name in "ab" for n in range(3)]

    assert await cache.set_tickers(ticks) == 6
    assert await cache.set_tickers([]) == 0

    assert [tick.ticker for tick in await cache.get_all()] == ticks
    assert [tick.ticker for tick in await cache.get_all("b")] == ticks[3:]
    assert await cache.get_all("c") == []


async def test_a_tick_older_than_the_stored_one_never_replaces_it(cache: TickCache) -> None:
    newest = ticker(CLOCK, "5", update_id=10, age_s=1)
    assert await cache.set_ticker(newest)

    # Received later, on another connection.
    assert not await cache.set_ticker(ticker(CLOCK, "4", update_id=9))
    assert not await cache.set_ticker(ticker(CLOCK, "3", at_ns=5, age_s=2)), "by receive time"

    found = await cache.get_ticker("BTC/USDT", "sim")
    assert found is not None
    assert found.ticker == newest
    assert await cache.set_ticker(ticker(CLOCK, "6", update_id=11, age_s=2))


async def test_subscribers_get_the_present_ticks_and_then_changes(cache: TickCache) -> None:
    await cache.set_tickers([ticker(CLOCK), ticker(CLOCK, symbol="ETH/USDT")])
    async with asyncio.timeout(PATIENCE_S), cache.subscribe() as batches:
        assert len(await anext(batches)) == 2
        async with cache.subscribe("sim", "eth_usdt") as of_one:
            assert [tick.symbol.unified for tick in await anext(of_one)] == ["ETH/USDT"]
            await cache.set_ticker(ticker(CLOCK, "7"))
            await cache.set_ticker(ticker(CLOCK, "8", "ETH/USDT"))
            [tick] = await anext(of_one)
            assert (tick.bid, tick.stale) == (Decimal(8), False)
        seen = set[str]()
        while seen < {"BTC/USDT", "ETH/USDT"}:
            seen |= {tick.symbol.unified for tick in await anext(batches)}


async def test_a_tick_that_is_written_late_expires_in_time(live_url: str) -> None:
    """Its time is counted from when it was received: the store may have been away."""
    store = await open_live_store(live_url, clock=CLOCK, timeout_s=30)
    cache = TickCache(store, clock=CLOCK)

    assert not await cache.set_ticker(ticker(CLOCK, age_s=301))
    assert await cache.get_all() == []
    await cache.set_ticker(ticker(CLOCK, age_s=200))
    found = await cache.get_ticker("BTC/USDT", "sim")
    assert found is not None
    assert found.age_ms >= 200_000
    assert found.stale
    await cache.set_ticker(ticker(CLOCK, age_s=299.8, symbol="ETH/USDT"))
    async with asyncio.timeout(PATIENCE_S):
        while await cache.get_ticker("ETH/USDT", "sim"):  # noqa: ASYNC110 (the time is the store's)
            await asyncio.sleep(0.01)
    await store.close()


async def test_a_tick_ages_is_stale_and_is_gone_at_its_ttl() -> None:
    clock = ManualClock(1_700_000_000_000)
    cache = TickCache(await open_live_store("memory:", clock=clock), clock=clock)
    await cache.set_ticker(ticker(clock))
    seen = []
    for _ in range(5):
        found = await cache.get_ticker("BTC/USDT", "sim")
        seen.append(None if found is None else (found.age_ms, found.stale))
        await clock.advance(75)

    assert seen == [(0, False), (75_000, True), (150_000, True), (225_000, True), None]
    assert await cache.get_all() == []


async def test_a_subscriber_that_reads_late_gets_nothing_that_has_expired() -> None:
    clock = ManualClock(1_700_000_000_000)
    cache = TickCache(await open_live_store("memory:", clock=clock), clock=clock)
    async with cache.subscribe() as batches:
        await cache.set_tickers([ticker(clock), ticker(clock, symbol="ETH/USDT")])
        await clock.advance(100)
        await cache.set_ticker(ticker(clock, "2"))
        await clock.advance(250)

        [tick] = await anext(batches)

        assert (tick.symbol.unified, tick.age_ms, tick.stale) == ("BTC/USDT", 250_000, True)


async def test_what_is_no_tick_is_refused_and_nothing_is_stored(cache: TickCache) -> None:
    trade = Trade(
        exchange="sim", symbol=Symbol("A", "B"), received_at_ns=1, id=1, at_ns=1,
        price_text="1", quantity_text="1", taker="buy",
    )  # fmt: skip
    for odd in (
        None, "BTC/USDT", object(), trade, ticker(CLOCK, exchange=""),
        ticker(CLOCK, exchange=None), ticker(CLOCK, exchange="a\nb"),
        cast("Any", ticker(CLOCK)).__class__(exchange="sim", symbol="BTC/USDT", received_at_ns=1),
        cast("Any", ticker(CLOCK)).__class__(
            exchange="sim", symbol=Symbol("A", "B"), received_at_ns=None
        ),
    ):  # fmt: skip
        with pytest.raises(BadTick, match=r"penstock\.market\.events\.Ticker") as refusal:
            await cache.set_tickers([ticker(CLOCK), cast("Any", odd)])
        assert isinstance(refusal.value, ValueError)
    for symbol in (None, 7, object(), "BTCUSDT", "", "/", "BTC/\0"):
        with pytest.raises(MalformedSymbol):
            await cache.get_ticker(cast("Any", symbol), "sim")
    assert await cache.get_all() == []


async def test_values_of_others_are_passed_over(live_url: str) -> None:
    store = await open_live_store(live_url, timeout_s=30)
    cache = TickCache(store, clock=CLOCK)
    await store.put("ticks", [
        LiveValue("sim:BTC/USDT", b'{"kind":"of a later version"}', 300_000),
        LiveValue("sim:ETH/USDT", b'[1,"x"]', 300_000),
    ])  # fmt: skip

    assert await cache.get_ticker("BTC/USDT", "sim") is None
    assert await cache.get_all() == []
    assert await cache.set_ticker(ticker(CLOCK))
    assert len(await cache.get_all()) == 1
    await store.close()


async def test_statistics_of_24_hours_are_ticks_too(cache: TickCache) -> None:
    day = Ticker24h(
        exchange="sim", symbol=Symbol("A", "B"), received_at_ns=CLOCK.now_ns(), volume_text="1"
    )

    await cache.set_ticker(day)

    found = await cache.get_ticker("A/B", "sim")
    assert found is not None
    assert found.ticker == day


async def test_it_says_how_to_open_it() -> None:
    with pytest.raises(RuntimeError, match="async with TickCache"):
        await TickCache().get_all()


async def test_without_arguments_it_uses_the_default_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with TickCache() as cache:
        await cache.set_ticker(ticker(CLOCK))
    async with TickCache() as cache:
        assert await cache.get_ticker("BTC/USDT", "sim") is not None

    assert "live.db" in os.listdir(tmp_path / "penstock-data")  # noqa: PTH208


async def test_an_address_that_is_wrong_opens_nothing() -> None:
    with pytest.raises(PenstockError, match="sqlite:"):
        async with TickCache("sqllite:x"):
            pass


def test_the_key_is_exchange_and_unified_symbol() -> None:
    assert key_of("sim", "btc_usdt") == "sim:BTC/USDT"


ticks = st.builds(
    lambda update_id, at_ns, received: ticker(
        ManualClock(received), update_id=update_id, at_ns=at_ns
    ),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 5),
    st.integers(0, 5),
)


@given(ticks, ticks)
def test_update_ids_decide_then_the_exchanges_time_then_the_receive_time(
    one: Any, other: Any
) -> None:
    newer = replaces(order_of(one), order_of(other))

    if None not in (one.update_id, other.update_id):
        assert newer == (one.update_id >= other.update_id)
    elif one.update_id is other.update_id and None not in (one.at_ns, other.at_ns):
        assert newer == (one.at_ns >= other.at_ns)
    else:
        assert newer == (one.received_at_ns >= other.received_at_ns)


@given(st.permutations(range(5)), st.integers(1, 5))
async def test_in_any_order_and_any_batches_the_newest_is_left(
    numbers: list[int], size: int
) -> None:
    clock = ManualClock(1_700_000_000_000)
    cache = TickCache(await open_live_store("memory:", clock=clock), clock=clock)
    ticks = [ticker(clock, str(number), update_id=number) for number in numbers]
    for start in range(0, len(ticks), size):
        await cache.set_tickers(ticks[start : start + size])

    [left] = await cache.get_all()

    assert left.ticker.update_id == 4
