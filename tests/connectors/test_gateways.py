"""Ways out that the whole fleet pays for, against a simulated exchange."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Exchanges, Settings, Simulator
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.manager import ConnectorManager
from penstock.errors import ConnectorPaused, UnknownExchange
from penstock.exchanges.facts import RequestSent
from penstock.storage.state import StateStore
from penstock.telemetry import Fact

NAME = "binance"


@pytest.fixture
async def settings() -> AsyncIterator[Settings]:
    clock = SystemClock()
    server = build_simulator(Simulator(port=0), clock, exchange=NAME)
    await server.start()
    yield Settings(exchanges=Exchanges(rest_urls={NAME: f"http://127.0.0.1:{server.port}"}))
    await server.stop()


async def test_many_who_want_the_same_client_get_one_and_ask_for_the_time_once(
    any_store: StateStore, settings: Settings
) -> None:
    facts: list[Fact] = []
    async with aclosing(
        FleetGateways(any_store, settings, SystemClock(), facts.append)
    ) as gateways:
        opened = await asyncio.gather(*(gateways.of(NAME) for _ in range(20)))

    assert len({id(gateway) for gateway in opened}) == 1
    assert len([fact for fact in facts if isinstance(fact, RequestSent)]) == 1


async def test_two_processes_pay_from_one_budget(any_store: StateStore, settings: Settings) -> None:
    async with (
        aclosing(FleetGateways(any_store, settings, SystemClock())) as ours,
        aclosing(FleetGateways(any_store, settings, SystemClock())) as theirs,
    ):
        await ConnectorManager(any_store).ensure_connector(NAME)
        await (await ours.of(NAME)).learn()
        await (await theirs.of(NAME)).learn()
        connector = await ConnectorManager(any_store).get(NAME)

    # What a process holds and has not sent is taken too; what both sent is the least.
    assert connector.rate_limit_usage >= 2 * (1 + 1 + 20)
    assert (await ConnectorManager(any_store).find())[0].exchange_id == NAME


async def test_a_paused_connector_lets_nobody_out(
    any_store: StateStore, settings: Settings
) -> None:
    manager = ConnectorManager(any_store)
    await manager.ensure_connector(NAME)
    await manager.pause_connector(NAME)
    async with aclosing(FleetGateways(any_store, settings, SystemClock())) as gateways:
        with pytest.raises(ConnectorPaused):
            await gateways.of(NAME)


async def test_an_unknown_exchange_makes_no_connector(any_store: StateStore) -> None:
    async with aclosing(FleetGateways(any_store, Settings(), SystemClock())) as gateways:
        with pytest.raises(UnknownExchange):
            gateways.open("binanse")

    assert await ConnectorManager(any_store).find() == []
