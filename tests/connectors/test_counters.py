"""Counters of the fleet: added up from all processes, and kept for later if the store is away."""

from penstock.clock import ManualClock
from penstock.connectors.counters import FleetCounters, fleet_counters
from penstock.connectors.manager import ConnectorManager
from penstock.errors import StoreUnreachable
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.jobs.facts import JobDone, JobFailed
from penstock.storage.state import StateStore, Write
from penstock.storage.state.documents import Document
from penstock.storage.state.schema import Table

SENT = RequestSent(exchange="binance", path="/x", cost=5, status=200, took_ms=3)
REFUSED = RequestSent(exchange="binance", path="/x", cost=1, status=429, took_ms=3)
CUT_OFF = RequestFailed(exchange="binance", path="/x", cost=1, sent=True, reason="cut off")
FAILED = JobFailed(job="1", kind="x", exchange="binance", reason="broken", given_up=False)
DONE = JobDone(job="1", kind="x", exchange="binance", rows=1, ended=False)


async def test_what_processes_do_is_added_up(store: StateStore, clock: ManualClock) -> None:
    one, two = FleetCounters(store, clock), FleetCounters(store, clock)
    for counters in (one, two):
        for fact in (SENT, SENT, REFUSED, CUT_OFF, FAILED):
            counters(fact)
    assert await fleet_counters(store) == []

    await clock.advance(1.5)
    one(DONE)
    await one.aclose()

    (counted,) = await fleet_counters(store)
    assert counted["requests"] == {"200": 4, "429": 2}
    assert counted["cost"] == 22
    assert counted["failures"] == {"true": 2}
    assert counted["jobs"] == {"failed": 2, "done": 1}
    await two.aclose()


async def test_a_connector_shows_when_a_job_of_it_last_ran(
    store: StateStore, clock: ManualClock
) -> None:
    manager, counters = ConnectorManager(store), FleetCounters(store, clock)
    await manager.ensure_connector("binance")
    counters(SENT)
    await counters.aclose()
    before = (await manager.get("binance")).last_job_run_time

    counters(DONE)
    await counters.aclose()

    assert before is None
    assert (await manager.get("binance")).last_job_run_time == clock.now_ms()


async def test_what_the_store_did_not_take_is_added_later(
    store: StateStore, clock: ManualClock
) -> None:
    class Away(StateStore):
        away = True

        async def write(self, table: Table, writes: list[Write]) -> list[Document | None]:  # type: ignore[override]
            if self.away:
                raise StoreUnreachable("memory:", "away")
            return await super().write(table, writes)

    sometimes = Away(store._backend, 10.0)
    counters = FleetCounters(sometimes, clock)
    counters(SENT)
    await clock.advance(3.5)
    assert await fleet_counters(store) == []

    sometimes.away = False
    counters(SENT)
    await clock.advance(1.5)

    (counted,) = await fleet_counters(store)
    assert counted["requests"] == {"200": 2}
    await counters.aclose()
