"""Several collectors divide the markets of one exchange, on one data folder and one simulator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.collect.collector import Collector
from penstock.collect.facts import ShardsDiffer
from penstock.collect.status import read_status
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.coverage.model import GapRow
from penstock.coverage.reading import SeriesCoverage, read_ledger, series_of
from penstock.errors import SlotInUse
from penstock.market.market_shard import MarketShard
from penstock.storage.log import LogReader, open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store
from penstock.telemetry import Fact, Listener, quiet

MARKETS = ("btc_usdt", "eth_usdt", "bnb_usdt", *(f"fast0{n}_usdt" for n in range(1, 5)))
"""All have about sixty trades a second, so that each is soon recorded."""


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncIterator[Settings]:
    simulated = Simulator(port=0, uplink_ms=0, latency_ms=1, symbols=MARKETS)
    server = build_simulator(simulated, SystemClock(), exchange="binance")
    await server.start()
    urls = {"binance": f"http://{server.address}"}
    yield Settings(
        collect=Collect(data_dir=str(tmp_path), channels=("trades", "book_deltas")),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
    )
    await server.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (no event is set when a market trades)
            await asyncio.sleep(0.05)


def recorded(collectors: list[Collector]) -> set[tuple[str, str]]:
    return {
        (each.channel, each.symbol)
        for collector in collectors
        for each in collector.reporter.status("running").streams
    }


ALL = {(channel, market) for channel in ("trades", "book_deltas") for market in MARKETS}


@asynccontextmanager
async def collecting(
    settings: Settings, *shards: MarketShard | None, listener: Listener = quiet
) -> AsyncIterator[list[Collector]]:
    """Collect in these shards, or unsharded for None, until each market was recorded."""
    stop, running = asyncio.Event(), list[asyncio.Task[None]]()
    async with AsyncExitStack() as stack:
        found = [
            await stack.enter_async_context(
                open_collector(settings, "binance", SystemClock(), listener, shard=shard)
            )
            for shard in shards
        ]
        running = [asyncio.create_task(each.run(MARKETS, stop)) for each in found]
        try:
            yield found
        finally:
            stop.set()
            await asyncio.gather(*running)


def divided(count: int) -> list[MarketShard]:
    return [MarketShard(number, count) for number in range(count)]


def trades_in(log: LogReader, market: str) -> list[tuple[int, str]]:
    """The ids of all trades of a market and their slots, as readers see them."""
    found = log.scan(Stream("binance", "trades", market))
    return [(id_of_key(stored.key) or 0, stored.slot) for stored in found]


async def ledger_of(folder: Path) -> tuple[list[SeriesCoverage], list[GapRow]]:
    store = await open_store(f"sqlite:{folder}/state.db")
    try:
        ledger = await read_ledger(store, "binance")
    finally:
        await store.close()
    return series_of(ledger), ledger.gaps


async def test_every_trade_is_recorded_once_however_often_the_shards_change(
    settings: Settings, tmp_path: Path
) -> None:
    turns: list[list[MarketShard | None]] = [[*divided(3)], [*divided(2)], [None], [*divided(3)]]
    for shards in turns:
        async with collecting(settings, *shards) as collectors:
            await until(lambda running=collectors: recorded(running) >= ALL)  # type: ignore[misc]
            markets = [sorted(each.slug for each in c._symbols) for c in collectors]
            assert sorted(name for some in markets for name in some) == sorted(MARKETS)
            statuses = [ids for c in collectors for ids in c.continuity.status()]

    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        trades = {market: trades_in(log, market) for market in MARKETS}
        held = [
            (number, market)
            for slot in log.slots()
            for market in MARKETS
            for stored in log.numbers(Stream("binance", "trades", market), slot, 1)
            for number in [id_of_key(stored.key)]
        ]
        deltas = {
            market: [
                each.received_at_ns for each in log.scan(Stream("binance", "book_deltas", market))
            ]
            for market in MARKETS
        }
    series, gaps = await ledger_of(tmp_path)

    assert len(held) == len(set(held)), "a trade is in two slots"
    assert len({slot for market in MARKETS for _, slot in trades[market]}) == 4
    for market, found in trades.items():
        ids = {number for number, _ in found}
        lost = {
            number
            for gap in gaps
            if (gap.symbol, gap.channel) == (market, "trades")
            for number in range(gap.first, gap.last + 1)
        }
        missing = [span for each in statuses if each.symbol == market for span in each.missing]
        assert all(not ids & set(range(a, b + 1)) for a, b in missing), "another slot has it"
        assert not ids & lost, "a gap is reported that is none"
        assert ids | lost == set(range(min(ids), max(ids) + 1)), "one is missing without a gap"
        silent = [
            (gap.first, gap.last)
            for gap in gaps
            if (gap.symbol, gap.channel) == (market, "book_deltas")
        ]
        assert not [at for at in deltas[market] for a, b in silent if a <= at <= b]
    assert not [each for each in series if each.channel == "trades" and each.unreported]


async def test_a_shard_has_a_slot_of_its_own(settings: Settings, tmp_path: Path) -> None:
    shard = MarketShard(1, 3)
    async with collecting(settings, shard) as collectors:
        own = [market for market in MARKETS if shard.owns(market)]
        await until(lambda: {symbol for _, symbol in recorded(collectors)} >= set(own))
        with pytest.raises(SlotInUse, match="collect-binance-1"):
            async with open_collector(settings, "binance", SystemClock(), shard=MarketShard(1, 2)):
                pass

    status = read_status(tmp_path, "collect-binance-1")
    assert status is not None
    assert (status.shard, {each.symbol for each in status.streams}) == ("1/3", set(own))


async def test_another_number_of_shards_is_warned_of(settings: Settings) -> None:
    facts: list[Fact] = []
    async with collecting(settings, MarketShard(0, 2)) as collectors:
        await until(lambda: bool(recorded(collectors)))
        await collectors[0].reporter.report()
        async with collecting(
            settings, MarketShard(2, 3), MarketShard(1, 2), listener=facts.append
        ):
            pass

    found = [each for each in facts if isinstance(each, ShardsDiffer)]
    assert [(each.shard, each.others) for each in found] == [("2/3", ["collect-binance-0: 0/2"])]


async def test_markets_of_a_shard_are_added_and_removed_by_name(settings: Settings) -> None:
    shard = MarketShard(0, 2)
    own = {market for market in MARKETS if shard.owns(market)}
    async with collecting(settings, shard) as [collector]:
        await until(lambda: bool(recorded([collector])))
        await collector.replace(["BTCUSDT", "btc_usdt", "ETH/USDT"])
        left = {each.slug for each in collector._symbols}
        await collector.replace(MARKETS)
        again = {each.slug for each in collector._symbols}

    assert left == own & {"btc_usdt", "eth_usdt"}
    assert again == own
