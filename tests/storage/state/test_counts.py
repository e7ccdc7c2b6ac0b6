"""Counts and first documents: right after whatever was written, also by an earlier version."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from tests.storage.state.test_contract import add, job

from penstock.storage.state import Claim, StateStore, Write, open_store
from penstock.storage.state.documents import Condition, Document, StoreNow
from penstock.storage.state.job_targets import target_key
from penstock.storage.state.schema import CONNECTORS, GAPS, JOBS, MARKETS, SCHEMA, Table, Unique
from penstock.storage.state.sqlite import SqliteBackend

ACTIVE = Condition("status", "=", "active")
QUEUE = ("sim", "backfill", 50)

# What the table of jobs was in version 3 of the schema.
OLD_JOBS = Table(
    name="jobs",
    fields={
        name: JOBS.fields[name]
        for name in ("exchange_id", "type", "symbol", "timeframe", "status", "wake_at")
    }
    | {"rank": "int"},
    unique=(
        Unique(
            ("exchange_id", "type", "symbol", "timeframe"),
            among=("status", ("active", "paused")),
        ),
    ),
    indexes=(("status", "rank", "wake_at"),),
)
OLD_SCHEMA = ((CONNECTORS, OLD_JOBS), (OLD_JOBS,), (MARKETS,))


def queued(name: str, **fields: object) -> Document:
    return job(name, **{"claim_priority": 50, "wake_at": 5, **fields})


def of_queue(priority: int, *more: Condition) -> list[list[Condition]]:
    exchange_id, type_, _ = QUEUE
    queue = [Condition("exchange_id", "=", exchange_id), Condition("type", "=", type_)]
    return [[ACTIVE, *queue, Condition("claim_priority", "=", priority), *more]]


async def counted(store: StateStore) -> dict[tuple[Any, ...], int]:
    rows = await store.counts(JOBS)
    return {tuple(row[field] for field in JOBS.counted): row["count"] for row in rows}


async def test_jobs_are_counted_whatever_becomes_of_them(store: StateStore) -> None:
    assert await counted(store) == {}
    await add(store, *(queued(str(n)) for n in range(4)), queued("x", exchange_id="other"))
    await store.insert_if_absent(JOBS, queued("1"))

    await store.claim(JOBS, Claim([[ACTIVE]], ("wake_at",), {"state": "running"}, 2))
    await store.update(JOBS, "2", lambda found: {**found, "status": "paused"})
    await store.write(JOBS, [Write("3", {}, {"claim_priority": None}), Write("9", {}, {})])
    await store.write(JOBS, [Write("0", {"fence": 9}, {"state": "idle"})])
    await store.delete(JOBS, "x")
    await store.delete(JOBS, "x")

    assert await counted(store) == {
        (*QUEUE, "active", "running"): 2,
        (*QUEUE, "paused", "idle"): 1,
        ("sim", "backfill", None, "active", "idle"): 1,
    }


async def test_no_change_is_left_out_of_the_counts_between_many(store: StateStore) -> None:
    await add(store, *(queued(str(n)) for n in range(20)))

    async def work(state: str) -> None:
        await store.claim(JOBS, Claim([[ACTIVE]], ("wake_at",), {"state": state}, 7))

    await asyncio.gather(*(work(state) for state in ("running", "idle", "queued") * 6))

    found = await store.find(JOBS)
    states = [one["state"] for one in found]
    expected = {(*QUEUE, "active", state): states.count(state) for state in set(states)}
    assert await counted(store) == expected


async def test_the_first_of_each_query_is_found(store: StateStore) -> None:
    later = await store.now_ms() + 3_600_000
    await add(
        store, queued("a", wake_at=3), queued("b", wake_at=2), queued("c", wake_at=2),
        queued("none", wake_at=None), queued("late", claim_priority=10, wake_at=later),
    )  # fmt: skip

    waking, due = Condition("wake_at", ">", None), Condition("wake_at", "<=", StoreNow())
    queues = [of_queue(10, waking), of_queue(50, waking), of_queue(7)]
    firsts = await store.firsts(JOBS, queues, ("wake_at",))
    others = await store.firsts(JOBS, [of_queue(10, due), of_queue(50)], ("wake_at",))

    assert [one["id"] for one in firsts] == ["late", "b"]
    assert [one["id"] for one in others] == ["none"]
    assert await store.firsts(JOBS, [], ("wake_at",)) == []


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)
async def test_a_store_of_an_earlier_version_is_counted_and_keeps_targets_apart(url: str) -> None:
    old = await open_store(url, schema=OLD_SCHEMA)
    for written in (job("old", symbol="btc"), job("gone", symbol="btc", status="deleted")):
        del written["target"], written["target_key"]
        await old.insert_if_absent(OLD_JOBS, written)
    await old.close()

    for _ in range(2):
        store = await open_store(url)
        counts = await counted(store)
        assert counts[("sim", "backfill", None, "active", "idle")] == 1
        assert sum(counts.values()) == 2
        await store.close()
    store = await open_store(url)
    market = target_key({"symbol": "btc", "timeframe": "1m"})
    same = await store.insert_if_absent(JOBS, job("1", symbol="btc", target_key=market))
    other = await store.insert_if_absent(JOBS, job("2", symbol="btc", target_key="0-60000"))
    await store.close()

    assert (same.created, same.document["id"]) == (False, "old")
    assert other.created


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)
async def test_the_gaps_of_an_earlier_version_are_counted(url: str) -> None:
    old = await open_store(url, schema=SCHEMA[: SCHEMA.index((GAPS,))])
    for number, state in enumerate(("open", "open", "filled")):
        await old.insert_if_absent(GAPS, {"id": str(number), "exchange": "sim", "state": state})
    await old.close()

    store = await open_store(url)
    await store.update(GAPS, "0", lambda found: {**found, "state": "filled"})
    await store.insert_if_absent(GAPS, {"id": "9", "exchange": "other", "state": "open"})
    await store.delete(GAPS, "1")
    counts = {(row["exchange"], row["state"]): row["count"] for row in await store.counts(GAPS)}
    await store.close()
    assert counts == {("sim", "filled"): 2, ("other", "open"): 1}


async def test_sqlite_looks_into_queues_by_index_without_sorting(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    await add(store, *(queued(str(n), wake_at=n) for n in range(300)))
    database = cast("SqliteBackend", store._backend)._documents
    asked: list[str] = []
    database.set_trace_callback(asked.append)

    await store.firsts(JOBS, [of_queue(50)], ("wake_at",))
    query = of_queue(50, Condition("wake_at", "<=", StoreNow()))
    await store.claim(JOBS, Claim(query, ("wake_at",), {"state": "running"}, 3))

    database.set_trace_callback(None)
    looks = [text for text in asked if text.startswith("SELECT")]
    assert len(looks) == 2
    for text in looks:
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}")]
        assert len(plan) == 1, plan
        assert "USING INDEX jobs_status_exchange_id_type_claim_priority" in plan[0]
    await store.close()
