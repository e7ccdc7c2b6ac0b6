"""The boxes of spec 000 §9 that connectors tick, each a test named after its box."""

import asyncio

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.storage.state import StateStore
from penstock.storage.state.schema import CONNECTORS
from penstock.throttle.gate import Limit

SMALL = Limit(amount=20, period_ms=3_600_000)


async def test_db_unique_index_prevents_duplicates(any_store: StateStore) -> None:
    await ConnectorManager(any_store).ensure_connector("binance")
    twin = {"id": "another-id", "exchange_id": "binance", "status": "active"}
    there, created = await any_store.insert_if_absent(CONNECTORS, twin)

    assert not created
    assert there["id"] == "binance"
    assert len(await any_store.find(CONNECTORS)) == 1


async def test_create_connector_is_idempotent_and_returns_the_existing_connector(
    any_store: StateStore,
) -> None:
    manager = ConnectorManager(any_store)
    made = await asyncio.gather(*(manager.ensure_connector("binance") for _ in range(50)))

    assert {connector.id for connector, _ in made} == {"binance"}
    assert {connector.version for connector, _ in made} == {1}
    assert sum(created for _, created in made) == 1
    assert len(await any_store.find(CONNECTORS)) == 1


async def test_rate_limit_usage_never_exceeds_rate_limit_within_window_under_concurrency(
    any_store: StateStore,
) -> None:
    manager = ConnectorManager(any_store)
    await manager.ensure_connector("binance", [SMALL])
    costs = [1 + number % 3 for number in range(40)]
    tokens = await asyncio.gather(*(manager.acquire_token("binance", cost) for cost in costs))

    connector = await manager.get("binance")
    granted = sum(cost for cost, token in zip(costs, tokens, strict=True) if token.ok)
    assert granted == connector.rate_limit_usage <= connector.rate_limit == 20
    assert connector.rate_limit_usage >= 18, "what fits is granted"
    assert all(token.retry_after_ms > 0 for token in tokens if not token.ok)


async def test_rate_limit_usage_resets_when_window_expires(
    store: StateStore, clock: ManualClock
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance", [Limit(amount=3, period_ms=1_000)])
    assert (await manager.acquire_token("binance", 3)).ok
    await clock.advance(0.4)
    assert await manager.acquire_token("binance") == (False, 600)
    full = await manager.get("binance")
    assert full.rate_limit_usage == 3

    await clock.advance(0.6)
    fresh = await manager.get("binance")
    assert fresh.rate_limit_usage == 0
    assert fresh.rate_limit_window_start == full.rate_limit_reset_at
    assert (await manager.acquire_token("binance", 3)).ok
