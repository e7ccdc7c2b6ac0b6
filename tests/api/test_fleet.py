"""Several servers on one PostgreSQL: one state, also while the database is away."""

import asyncio

import pytest
from tests.waiting import PATIENCE_S

from penstock.config import Api
from penstock.storage.state import open_store

from ..storage.state.conftest import backend, url
from ..storage.state.test_failures import through_a_line
from .conftest import CANDLES, served

__all__ = ["backend", "url"]

pytestmark = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


async def test_fifty_clients_of_two_servers_get_one_document(url: str) -> None:
    stores = [await open_store(url) for _ in range(2)]
    async with served(stores[0], Api(port=0)) as one, served(stores[1], Api(port=0)) as other:
        asked = [
            server.ask("POST", "connectors", {"exchange_id": "binance"})
            for _ in range(25)
            for server in (one, other)
        ]
        answers = await asyncio.gather(*asked)
        jobs = [server.ask("POST", "jobs", CANDLES) for server in (one, other) * 10]
        made = await asyncio.gather(*jobs)

    assert sorted(answer.status for answer in answers) == [*[200] * 49, 201]
    assert len({(answer.json["id"], answer.json["creation_date"]) for answer in answers}) == 1
    assert sorted(answer.status for answer in made) == [201, *[409] * 19]
    assert len({answer.json.get("existing_id", answer.json.get("id")) for answer in made}) == 1
    for store in stores:
        await store.close()


async def test_what_the_database_cannot_hold_is_refused_before_it_is_asked(url: str) -> None:
    store = await open_store(url)
    async with served(store, Api(port=0)) as api:
        for name in ("exchange_id", "type", "symbol", "timeframe", "after"):
            (await api.ask("GET", f"jobs?{name}=%00")).is_problem(422)
        (await api.ask("GET", "jobs/%00")).is_problem(400)
        for field in ("type", "symbol", "timeframe", "exchange_id"):
            (await api.ask("POST", "jobs", {**CANDLES, field: "a\0b"})).is_problem(422)
        (await api.ask("GET", "jobs/%F0%9F%92%A9")).is_problem(404)
    await store.close()


async def test_a_database_that_falls_silent_is_said_and_found_again(
    url: str, postgresql_url: str
) -> None:
    async with through_a_line(postgresql_url, url) as (line, address):
        store = await open_store(address)
        async with served(store, Api(port=0)) as api:
            assert (await api.ask("POST", "jobs", CANDLES)).status == 201

            line.open.clear()
            store._timeout_s = 1.0
            answer = await api.ask("GET", "jobs")
            answer.is_problem(503)
            assert int(answer.headers["Retry-After"]) > 0
            (await api.ask("GET", "/readyz")).is_problem(503)
            assert "penstock_store_up 0.0" in (await api.ask("GET", "/metrics")).body.decode()
            assert (await api.ask("GET", "/healthz")).status == 200

            store._timeout_s = PATIENCE_S
            line.open.set()
            assert len((await api.ask("GET", "jobs")).json["items"]) == 1
            assert (await api.ask("GET", "/readyz")).status == 200
        await store.close()
