"""Whether the server lives and can work, also when its store does not answer."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Api
from penstock.connectors.counters import FleetCounters
from penstock.errors import StoreUnreachable
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.jobs.facts import JobFailed
from penstock.storage.state import Document, Query, StateStore, open_store
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import SCHEMA, Table

from .conftest import CANDLES, Client, served


async def test_a_healthy_server_lives_is_ready_and_measures(api: Client) -> None:
    await api.ask("POST", "jobs", CANDLES)

    assert (await api.ask("GET", "/healthz")).json == {"status": "alive"}
    assert (await api.ask("GET", "/readyz")).json == {"status": "ready"}
    metrics = await api.ask("GET", "/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    text = metrics.body.decode()
    assert 'penstock_jobs{exchange="binance",state="idle"} 1.0' in text
    assert 'penstock_api_requests_total{method="POST",status="201"} 1.0' in text
    assert "penstock_store_up 1.0" in text


async def test_a_store_that_a_newer_penstock_changed_makes_the_server_unready(
    api: Client, tmp_path: Path
) -> None:
    table = Table("things", {"name": "text"})
    newer = await open_store(f"sqlite:{tmp_path / 'state.db'}", schema=(*SCHEMA, (table,)))

    problem = (await api.ask("GET", "/readyz")).is_problem(503)

    assert "Upgrade penstock" in problem["detail"]
    assert (await api.ask("GET", "/healthz")).status == 200
    await newer.close()


async def test_a_store_that_falls_silent_is_said_and_waited_for(
    api: Client, store: StateStore, tmp_path: Path
) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    store._timeout_s = 0.5
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    answer = await api.ask("POST", "connectors/binance/pause")
    answer.is_problem(503)
    assert int(answer.headers["Retry-After"]) > 0
    assert (await api.ask("GET", "/healthz")).status == 200

    store._timeout_s = PATIENCE_S
    other.execute("ROLLBACK")
    other.close()
    assert (await api.ask("POST", "connectors/binance/pause")).json["status"] == "paused"


class Fickle(MemoryBackend):
    """A database that answers until it no longer does."""

    silent = False

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        if self.silent:
            raise StoreUnreachable("somewhere", "no answer")
        return await super().find(table, query, order, limit)


async def test_a_stream_ends_when_the_store_goes_away() -> None:
    backend = Fickle(SystemClock())
    await backend.prepare(SCHEMA)
    async with served(StateStore(backend, 5), Api(port=0)) as api:
        job = (await api.ask("POST", "jobs", CANDLES)).json
        headers = {"Accept": "text/event-stream"}
        address = f"{api.url}/api/v1/jobs/{job['id']}/events"
        async with asyncio.timeout(PATIENCE_S), api.session.get(address, headers=headers) as stream:
            await stream.content.readuntil(b"nothing new")
            backend.silent = True
            await stream.content.read()
        (await api.ask("GET", f"jobs/{job['id']}/events")).is_problem(503)


async def test_counting_goes_on_while_the_store_is_away() -> None:
    backend = Fickle(SystemClock())
    await backend.prepare(SCHEMA)
    async with served(StateStore(backend, 5), Api(port=0)) as api:
        backend.silent = True
        problem = (await api.ask("GET", "connectors")).is_problem(503)
        assert problem["type"] == "urn:penstock:store-unreachable"
        away = await api.ask("GET", "/metrics")
        backend.silent = False
        back = await api.ask("GET", "connectors")

    assert (away.status, back.status) == (200, 200)
    assert "penstock_store_up 0.0" in away.body.decode()
    assert 'penstock_api_requests_total{method="GET",status="503"} 1.0' in away.body.decode()


async def test_metrics_tell_what_all_processes_of_the_fleet_did(api: Client) -> None:
    for _ in range(2):
        process = FleetCounters(api.app_state.store, api.app_state.clock)
        process(RequestSent(exchange="binance", path="/x", cost=5, status=200, took_ms=3))
        process(RequestFailed(exchange="binance", path="/x", cost=1, sent=True, reason="cut off"))
        process(JobFailed(job="1", kind="x", exchange="binance", reason="x", given_up=True))
        await process.aclose()

    text = (await api.ask("GET", "/metrics")).body.decode()

    assert 'penstock_requests_total{exchange="binance",status="200"} 2.0' in text
    assert 'penstock_request_cost_total{exchange="binance"} 10.0' in text
    assert 'penstock_request_failures_total{exchange="binance",sent="true"} 2.0' in text
    assert 'penstock_job_runs_total{exchange="binance",outcome="given_up"} 2.0' in text
    assert text.count("# TYPE penstock_requests_total") == 1
