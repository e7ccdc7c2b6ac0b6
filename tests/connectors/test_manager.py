"""The manager: one connector per exchange, whose decisions are kept; its budget outlives it."""

import asyncio

import pytest
from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.limits import ServerCount, asked_of, in_force, name_of, server_demand
from penstock.errors import (
    BadLimit,
    ConnectorInUse,
    CostExceedsLimit,
    UnknownConnector,
    UnknownExchange,
    VersionChanged,
)
from penstock.storage.state import LeaseRequest, StateStore
from penstock.storage.state.schema import JOBS
from penstock.throttle.gate import Limit

WEIGHT = Limit(amount=10, period_ms=60_000)
REQUESTS = Limit(amount=4, period_ms=60_000, unit="request")
BUCKET = Limit(amount=10, period_ms=1_000, unit="request", kind="paced", burst=2)


async def add_job(store: StateStore, name: str, status: str, last_run_at: int | None) -> None:
    job = {
        "id": name, "exchange_id": "binance", "type": "ohlcv_incremental", "symbol": name,
        "status": status, "stats": {"last_run_at": last_run_at}, "target": {}, "target_key": name,
    }  # fmt: skip
    await store.insert_if_absent(JOBS, job)


async def test_defaults_are_the_exchanges_own_limits(store: StateStore) -> None:
    connector, created = await ConnectorManager(store).ensure_connector("binance", notes="hello")

    assert created
    assert (connector.id, connector.exchange_id, connector.status) == ("binance",) * 2 + ("active",)
    assert (connector.rate_limit, connector.rate_limit_period_ms) == (6000, 60_000)
    assert (connector.rate_limit_window_start, connector.rate_limit_usage) == (START_MS, 0)
    assert connector.rate_limit_reset_at == START_MS + 60_000
    assert [limit.amount for limit in connector.limits] == [6000, 61_000]
    assert (connector.notes, connector.creation_date, connector.version) == ("hello", START_MS, 1)


async def test_an_unknown_exchange_is_refused_with_near_matches(store: StateStore) -> None:
    with pytest.raises(UnknownExchange, match="binance"):
        await ConnectorManager(store).ensure_connector("binnance")
    assert await ConnectorManager(store).find() == []


