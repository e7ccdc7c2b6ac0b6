"""A fetcher, from its settings to its log, against every simulated exchange."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.quick_limits import simulated_limits
from tests.waiting import PATIENCE_S

from penstock.app.fetcher import open_fetcher
from penstock.app.simulator import build_simulator
from penstock.clock import ManualClock, SystemClock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import FetchDone, FetchFailed
from penstock.collect.fetch_schedule import FetchTiming
from penstock.collect.fetcher import Fetcher, FetchLoop
from penstock.collect.fetches import Fetched
from penstock.collect.status import FetchStatus, read_status
from penstock.config import Collect, Exchanges, Fetch, FetchKind, Requests, Settings, Simulator
from penstock.connectors.markets import Markets
from penstock.errors import (
    ConfigError,
    ConnectorPaused,
    ExchangeUnreachable,
    NoAnswer,
    SlotInUse,
    StorageFull,
    UnknownExchange,
    UnknownSymbol,
)
from penstock.exchanges import registry as exchanges
from penstock.exchanges.gateway import Gateway
from penstock.market.events import Event, Trade
from penstock.market.symbol import Symbol
from penstock.runtime.stores import open_state
from penstock.simulator import registry as simulators
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.judge import Evidence, Judge, SeenTrade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.telemetry import Fact

every_exchange = pytest.mark.parametrize("name", simulators.names())
pytestmark = pytest.mark.usefixtures("quick_kraken")


@asynccontextmanager
async def simulated(name: str, faults: str = "") -> AsyncIterator[SimulatorServer]:
    limits = simulated_limits(name)
    settings = Simulator(port=0, uplink_ms=0, latency_ms=1, faults=faults, limits=limits)
    server = build_simulator(settings, SystemClock(), exchange=name)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def wanted(name: str, address: str, folder: Path, fetch: Fetch) -> Settings:
    return Settings(
        collect=Collect(data_dir=str(folder)),
        fetch=fetch,
        exchanges=Exchanges(rest_urls={name: f"http://{address}"}),
        requests=Requests(),
    )


def every(seconds: float, *what: FetchKind) -> Fetch:
    return Fetch(
        what=what, every=seconds, info_every=seconds, first_delay=0.05, longest_delay=0.2,
        max_requests=6000, window=60.0, book_depth=10,
    )  # fmt: skip


def status_of(fetcher: Fetcher) -> dict[tuple[str, str], FetchStatus]:
    found = fetcher.reporter.status("running").fetches
    return {(each.what, each.symbol): each for each in found}


async def until(true: Callable[[], bool], running: asyncio.Task[None]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            if running.done():
                running.result()
                raise AssertionError("it ended by itself")
            await asyncio.sleep(0.1)


@asynccontextmanager
async def fetching(
    settings: Settings, name: str, symbols: list[str], facts: list[Fact] | None = None
) -> AsyncIterator[tuple[Fetcher, asyncio.Task[None]]]:
    told = [] if facts is None else facts
    async with open_fetcher(settings, name, symbols, SystemClock(), told.append) as fetcher:
        stop = asyncio.Event()
        running = asyncio.create_task(fetcher.run(stop))
        try:
            yield fetcher, running
        finally:
            stop.set()
            async with asyncio.timeout(PATIENCE_S):
                await running


def recorded(folder: Path, name: str, channel: str, slug: str) -> list[Event]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        return [stored.event for stored in reader.scan(Stream(name, channel, slug))]


def trades_of(folder: Path, name: str, slug: str) -> list[Trade]:
    found = recorded(folder, name, "trades", slug)
    return [event for event in found if isinstance(event, Trade)]


async def judged(server: SimulatorServer, name: str, slug: str, trades: list[Trade]) -> None:
    """Hold trades against the ledger: none wrong, and none missing between the first and last."""
    evidence = Evidence(synced=True, consecutive=True)
    for each in trades:
        seen = SeenTrade(each.id, each.at_ms, each.price, each.quantity, each.taker == "buy")
        evidence.trades.append(seen)
    evidence.consecutive = "trades" in exchanges.load(name).consecutive
    async with ClientSession() as http:
        findings = await Judge(http, f"http://{server.address}").judge({slug: evidence})
    assert findings.honest, findings
    assert findings.trades_missing == 0, findings


async def another_trade(server: SimulatorServer, slug: str) -> None:
    """Wait until one more trade has happened."""

    async def ask(question: str, **query: object) -> Any:
        asked = {name: str(value) for name, value in query.items()}
        async with http.get(f"http://{server.address}/_sim/{question}", params=asked) as answer:
            return await answer.json()

    async def next_id() -> int:
        at_ms = (await ask("state"))["at_ms"]
        return int((await ask("ledger/ids", symbol=slug, at_ms=at_ms))["next_trade_id"])

    async with ClientSession() as http, asyncio.timeout(PATIENCE_S):
        before = await next_id()
        while await next_id() == before:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.05)


@every_exchange
async def test_everything_is_fetched_again_and_again(name: str, tmp_path: Path) -> None:
    async with simulated(name) as server:
        slugs = sorted(server.symbols)[:1]
        settings = wanted(name, server.address, tmp_path, every(0.2))
        facts: list[Fact] = []
        async with fetching(settings, name, slugs, facts) as (fetcher, running):

            def often() -> bool:
                return all(each.fetches >= 2 for each in status_of(fetcher).values())

            await until(often, running)

    assert len([fact for fact in facts if isinstance(fact, FetchDone)]) >= 2 * 4
    assert not [fact for fact in facts if isinstance(fact, FetchFailed)]
    for slug in slugs:
        assert trades_of(tmp_path, name, slug)
        assert len(recorded(tmp_path, name, "book_snapshots", slug)) >= 2
        assert recorded(tmp_path, name, "tickers", slug)
    status = read_status(tmp_path, f"fetch-{name}")
    assert status is not None
    assert status.state == "stopped"
    assert {(each.what, each.symbol) for each in status.fetches} == {
        ("info", ""),
        ("tickers", ""),
        *((what, slug) for what in ("trades", "book") for slug in slugs),
    }
    assert all(each.last_ms is not None and not each.errors for each in status.fetches)


@every_exchange
async def test_trades_go_on_where_the_log_ends_and_none_is_left_out(
    name: str, tmp_path: Path
) -> None:
    async with simulated(name) as server:
        slug = sorted(server.symbols)[0]
        settings = wanted(name, server.address, tmp_path, every(0.3, "trades"))
        for _ in range(2):
            async with fetching(settings, name, [slug]) as (fetcher, running):

                def some_more(fetcher: Fetcher = fetcher) -> bool:
                    fetch = status_of(fetcher)["trades", slug]
                    return fetch.fetches >= 4 and fetch.records >= 1

                await until(some_more, running)
            await another_trade(server, slug)  # which has to be caught up with
        trades = trades_of(tmp_path, name, slug)
        await judged(server, name, slug, trades)

    ids = [trade.id for trade in trades]
    assert len(ids) == len(set(ids))
    assert {trade.source for trade in trades} == {"rest"}
    if "trades" in exchanges.load(name).consecutive:
        assert all(after == before + 1 for before, after in pairwise(ids))


@every_exchange
async def test_trades_that_were_missed_for_long_are_caught_up_with(
    name: str, tmp_path: Path
) -> None:
    """The log ends some pages ago, as if the fetcher had been away."""
    async with simulated(name) as server:
        slug = sorted(server.symbols)[0]
        symbol, folder = Symbol.parse(slug), tmp_path
        settings = wanted(name, server.address, folder, every(5.0, "trades"))
        async with open_fetcher(settings, name, [slug], SystemClock()) as fetcher:
            context = fetcher.loops[0]._fetch.context  # type: ignore[attr-defined]
            latest = (await context.ask(context.rest.recent_trades(symbol, 1)))[-1]
            pages = {
                "from_id": latest.id - 2_500,
                "after_ns": (latest.at_ms - 100_000) * 1_000_000,
                "before_id": latest.id,
            }
            page = await context.ask(
                context.rest.trades(symbol, pages[context.exchange.trade_pages])
            )
            await context.record(page.trades[:1])
            stop = asyncio.Event()
            running = asyncio.create_task(fetcher.run(stop))

            def caught_up() -> bool:
                latest_id: int = latest.id
                return trades_of(folder, name, slug)[-1].id >= latest_id

            await until(caught_up, running)
            stop.set()
            await running
        trades = trades_of(folder, name, slug)
        await judged(server, name, slug, trades)

    assert trades[0].id == page.trades[0].id
    assert len(trades) > 100


async def test_failures_are_counted_slow_down_and_harm_no_other_loop(tmp_path: Path) -> None:
    async with simulated(
        "binance", faults="http500@/api/v3/depth=1,cutbody@/api/v3/ticker*=1"
    ) as sim:
        slug = sorted(sim.symbols)[0]
        settings = wanted("binance", sim.address, tmp_path, every(0.1))
        facts: list[Fact] = []
        async with fetching(settings, "binance", [slug], facts) as (fetcher, running):

            def seen() -> bool:
                found = status_of(fetcher)
                return (
                    found["book", slug].errors >= 4
                    and found["tickers", ""].errors >= 4
                    and found["trades", slug].fetches >= 3
                )

            await until(seen, running)
            found = status_of(fetcher)

    assert found["trades", slug].errors == 0
    assert found["book", slug].fetches == 0
    assert found["book", slug].reason
    failures = [fact for fact in facts if isinstance(fact, FetchFailed) and fact.what == "book"]
    assert [fact.delay_s for fact in failures[:4]] == [0.05, 0.1, 0.2, 0.2]


async def test_what_is_listed_is_kept_for_the_whole_fleet(tmp_path: Path) -> None:
    async with simulated("binance") as server:
        settings = wanted("binance", server.address, tmp_path, every(0.2, "info"))
        async with fetching(settings, "binance", []) as (fetcher, running):
            await until(lambda: status_of(fetcher)["info", ""].fetches >= 2, running)
    async with open_state(settings, SystemClock()) as store:
        listed = await Markets(store, NoGateways()).of("binance")

    assert Symbol.parse(sorted(server.symbols)[0]) in set(listed)


class NoGateways:
    async def of(self, exchange_id: str) -> Gateway:
        raise AssertionError(f"{exchange_id} need not be asked")


@pytest.mark.parametrize(
    ("name", "symbols", "what", "error"),
    [
        ("binanse", ["btc_usdt"], (), UnknownExchange),
        ("binance", ["btc_usdtt"], (), UnknownSymbol),
        ("binance", [], ("trades",), ConfigError),
    ],
)
async def test_what_cannot_be_fetched_is_said_before_the_log_is_touched(
    name: str,
    symbols: list[str],
    what: tuple[FetchKind, ...],
    error: type[Exception],
    tmp_path: Path,
) -> None:
    async with simulated("binance") as server:
        settings = wanted("binance", server.address, tmp_path, Fetch(what=what))
        with pytest.raises(error):
            async with open_fetcher(settings, name, symbols, SystemClock()):
                raise AssertionError("it was opened")

    assert not (tmp_path / "log").exists()
    assert not (tmp_path / "status").exists()


async def test_an_exchange_that_cannot_be_reached_is_said_before_the_log_is_touched(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    settings = wanted("binance", f"127.0.0.1:{unused_tcp_port}", tmp_path, Fetch())
    with pytest.raises(ExchangeUnreachable):
        async with open_fetcher(settings, "binance", ["btc_usdt"], SystemClock()):
            raise AssertionError("it was opened")

    assert not (tmp_path / "log").exists()


async def test_two_fetchers_of_one_exchange_do_not_share_a_folder(tmp_path: Path) -> None:
    async with simulated("binance") as server:
        settings = wanted("binance", server.address, tmp_path, every(1.0, "info"))
        async with fetching(settings, "binance", []):
            with pytest.raises(SlotInUse):
                async with open_fetcher(settings, "binance", [], SystemClock()):
                    raise AssertionError("it was opened")


class Told:
    """Something to fetch that does as it is told."""

    what, symbol = "toy", ""

    def __init__(self, clock: ManualClock, script: list[Exception | Fetched | float]) -> None:
        self.clock, self.script = clock, script
        self.at_s: list[float] = []

    async def step(self) -> Fetched:
        self.at_s.append(self.clock.monotonic_ns() / 1e9)
        told = self.script.pop(0) if self.script else Fetched(1)
        if isinstance(told, float):
            await self.clock.sleep(told)
            return Fetched(1)
        if isinstance(told, Exception):
            raise told
        return told


async def lived(script: list[Exception | Fetched | float], seconds: float) -> Told:
    clock = ManualClock()
    told = Told(clock, script)
    loop = FetchLoop("toy", told, FetchTiming(10.0, 1.0, 60.0), clock)
    availability = RestAvailability("toy", clock)
    checking = asyncio.create_task(availability.run())
    running = asyncio.create_task(loop.run(lambda _: None, availability))
    await clock.advance(seconds)
    if running.done():
        running.result()
    running.cancel()
    checking.cancel()
    return told


async def test_the_interval_is_from_beginning_to_beginning_and_an_overrun_is_followed_at_once() -> (
    None
):
    told = await lived([4.0, 25.0, 2.0], 60)

    assert told.at_s == [0, 10, 35, 45, 55]


async def test_errors_double_the_wait_and_a_success_resets_it() -> None:
    lost = NoAnswer("toy", "/p", "silence")
    told = await lived([lost, lost, lost, Fetched(0), lost], 40)

    assert told.at_s == [0, 1, 3, 7, 17, 18, 28, 38]


async def test_what_is_behind_is_fetched_without_a_pause() -> None:
    told = await lived([Fetched(1000, more=True)] * 3, 15)

    assert told.at_s == [0, 0, 0, 0, 10]


@pytest.mark.parametrize(
    "reason", [StorageFull("sqlite:here", "no space"), ConnectorPaused("toy", "paused")]
)
async def test_while_nothing_can_be_asked_it_waits_and_then_goes_on(reason: Exception) -> None:
    told = await lived([reason], 15)
    assert told.script == []
    assert len(told.at_s) > 1
