"""The shared circuit breaker: two processes on one store, and what counts as a failure."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.clock import ManualClock
from penstock.config import Breaker as BreakerSettings
from penstock.config import Requests, Settings
from penstock.connectors.breaker import SharedBreaker, breaker_of, rules_of
from penstock.connectors.facts import (
    BreakerClosed,
    BreakerForced,
    BreakerHalfOpen,
    BreakerOpened,
)
from penstock.connectors.manager import ConnectorManager
from penstock.errors import (
    BadRequest,
    Banned,
    CircuitOpen,
    ExchangeError,
    NeverSent,
    NoAnswer,
    RateLimited,
    StoreUnreachable,
    UnknownConnector,
)
from penstock.resilience.breaker import BreakerRules
from penstock.storage.state import StateStore
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import BREAKERS, SCHEMA
from penstock.telemetry import Fact

RULES = BreakerRules(cooldown_ms=10_000, probe_ms=5_000, ramp_ms=6_000)
FAILED = ExchangeError("binance failed to answer (503).", status=503)
READ_S = 0.3


class Processes:
    """Several processes with a breaker each, on one store."""

    def __init__(self, store: StateStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.facts: list[Fact] = []
        self.a, self.b, self.c = (self.one(name) for name in "abc")

    def one(self, name: str) -> SharedBreaker:
        listener = self.facts.append
        return SharedBreaker(
            self.store, "binance", self.clock, RULES, listener, who=name, draw=lambda: 0.0
        )

    async def opened(self) -> None:
        for _ in range(5):
            await send(self.a, FAILED)
        await self.clock.advance(READ_S)

    def kinds(self) -> list[type[Fact]]:
        return [type(fact) for fact in self.facts]


async def send(breaker: SharedBreaker, error: BaseException | None = None) -> bool:
    """Send a request that ends so; False if the breaker did not let it."""
    try:
        await breaker.check()
        with await breaker.admit():
            if error is not None:
                raise error
    except CircuitOpen:
        return False
    except BaseException as raised:
        if raised is not error:
            raise
    return True


@pytest.fixture
async def processes(store: StateStore, clock: ManualClock) -> AsyncIterator[Processes]:
    processes = Processes(store, clock)
    yield processes
    for breaker in (processes.a, processes.b, processes.c):
        await breaker.aclose()


async def test_while_requests_succeed_nothing_is_written(processes: Processes) -> None:
    for _ in range(20):
        assert await send(processes.a)
        await processes.clock.advance(1)

    assert await processes.store.get(BREAKERS, "binance") is None


async def test_failures_of_one_process_stop_it_at_once_and_the_others_soon(
    processes: Processes,
) -> None:
    assert await send(processes.b)
    for _ in range(5):
        assert await send(processes.a, FAILED)

    assert not await send(processes.a)
    await processes.clock.advance(READ_S)
    with pytest.raises(CircuitOpen) as stopped:
        await processes.b.check()
    assert stopped.value.retry_at_ms >= processes.clock.now_ms() + 9_000
    assert "5 of 6 requests failed" in str(stopped.value) or "5 of 5" in str(stopped.value)
    assert processes.kinds() == [BreakerOpened]


async def test_failures_of_several_processes_are_counted_together(processes: Processes) -> None:
    for breaker in (processes.a, processes.b, processes.c, processes.a, processes.b):
        assert await send(breaker, FAILED)
        await processes.clock.advance(READ_S)

    assert not await send(processes.c)


async def test_successes_of_another_process_keep_it_closed(processes: Processes) -> None:
    """One process has lost its network; the exchange answers the others."""
    await send(processes.a, FAILED)
    for _ in range(30):
        await send(processes.a, FAILED)
        for _ in range(3):
            assert await send(processes.b)
        await processes.clock.advance(1.1)

    assert processes.facts == []


NEUTRAL = (
    RateLimited("too many requests", retry_at_ms=1, status=429),
    Banned("binance", until_ms=1, status=418),
    BadRequest("/x", status=400, code=-1, message="no"),
    asyncio.CancelledError(),
    StoreUnreachable("memory:", "gone"),
)


@pytest.mark.parametrize("error", NEUTRAL, ids=lambda error: type(error).__name__)
async def test_refusals_and_our_own_errors_are_no_failures(
    processes: Processes, error: BaseException
) -> None:
    for _ in range(20):
        assert await send(processes.a, error)

    assert processes.facts == []


@pytest.mark.parametrize("error", [FAILED, NoAnswer("lost"), NeverSent("refused")])
async def test_server_errors_and_lost_connections_are(
    processes: Processes, error: Exception
) -> None:
    for _ in range(5):
        await send(processes.a, error)
    await processes.clock.advance(READ_S)

    assert processes.kinds() == [BreakerOpened]


async def test_of_fifty_waiters_one_probes_in_each_cooldown(processes: Processes) -> None:
    await processes.opened()
    sent = 0

    async def try_once(breaker: SharedBreaker) -> None:
        nonlocal sent
        try:
            with await breaker.admit():
                sent += 1
                await processes.clock.sleep(1)
                raise FAILED
        except ExchangeError:
            pass

    everyone = [processes.a, processes.b, processes.c]
    for round_ in range(100):
        wait_ms = (await breaker_of(processes.store, "binance")).retry_at_ms
        await processes.clock.advance((wait_ms - processes.clock.now_ms()) / 1000)
        asking = [asyncio.create_task(try_once(everyone[n % 3])) for n in range(50)]
        await processes.clock.advance(1.5)
        await asyncio.gather(*asking)
        assert sent == round_ + 1


async def test_a_probe_whose_process_died_is_sent_by_another(processes: Processes) -> None:
    await processes.opened()
    await processes.clock.advance(10)
    await processes.a.admit()  # And killed: the context is never left.

    assert not await send(processes.b)
    await processes.clock.advance(RULES.probe_ms / 1000)
    assert await send(processes.b)


async def test_three_probes_close_it_for_all(processes: Processes) -> None:
    await processes.opened()
    await processes.clock.advance(10)
    for breaker in (processes.a, processes.b, processes.c):
        assert await send(breaker)
        await processes.clock.advance(READ_S)

    assert await send(processes.a)
    assert processes.kinds() == [BreakerOpened, BreakerHalfOpen, BreakerClosed]


async def test_a_probe_without_a_result_leaves_it_half_open(processes: Processes) -> None:
    await processes.opened()
    await processes.clock.advance(10)
    assert await send(processes.a, NEUTRAL[0])
    await processes.clock.advance(READ_S)

    assert await send(processes.b)
    assert (await breaker_of(processes.store, "binance")).phase == "half_open"


async def test_after_it_closed_requests_in_flight_grow_step_by_step(processes: Processes) -> None:
    await processes.opened()
    await processes.clock.advance(10)
    for _ in range(3):
        assert await send(processes.a)
        await processes.clock.advance(READ_S)
    in_flight, most = 0, []

    async def ask() -> None:
        nonlocal in_flight
        with await processes.a.admit():
            in_flight += 1
            await processes.clock.sleep(100)

    asking = [asyncio.create_task(ask()) for _ in range(60)]
    for _ in range(7):
        await processes.clock.advance(1)
        most.append(in_flight)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)

    assert most[0] <= 2
    assert most == sorted(most)
    assert most[4] <= 32
    assert most[-1] == 60


async def test_a_request_that_ends_lets_the_next_one_go(processes: Processes) -> None:
    await processes.opened()
    await processes.clock.advance(10)
    for _ in range(3):
        await send(processes.a)
        await processes.clock.advance(0.01)
    done = 0

    async def ask() -> None:
        nonlocal done
        with await processes.a.admit():
            await processes.clock.sleep(0.01)
        done += 1

    asking = [asyncio.create_task(ask()) for _ in range(20)]
    await processes.clock.advance(0.5)

    assert done == 20
    await asyncio.gather(*asking)


async def test_an_operator_opens_and_closes_it(processes: Processes) -> None:
    connectors = ConnectorManager(processes.store)
    with pytest.raises(UnknownConnector):
        await connectors.force_breaker("binance", "open")
    await connectors.ensure_connector("binance")

    await connectors.force_breaker("binance", "open")
    with pytest.raises(CircuitOpen, match="an operator opened it"):
        await processes.b.check()

    await connectors.force_breaker("binance", "closed")
    await processes.clock.advance(READ_S)
    for _ in range(20):
        assert await send(processes.b, FAILED)

    await connectors.force_breaker("binance", None)
    await processes.clock.advance(READ_S)
    assert await send(processes.b)
    orders = [fact.to for fact in processes.facts if isinstance(fact, BreakerForced)]
    assert orders == ["open", "closed", "automatic"]
    recorded = (await connectors.breaker("binance")).transitions
    assert [each.to for each in recorded] == ["forced open", "forced closed", "automatic"]


class Away(MemoryBackend):
    """A store that can be made unreachable."""

    away = False

    async def now_ms(self) -> int:
        if self.away:
            raise StoreUnreachable("memory:", "gone")
        return await super().now_ms()


async def test_while_the_store_is_away_a_process_still_stops_and_reports_later(
    clock: ManualClock,
) -> None:
    backend = Away(clock)
    await backend.prepare(SCHEMA)
    store = StateStore(backend, 10)
    processes = Processes(store, clock)
    backend.away = True
    for _ in range(5):
        assert await send(processes.a, FAILED)

    assert not await send(processes.a)
    backend.away = False
    await clock.advance(1)
    assert (await breaker_of(store, "binance")).phase == "open"
    assert not await send(processes.b)


def test_rules_are_those_of_the_settings() -> None:
    settings = Settings(
        breaker=BreakerSettings(failures=7, cooldown=1.5), requests=Requests(total_timeout=20)
    )

    rules = rules_of(settings)

    assert (rules.failures, rules.cooldown_ms, rules.probe_ms) == (7, 1500, 25_000)
    assert rules_of(Settings()).cooldown_ms == 300_000