async def test_deleting_and_making_again_refills_nothing(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance", [WEIGHT])
    assert (await manager.acquire_token("binance", 10)).ok
    await manager.delete("binance")
    with pytest.raises(UnknownConnector):
        await manager.get("binance")
    assert [found.status for found in await manager.find("deleted")] == ["deleted"]
    assert await manager.find() == []

    connector, created = await manager.ensure_connector("binance", [WEIGHT])
    assert created
    assert connector.rate_limit_usage == 10
    assert not (await manager.acquire_token("binance")).ok


async def test_a_deleted_connector_is_revived_once_however_many_ask(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    await manager.delete("binance")
    made = await asyncio.gather(*(manager.ensure_connector("binance") for _ in range(20)))

    assert sum(created for _, created in made) == 1
    assert {connector.status for connector, _ in made} == {"active"}


async def test_a_paused_connector_gives_no_token_until_it_is_resumed(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    assert (await manager.pause_connector("binance")).status == "paused"
    token = await manager.acquire_token("binance")
    assert not token.ok
    assert token.retry_after_ms > 0

    before = await manager.resume_connector("binance")
    assert await manager.resume_connector("binance") == before, "nothing changed, nothing written"
    assert (await manager.acquire_token("binance")).ok


async def test_a_block_by_the_exchange_is_heeded_and_shown(
    store: StateStore, clock: ManualClock
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    await store.lease("binance", LeaseRequest(blocked_until_ms=START_MS + 5_000))

    assert await manager.acquire_token("binance") == (False, 5_000)
    assert (await manager.get("binance")).blocked_until == START_MS + 5_000
    await clock.advance(5)
    assert (await manager.get("binance")).blocked_until is None
    assert (await manager.acquire_token("binance")).ok


async def test_all_limits_are_charged_or_none(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance", [WEIGHT, REQUESTS])
    # The exchange's own limits hold beside those that were chosen.
    for _ in range(4):
        assert (await manager.acquire_token("binance")).ok
    refused = await manager.acquire_token("binance")

    assert refused == (False, 60_000)
    connector = await manager.get("binance")
    assert [limit.used for limit in connector.limits] == [4, 4, 4]
    assert connector.saturation_count == 1
    with pytest.raises(CostExceedsLimit):
        await manager.acquire_token("binance", 11)


async def test_a_token_of_a_paced_limit_is_refused_until_its_instant(
    store: StateStore, clock: ManualClock
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance", [BUCKET])
    tokens = [await manager.acquire_token("binance") for _ in range(4)]

    assert tokens == [(True, 0), (True, 0), (False, 100), (False, 100)]
    assert (await manager.get("binance")).rate_limit_usage == 2
    await clock.advance(0.1)
    assert await manager.acquire_token("binance") == (True, 0)


async def test_an_edit_is_made_to_the_version_that_was_read_or_not_at_all(
    store: StateStore,
) -> None:
    manager = ConnectorManager(store)
    first = (await manager.ensure_connector("binance")).connector
    second = await manager.edit("binance", version=first.version, notes="mine")
    with pytest.raises(VersionChanged) as caught:
        await manager.edit("binance", version=first.version, notes="yours")
    assert (caught.value.expected, caught.value.found) == (first.version, second.version)
    with pytest.raises(VersionChanged):
        await manager.delete("binance", version=first.version)
    assert (await manager.get("binance")).notes == "mine"

    chosen = await manager.edit("binance", version=None, limits=[Limit(100, 60_000)])
    assert (chosen.rate_limit, chosen.notes) == (100, "mine")
    own = await manager.edit("binance", version=chosen.version, limits=None)
    assert own.rate_limit == 6000
    for nonsense in ([], [Limit(0, 1000)]):
        with pytest.raises(BadLimit):
            await manager.edit("binance", version=None, limits=nonsense)


async def test_jobs_are_counted_and_keep_their_connector(store: StateStore) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    await add_job(store, "a", "active", None)
    await add_job(store, "b", "active", START_MS - 5)
    await add_job(store, "c", "paused", START_MS - 9)
    await add_job(store, "d", "deleted", START_MS - 1)

    counted = await manager.update_connector_job_counts("binance")
    assert (counted.jobs_count, counted.active_jobs_count) == (3, 2)
    assert await manager.get("binance") == counted, "nothing is written"
    with pytest.raises(ConnectorInUse) as caught:
        await manager.delete("binance")
    assert caught.value.jobs == 3
    assert (await manager.get("binance")).status == "active"


@pytest.mark.parametrize("method", ["get", "pause_connector", "resume_connector", "delete"])
async def test_a_connector_that_nobody_made_is_named_with_those_there_are(
    store: StateStore, method: str
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    with pytest.raises(UnknownConnector) as caught:
        await getattr(manager, method)("nowhere")
    assert caught.value.known == ["binance"]


async def test_what_the_exchange_counts_is_shown_beside_what_was_granted(
    store: StateStore,
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance", [WEIGHT])
    await manager.acquire_token("binance", 2)
    assert (await manager.get("binance")).limits[0].server_used is None
    seen = ServerCount(START_MS // 60_000, 7)
    await store.lease(
        "binance", LeaseRequest((asked_of(WEIGHT, 0, seen=seen), server_demand(WEIGHT, seen)))
    )

    main = (await manager.get("binance")).limits[0]
    assert (main.used, main.server_used) == (7, 7)


def test_an_operators_limits_hold_but_never_above_the_exchanges() -> None:
    announced = (Limit(6000, 60_000), Limit(61_000, 300_000, "request"))

    assert in_force(None, announced) == announced
    assert in_force([Limit(100, 60_000)], announced) == (Limit(100, 60_000), announced[1])
    assert in_force([Limit(9000, 60_000)], announced) == announced
    extra = Limit(50, 10_000)
    assert in_force([extra], announced) == (extra, *announced)


def test_limits_that_count_apart_are_named_apart() -> None:
    limits = [
        Limit(1, 1000), Limit(1, 2000), Limit(1, 1000, "request"), Limit(1, 1000, category="x"),
        Limit(1, 1000, kind="paced"), Limit(1, 1000, category="~"),
    ]  # fmt: skip

    assert len({name_of(limit) for limit in limits}) == len(limits)
    assert name_of(Limit(1, 1000)) == name_of(Limit(9, 1000)), "a changed amount is the same limit"
