"""Permits: no more jobs of an exchange at once than the whole fleet may run."""

import asyncio

import pytest

from penstock.clock import ManualClock, SystemClock
from penstock.jobs.permits import JobPermits
from penstock.storage.state import StateStore, open_store

LEASE_MS = 60_000


def worker(
    store: StateStore, name: str, per_exchange: int = 4, lease_ms: int = LEASE_MS
) -> JobPermits:
    return JobPermits(store, name, per_exchange, lease_ms, SystemClock())


async def test_many_workers_together_get_no_more_than_there_are(store: StateStore) -> None:
    workers = [worker(store, str(n)) for n in range(6)]

    got = await asyncio.gather(*(each.take("sim", 3) for each in workers))
    other = await workers[0].take("other", 9)

    assert sum(got) == 4
    assert other == 4
    assert {each.full == {"sim"} for each, free in zip(workers, got, strict=True) if not free} == {
        True
    }


async def test_a_permit_is_given_back_when_no_job_runs_on_it(store: StateStore) -> None:
    one, two = worker(store, "one"), worker(store, "two")
    assert await one.take("sim", 4) == 4
    one.use("sim", 3)

    await one.release()
    free = await two.take("sim", 4)
    for _ in range(3):
        one.done("sim")
    await one.release()

    assert free == 1
    assert await one.take("sim", 1) == 1
    assert await two.take("sim", 4) == 3, "the one it has, and the two that are left"


async def test_permits_of_a_worker_that_is_gone_are_free_when_their_lease_has_run_out(
    store: StateStore,
) -> None:
    assert await worker(store, "gone", lease_ms=-1).take("sim", 4) == 4

    assert await worker(store, "here").take("sim", 4) == 4


async def test_a_worker_of_other_settings_keeps_to_its_own_number(store: StateStore) -> None:
    few, many = worker(store, "few", per_exchange=2), worker(store, "many", per_exchange=5)

    assert await few.take("sim", 9) == 2
    assert await many.take("sim", 9) == 3
    few.use("sim", 0)
    await few.release()
    assert await few.take("sim", 9) == 2


async def test_what_another_took_meanwhile_is_held_no_longer() -> None:
    clock = ManualClock(1_700_000_000_000)
    store = await open_store("memory:", clock=clock)
    slow, quick = (JobPermits(store, name, 2, LEASE_MS, clock) for name in ("slow", "quick"))
    assert await slow.take("sim", 2) == 2

    await clock.advance(LEASE_MS / 1000 + 1)
    assert await quick.take("sim", 1) == 1

    assert await slow.take("sim", 2) == 1


@pytest.mark.parametrize("steps", [1, 5])
async def test_permits_that_are_renewed_are_kept(steps: int) -> None:
    clock = ManualClock(1_700_000_000_000)
    store = await open_store("memory:", clock=clock)
    holder, other = (JobPermits(store, name, 2, LEASE_MS, clock) for name in ("holder", "other"))
    assert await holder.take("sim", 2) == 2

    for _ in range(steps):
        await clock.advance(LEASE_MS / 1000 / 2)
        await holder.renew()

    assert await other.take("sim", 2) == 0
