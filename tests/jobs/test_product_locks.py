"""Product locks: one holder at a time, whatever dies, jumps or does not answer."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from msgspec.structs import replace
from tests.jobs_made import made_job

from penstock.clock import ManualClock, SystemClock
from penstock.errors import LockLost, NotLocked, ProductLocked, StoreUnreachable
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases
from penstock.jobs.model import Job, JobLock, NewJob
from penstock.jobs.product_locks import (
    TTL_MS,
    HeldLock,
    ProductLocks,
    held_locks,
    key_of,
    release_lock,
)
from penstock.jobs.service import JobService
from penstock.storage.state import Document, StateStore
from penstock.storage.state.documents import Query, Write
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import SCHEMA, Table

T = TypeVar("T")
START_MS = 1_700_000_000_000
LEASE_MS = 30_000
KEY = key_of("coinbase", "BTC-USD")
TTL_S = TTL_MS / 1000


async def claimed(store: StateStore, symbol: str, worker: str = "host/work-0/1") -> Job:
    """A job that a worker has just claimed."""
    new = NewJob(exchange_id="sim", type="trades_backfill", symbol=symbol)
    await JobService(store, kinds()).create(new)
    (job,) = await Leases(store, kinds()).claim(worker, 1, LEASE_MS)
    return job


async def ended(store: StateStore, job: Job) -> None:
    await Leases(store, kinds()).release(job, await store.now_ms(), "stopped")


async def is_held(lock: HeldLock) -> bool:
    try:
        await lock.check()
    except LockLost:
        return False
    return True


# On every kind of store


async def test_one_of_many_takes_a_lock_and_the_others_are_told_who_has_it(
    store: StateStore,
) -> None:
    locks = ProductLocks(store, SystemClock())
    jobs = [await claimed(store, f"a{n}/usd", f"host/work-{n}/1") for n in range(6)]
    before_ms = await store.now_ms()

    got = await asyncio.gather(*(locks.take(KEY, job) for job in jobs), return_exceptions=True)

    (holder,) = [n for n, one in enumerate(got) if isinstance(one, HeldLock)]
    assert KEY == "product:coinbase:BTC-USD"
    for refused in got[:holder] + got[holder + 1 :]:
        assert isinstance(refused, ProductLocked)
        assert refused.key == KEY
        assert refused.holder == f"host/work-{holder}/1"
        assert refused.job_id == jobs[holder].id
        assert before_ms <= refused.since_ms <= await store.now_ms()
        assert refused.until_ms == refused.since_ms + TTL_MS
        assert refused.holder in str(refused)
        assert "UTC until " in str(refused)


async def test_a_released_lock_is_free_and_its_tokens_only_increase(store: StateStore) -> None:
    locks, job = ProductLocks(store, SystemClock()), await claimed(store, "a/usd")
    other = await claimed(store, "b/usd")
    tokens = []
    for each in (job, other, job, other):
        held = await locks.take(KEY, each)
        (found,) = await held_locks(store)
        tokens.append(found.token)
        assert found.job_id == each.id
        await held.release()
        assert await held_locks(store) == []
        assert not await is_held(held)

    assert tokens == sorted(set(tokens))


async def test_other_products_are_not_locked(store: StateStore) -> None:
    locks = ProductLocks(store, SystemClock())
    for product in ("BTC-USD", "ETH-USD"):
        await locks.take(key_of("coinbase", product), await claimed(store, product))

    assert [lock.id for lock in await held_locks(store)] == [KEY, key_of("coinbase", "ETH-USD")]


async def test_a_lock_that_was_not_renewed_is_free_and_its_former_holder_knows(
    store: StateStore,
) -> None:
    job, other = await claimed(store, "a/usd"), await claimed(store, "b/usd")
    late = await ProductLocks(store, SystemClock(), ttl_ms=-1).take(KEY, job)

    held = await ProductLocks(store, SystemClock()).take(KEY, other)

    assert not await is_held(late)
    await late.release()
    assert await is_held(held), "who has lost a lock cannot release it"


async def test_the_next_run_of_a_job_takes_over_the_lock_of_the_last_one(
    store: StateStore,
) -> None:
    """A worker was killed; another one has claimed its job since."""
    locks, job = ProductLocks(store, SystemClock()), await claimed(store, "a/usd")
    killed = await locks.take(KEY, job)

    held = await locks.take(KEY, replace(job, fence=job.fence + 1))

    assert not await is_held(killed)
    assert await is_held(held)


async def test_a_lock_is_free_once_the_job_run_that_took_it_has_ended(store: StateStore) -> None:
    """Its worker did not get to release it."""
    locks, job = ProductLocks(store, SystemClock()), await claimed(store, "a/usd")
    other = await claimed(store, "b/usd")
    killed = await locks.take(KEY, job)
    with pytest.raises(ProductLocked):
        await locks.take(KEY, other)

    await ended(store, job)
    assert await held_locks(store) == []
    held = await locks.take(KEY, other)

    assert not await is_held(killed)
    assert await is_held(held)


async def test_a_lock_of_a_job_that_the_store_does_not_have_lasts_for_its_ttl(
    store: StateStore,
) -> None:
    locks, other = ProductLocks(store, SystemClock()), await claimed(store, "b/usd")
    await locks.take(KEY, made_job("markets_refresh", id="elsewhere", lock=JobLock(locked_by="x")))

    with pytest.raises(ProductLocked, match=r"locked by x for job elsewhere"):
        await locks.take(KEY, other)


async def test_an_operator_can_release_a_lock(store: StateStore) -> None:
    locks, job = ProductLocks(store, SystemClock()), await claimed(store, "a/usd")
    held = await locks.take(KEY, job)

    before = await release_lock(store, KEY)

    assert before.job_id == job.id
    for key in (KEY, "product:sim:nothing"):
        with pytest.raises(NotLocked):
            await release_lock(store, key)
    with pytest.raises(LockLost, match="it was released"):
        await held.check()


# One store in memory, whose clock and answers a test decides


class Moody(MemoryBackend):
    """A store that can be away."""

    away = False

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        self._answer()
        return await super().find(table, query, order, limit)

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        self._answer()
        return await super().write(table, writes)

    def _answer(self) -> None:
        if self.away:
            raise StoreUnreachable("memory:", "away")


class Scene:
    """A store, its clock, and the clock of the processes."""

    def __init__(self) -> None:
        self.clock, self.store_clock = ManualClock(START_MS), ManualClock(START_MS)
        self.backend = Moody(self.store_clock)
        self.store = StateStore(self.backend, 10.0)
        self.locks = ProductLocks(self.store, self.clock)

    async def prepare(self) -> "Scene":
        await self.backend.prepare(SCHEMA)
        return self

    async def pass_time(self, seconds: float, steps: int = 1) -> None:
        for _ in range(steps):
            await self.store_clock.advance(seconds / steps)
            await self.clock.advance(seconds / steps)

    def job(self, id_: str) -> Job:
        """A job of another store: only the TTL tells whether its run has ended."""
        return made_job("markets_refresh", id=id_)


@pytest.fixture
async def scene() -> Scene:
    return await Scene().prepare()


async def until_stopped(lock: HeldLock) -> bool:
    await asyncio.Event().wait()
    return True


async def test_a_lock_is_renewed_for_as_long_as_the_work_takes(scene: Scene) -> None:
    working = asyncio.ensure_future(scene.locks.run(KEY, scene.job("a"), until_stopped))

    await scene.pass_time(5 * TTL_S, steps=100)

    assert not working.done()
    with pytest.raises(ProductLocked):
        await scene.locks.take(KEY, scene.job("b"))
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert await held_locks(scene.store) == [], "it was released"


async def test_what_the_work_returns_or_raises_is_passed_on(scene: Scene) -> None:
    async def work(lock: HeldLock) -> int:
        await lock.check()
        return 7

    async def fail(_: HeldLock) -> int:
        raise KeyError("x")

    assert await scene.locks.run(KEY, scene.job("a"), work) == 7
    with pytest.raises(KeyError):
        await scene.locks.run(KEY, scene.job("a"), fail)
    assert await held_locks(scene.store) == []


async def test_work_is_cancelled_when_a_renewal_finds_another_holder(scene: Scene) -> None:
    working = asyncio.ensure_future(scene.locks.run(KEY, scene.job("a"), until_stopped))
    await scene.pass_time(1)

    await release_lock(scene.store, KEY)
    other = await scene.locks.take(KEY, scene.job("b"))
    await scene.pass_time(TTL_S / 2, steps=10)

    with pytest.raises(LockLost, match="took it"):
        await asyncio.wait_for(working, 10)
    assert await is_held(other), "the loser has not released it"


async def test_a_store_that_is_away_for_a_while_costs_nothing(scene: Scene) -> None:
    working = asyncio.ensure_future(scene.locks.run(KEY, scene.job("a"), until_stopped))
    await scene.pass_time(1)
    for _ in range(4):
        scene.backend.away = True
        await scene.pass_time(TTL_S * 0.7, steps=50)
        scene.backend.away = False
        await scene.pass_time(TTL_S / 30, steps=5)

    assert not working.done()
    with pytest.raises(ProductLocked):
        await scene.locks.take(KEY, scene.job("b"))
    working.cancel()


async def test_a_store_that_is_away_until_the_lock_ends_stops_the_work_before_anyone_else_begins(
    scene: Scene,
) -> None:
    working = asyncio.ensure_future(scene.locks.run(KEY, scene.job("a"), until_stopped))
    await scene.pass_time(1)
    scene.backend.away = True

    # The store's time is not behind: it has set the end later than the holder believes.
    await scene.clock.advance(TTL_S)
    with pytest.raises(LockLost, match="renewed in time"):
        await asyncio.wait_for(working, 10)
    scene.backend.away = False
    with pytest.raises(ProductLocked):
        await scene.locks.take(KEY, scene.job("b"))
    await scene.store_clock.advance(TTL_S + 1)
    await scene.locks.take(KEY, scene.job("b"))


async def test_while_the_store_is_away_nobody_may_record(scene: Scene) -> None:
    held = await scene.locks.take(KEY, scene.job("a"))
    scene.backend.away = True

    with pytest.raises(StoreUnreachable):
        await held.check()


@pytest.mark.parametrize("jump_s", [3 * TTL_S, -3 * TTL_S])
async def test_a_jump_of_the_holders_wall_clock_has_no_effect(scene: Scene, jump_s: float) -> None:
    held = await scene.locks.take(KEY, scene.job("a"))

    scene.clock.step_wall(jump_s)

    assert await is_held(held)


async def test_after_a_jump_of_the_stores_clock_there_is_one_holder(scene: Scene) -> None:
    held = await scene.locks.take(KEY, scene.job("a"))
    scene.store_clock.step_wall(2 * TTL_S)
    assert await is_held(held), "nobody has taken it"

    other = await scene.locks.take(KEY, scene.job("b"))

    assert [await is_held(held), await is_held(other)] == [False, True]


async def test_a_killed_worker_blocks_a_product_no_longer_than_its_job(scene: Scene) -> None:
    job = await claimed(scene.store, "a/usd")
    other = await claimed(scene.store, "b/usd")
    killed = await scene.locks.take(KEY, job)
    with pytest.raises(ProductLocked):
        await scene.locks.take(KEY, other)

    await scene.pass_time(LEASE_MS / 1000)
    held = await scene.locks.take(KEY, other)

    assert [await is_held(killed), await is_held(held)] == [False, True]


class LockMachine(RuleBasedStateMachine):
    """Two products, jobs that end or are killed, and clocks that run or jump."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.scene = self.do(Scene().prepare())
        self.leases = Leases(self.scene.store, kinds())
        self.all: dict[str, list[HeldLock]] = {}
        self.tokens: dict[str, int] = {}

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.runner.close()

    @initialize()
    def create(self) -> None:
        for number in range(4):
            new = NewJob(exchange_id="sim", type="trades_backfill", symbol=f"a{number}/usd")
            self.do(JobService(self.scene.store, kinds()).create(new))

    @rule(target=held, key=st.sampled_from(["one", "two"]))
    def begin(self, key: str) -> Any:
        """A worker claims a job and takes a lock for it; where it cannot, it releases the job."""
        jobs = self.do(self.leases.claim("w", 1, LEASE_MS))
        if not jobs:
            return key, None, None
        try:
            lock = self.do(self.scene.locks.take(key, jobs[0]))
        except ProductLocked:
            self.do(ended(self.scene.store, jobs[0]))
            return key, None, None
        (found,) = [each for each in self.do(held_locks(self.scene.store)) if each.id == key]
        assert found.token > self.tokens.get(key, 0)
        self.tokens[key] = found.token
        self.all.setdefault(key, []).append(lock)
        return key, lock, jobs[0]

    @rule(each=consumes(held), releases=st.booleans(), ends=st.booleans())
    def end(self, each: Any, releases: bool, ends: bool) -> None:
        """A run ends; if it was killed, it releases nothing."""
        _, lock, job = each
        if releases and lock:
            self.do(lock.release())
        if ends and job:
            self.do(ended(self.scene.store, job))

    @rule(each=held)
    def beat(self, each: Any) -> None:
        if each[2]:
            self.do(self.leases.heartbeat([each[2]], LEASE_MS))

    @rule(key=st.sampled_from(["one", "two"]))
    def order_release(self, key: str) -> None:
        with suppress(NotLocked):
            self.do(release_lock(self.scene.store, key))

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0, TTL_S / 2, TTL_S]))
    def pass_time(self, seconds: float) -> None:
        self.do(self.scene.pass_time(seconds))

    @rule(seconds=st.sampled_from([60.0, TTL_S, 2 * TTL_S, -60.0]))
    def step_clock_of_store(self, seconds: float) -> None:
        self.scene.store_clock.step_wall(seconds)

    @invariant()
    def one_holder_at_most_passes_the_check(self) -> None:
        for locks in self.all.values():
            assert sum(self.do(is_held(lock)) for lock in locks) <= 1


TestLocks = LockMachine.TestCase
TestLocks.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
