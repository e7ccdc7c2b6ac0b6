"""The final probe: every market is asked, as fast as the budget allows; the rest is named."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
import pytest

from penstock.clock import ManualClock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import FinalProbe
from penstock.collect.final_probe import FinalProber
from penstock.errors import ConnectorPaused, NeverSent, UnexpectedAnswer
from penstock.exchanges.binance import EXCHANGE
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.exchanges.transport import Answer
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

SYMBOLS = [Symbol(f"A{number}", "USDT") for number in range(400)]
LISTED = SymbolMap("binance", [ListedMarket(f"{each.base}USDT", each) for each in SYMBOLS])
MINUTE = Limit(kind="aligned", unit="weight", amount=6000, period_ms=60_000)
BODY = msgspec.json.encode(
    [{"id": 7, "price": "1.0", "qty": "1.0", "quoteQty": "1.0", "time": 5, "isBuyerMaker": True,
      "isBestMatch": True}]
)  # fmt: skip


class Answers:
    """Answers every request, or fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failure: Callable[[int], Exception | None] = lambda _: None

    async def send(
        self, _path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        self.asked.append(str(params["symbol"]))
        failure = self.failure(len(self.asked))
        if failure is not None:
            raise failure
        return Answer(200, {}, BODY)

    async def close(self) -> None:
        pass


class Scene:
    def __init__(self, most_s: float = 600.0) -> None:
        self.clock = ManualClock(now_ms=1_700_000_040_000)
        self.exchange, self.notes = Answers(), list[str]()
        self.facts: list[Fact] = []
        self.taken: list[Symbol] = []
        gate = LocalGate(self.clock, [MINUTE], acquire_timeout_ms=300_000)
        gateway = Gateway(EXCHANGE, self.exchange, gate, self.clock)
        availability = RestAvailability("binance", self.clock)
        self.prober = FinalProber(
            gateway, availability, most_s, self.facts.append, self.notes.append
        )
        self.rest = EXCHANGE.rest(LISTED)

    async def take(self, symbol: Symbol, trades: list[Trade]) -> None:
        assert trades[-1].id == 7
        self.taken.append(symbol)

    def begin(self) -> asyncio.Task[None]:
        recent = self.rest.recent_trades
        return asyncio.create_task(
            self.prober.ask(SYMBOLS, lambda symbol: recent(symbol, 1), self.take)
        )

    def last(self) -> FinalProbe:
        [fact] = [fact for fact in self.facts if isinstance(fact, FinalProbe)]
        return fact


async def test_four_hundred_markets_are_all_asked_within_the_budget() -> None:
    scene = Scene()
    probing = scene.begin()
    await scene.clock.advance(1)
    first = len(scene.taken)
    assert first == 6000 // 25, "all that the minute has room for"
    assert f"{first} of 400 markets" in scene.notes[-1]
    await scene.clock.advance(61)
    await probing
    assert sorted(scene.taken, key=str) == sorted(SYMBOLS, key=str)
    assert scene.last() == FinalProbe(exchange="binance", asked=400, markets=400, reason="")
    assert scene.notes[-1] == ""


@pytest.mark.parametrize("failure", [NeverSent("gone"), ConnectorPaused("binance", "paused")])
async def test_where_nothing_can_be_asked_the_others_are_not_tried(failure: Exception) -> None:
    scene = Scene()
    scene.prober.gateway.backoff = scene.prober.gateway.backoff.__class__(attempts=1)  # type: ignore[attr-defined]
    scene.exchange.failure = lambda number: failure if number > 50 else None
    probing = scene.begin()
    await scene.clock.advance(1)
    await probing
    assert len(scene.exchange.asked) < 100
    assert "350 of 400 markets were not asked" in scene.notes[-1]
    assert scene.last().asked == 50


async def test_a_market_that_fails_costs_no_other_its_probe() -> None:
    scene = Scene()
    scene.exchange.failure = lambda number: UnexpectedAnswer("odd") if number == 50 else None
    probing = scene.begin()
    await scene.clock.advance(62)
    await probing

    assert scene.last().asked == 399
    assert "1 of 400 markets were not asked: odd" in scene.notes[-1]


async def test_cut_short_it_says_what_was_not_asked() -> None:
    scene = Scene()
    probing = scene.begin()
    await scene.clock.advance(1)
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert scene.last().asked == 240
    assert (
        "160 of 400 markets were not asked: stopped at once by a second signal" in scene.notes[-1]
    )
