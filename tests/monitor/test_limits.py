"""The document of limits: usage by all processes, waiting requests, stops and refused requests."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.gate import SharedGate
from penstock.connectors.limits import GateReport
from penstock.connectors.stops import KEPT_REFUSALS, StopRecorder, refusals_of
from penstock.errors import StoreUnreachable
from penstock.exchanges.facts import SendingStopped
from penstock.monitor.limits import limits
from penstock.runtime.status import ProcessStatus, write_process
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import CONNECTORS
from penstock.throttle.gate import Limit

WEIGHT = Limit(100, 60_000)


@pytest.fixture
async def store() -> AsyncIterator[StateStore]:
    store = await open_store("memory:")
    await ConnectorManager(store).ensure_connector("binance", [WEIGHT])
    yield store
    await store.close()


def status(name: str, pid: int, **fields: object) -> ProcessStatus:
    return ProcessStatus(
        kind="work",
        name=name,
        host=platform.node(),
        pid=pid,
        folder="/data",
        started_ms=0,
        at_ms=0,
        state="running",
        **fields,  # type: ignore[arg-type]
    )


def refused(number: int, clock: ManualClock) -> SendingStopped:
    until_ms = clock.now_ms() + number * 1000
    return SendingStopped(
        exchange="binance", path="/x", status=429, until_ms=until_ms, asked_ms=until_ms
    )


async def test_usage_is_that_of_the_budget_and_of_the_exchange(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.acquire_token("binance", 40)

    found = await limits(store, manager)
    weight = found.items[0]
    assert (weight.exchange, weight.window) == ("binance", "weight/60000")
    assert (weight.limit, weight.used, weight.seen_used, weight.seen_ms) == (100, 40, None, None)
    assert weight.reset_ms is not None
    assert 0 < weight.reset_ms - found.at_ms <= 60_000
    [exchange] = found.exchanges
    assert (exchange.waiting, exchange.blocked_until_ms, exchange.refusals) == (0, None, ())
    assert exchange.breaker.state == "closed"


async def test_waiting_requests_of_all_running_processes_are_added_up(store: StateStore) -> None:
    gates = {"binance": GateReport(waiting=2), "kraken": GateReport(waiting=9)}
    await write_process(store, "a", status("work-0", os.getpid(), gates=gates))
    await write_process(store, "b", status("work-1", os.getpid(), gates=gates))
    await write_process(store, "c", status("old", os.getpid()))
    stopped = replace(status("work-2", os.getpid(), gates=gates), state="stopped")
    await write_process(store, "d", stopped)

    [exchange] = (await limits(store, ConnectorManager(store))).exchanges
    assert exchange.waiting == 4


async def test_a_gate_reports_its_waiting_requests_and_what_the_exchange_counted() -> None:
    clock, store = ManualClock(), await open_store("memory:")
    gate = SharedGate(store, "toy", [WEIGHT], clock)
    assert gate.report() == GateReport()
    gate.observe("", 7, 60_000, clock.now_ms())
    waiting = [asyncio.create_task(gate.acquire(60)) for _ in range(3)]
    await asyncio.sleep(0)

    report = gate.report()
    assert report.waiting == 3
    assert report.seen_ms == {"weight/60000": clock.now_ms()}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert gate.report().waiting == 0
    await gate.aclose()
    await store.close()


async def test_refused_requests_are_listed_with_the_name_of_their_process(
    store: StateStore,
) -> None:
    clock = ManualClock()
    recorder = StopRecorder(store, clock)
    await write_process(store, "a", status("work-0", os.getpid()))
    recorder(refused(30, clock))
    await recorder.aclose()

    [exchange] = (await limits(store, ConnectorManager(store))).exchanges
    [refusal] = exchange.refusals
    assert (refusal.status, refusal.process, refusal.retry_after_s) == (429, "work-0", 30.0)
    assert refusal.at_ms == clock.now_ms()


async def test_only_the_latest_refused_requests_are_kept_in_order(store: StateStore) -> None:
    clock = ManualClock()
    first, second = StopRecorder(store, clock), StopRecorder(store, clock)
    for number in range(1, 40):
        first(refused(number, clock))
    await first.aclose()
    for number in range(40, 120):
        second(refused(number, clock))
    await second.aclose()

    kept = (await refusals_of(store))["binance"]
    assert [each.retry_after_s for each in kept] == [*range(120 - KEPT_REFUSALS, 120)]


class _Away:
    """A store that does not answer."""

    def __init__(self, store: StateStore) -> None:
        self.store, self.away, self.writes = store, True, 0

    async def update(self, *given: object) -> object:
        self.writes += 1
        if self.away:
            raise StoreUnreachable("memory:", "it is away")
        return await self.store.update(*given)  # type: ignore[arg-type]


async def test_refused_requests_wait_for_a_store_that_is_away_and_are_written_rarely(
    store: StateStore,
) -> None:
    clock, away = ManualClock(), _Away(store)
    recorder = StopRecorder(away, clock)  # type: ignore[arg-type]
    for number in range(1, 11):
        recorder(refused(number, clock))
        await asyncio.sleep(0)
    assert away.writes == 1
    away.away = False
    await clock.advance(1.0)
    await recorder.aclose()

    assert away.writes == 2
    kept = (await refusals_of(store))["binance"]
    assert [each.retry_after_s for each in kept] == [*range(1, 11)]
    document = await store.get(CONNECTORS, "binance")
    assert document is not None
    assert document["stop"]["asked_until"] == kept[-1].at_ms + 10_000
