"""The time in a plan is what the same requests take, by a simulated clock, within 10 %."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.clock import ManualClock
from penstock.exchanges import registry as exchanges
from penstock.exchanges.paged import PageCost, PagedEndpoint
from penstock.ingest.chunks import Batch, Chunk, ChunkQueue
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.parallel import ParallelFetch
from penstock.ingest.planned_time import Budget
from penstock.ingest.planner import Concurrency, Plan, Survey, plan, plan_all
from penstock.ingest.trade_pages import Covered
from penstock.market.interval import MINUTE_MS
from penstock.throttle.local_gate import LocalGate

# Pages are small, since only their number matters.
PAGE = 10
START_MS = 1_700_000_040_000
assert START_MS % MINUTE_MS == 0


class Timed:
    """The requests of plans, through a gate with an exchange's limits, by a simulated clock."""

    def __init__(self, name: str, latency_ms: float, phase_ms: int) -> None:
        self.exchange, self.latency_ms, self.random = exchanges.load(name), latency_ms, Random(5)
        self.clock = ManualClock(START_MS + phase_ms)
        limits = self.exchange.limits(self.clock.now_ms())
        self.gate = LocalGate(self.clock, limits, acquire_timeout_ms=10**9)

    def survey(self, pages: int, category: str) -> Survey:
        cost = next(each for each in self.exchange.paged if each.channel == "trades").costs[0].cost
        return Survey(
            exchange_id=self.exchange.name,
            symbol="BTC/USD",
            endpoints=(PagedEndpoint("trades", "/trades", (PageCost(PAGE, cost),), PAGE),),
            category=category,
            parts=(pages * PAGE,),
            rows=pages * PAGE,
            is_walk=self.exchange.name in ("kraken", "upbit"),
            latency_ms=self.latency_ms,
            budget=Budget(self.gate.used(), self.clock.now_ms()),
        )

    async def run(self, *plans: tuple[Plan, str]) -> float:
        """How many seconds they take, all at a time."""
        begun_ms = self.clock.now_ms()
        running = asyncio.gather(*(self._fetch_all(*each) for each in plans))
        while not running.done():
            await self.clock.advance(0.25)
        await running
        return (self.clock.now_ms() - begun_ms) / 1000

    async def _fetch_all(self, made: Plan, category: str) -> None:
        async def fetch(chunk: Chunk) -> Covered:
            (await self.gate.acquire(made.cost, category)).answered()
            await self.clock.sleep(self.latency_ms * self.random.uniform(0.7, 1.3) / 1000)
            first, last = chunk.ids
            trades: list[Any] = [SimpleNamespace(id=number) for number in range(first, last + 1)]
            return Covered(chunk.ids, trades)

        async def commit(_batch: Batch) -> bool:
            await self.clock.sleep(0.01)
            return True

        queue = ChunkQueue(IdRange(0, made.rows - 1), PAGE)
        await ParallelFetch(queue, fetch, commit, lambda: made.concurrency).run()


@pytest.mark.parametrize(
    ("name", "category", "latency_ms", "pages", "concurrency", "phase_ms"),
    [
        ("coinbase", "", 500, 400, "auto", 0),
        ("coinbase", "", 3000, 600, "auto", 0),
        ("coinbase", "", 3000, 120, 1, 0),
        ("coinbase", "", 500, 200, 6, 0),
        ("coinbase", "", 3000, 400, 45, 0),
        ("binance", "", 100, 150, "auto", 0),
        ("binance", "", 100, 700, "auto", 0),
        ("binance", "", 100, 700, "auto", 25_000),
        ("binance", "", 300, 500, "auto", 55_000),
        ("binance", "", 2000, 1200, "auto", 10_000),
        ("kraken", "pair/XBTUSD", 200, 120, "auto", 0),
        ("kraken", "pair/XBTUSD", 2500, 120, "auto", 0),
        ("upbit", "trade", 50, 200, "auto", 0),
        ("upbit", "trade", 300, 200, "auto", 0),
    ],
)
async def test_it_takes_as_long_as_the_plan_says(
    name: str, category: str, latency_ms: float, pages: int, concurrency: Concurrency, phase_ms: int
) -> None:
    timed = Timed(name, latency_ms, phase_ms)

    made = plan(timed.survey(pages, category), chunk_concurrency=concurrency)
    took_s = await timed.run((made, category))

    assert made.requests == pages
    assert made.eta_s == pytest.approx(took_s, rel=0.1)


@pytest.mark.parametrize(
    ("name", "categories"),
    [("coinbase", ["", "", ""]), ("kraken", ["pair/A", "pair/B"]), ("upbit", ["trade", "trade"])],
)
async def test_ranges_at_a_time_take_as_long_as_their_plans_say(
    name: str, categories: list[str]
) -> None:
    timed = Timed(name, 500, 0)
    surveys = [timed.survey(60 + 30 * n, each) for n, each in enumerate(categories)]

    made = plan_all(surveys, workers=len(surveys))
    took_s = await timed.run(*zip(made.plans, categories, strict=True))

    assert made.eta_s == pytest.approx(took_s, rel=0.1)
