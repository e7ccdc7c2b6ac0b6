"""Leases under any order of events: one holder counts, and only its writes are made.

A machine of hypothesis lets workers claim, save, finish, fail, wait, fall asleep and wake up too
late, while people pause and resume, and time passes. What a job's cursor must be is kept beside it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from msgspec.structs import replace

from penstock.clock import ManualClock
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases, Reset
from penstock.jobs.model import Cursor, Job, NewJob, Schedule
from penstock.jobs.service import JobService
from penstock.storage.state import StateStore
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import SCHEMA

T = TypeVar("T")
LEASE_MS = 10_000
JOBS = 3


class LeaseMachine(RuleBasedStateMachine):
    """Three jobs, any number of workers."""

    held = Bundle("held")
    """Jobs as somebody holds them, or believes to."""
    released = Bundle("released")
    """Jobs as they were when somebody gave them back."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(1_700_000_000_000)
        backend = MemoryBackend(self.clock)
        self.store = StateStore(backend, 10.0)
        self.job_service, self.leases = JobService(self.store, kinds()), Leases(self.store, kinds())
        self.pages: dict[str, int] = {}
        """How many pages of each job are truly done."""
        self.fences: dict[str, int] = {}
        """The fence of the last claim or release of each job."""
        self.runner = asyncio.Runner()
        self.do(backend.prepare(SCHEMA))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.runner.close()

    @initialize()
    def create(self) -> None:
        for number in range(JOBS):
            new = NewJob(
                exchange_id="sim", type="ohlcv_incremental", symbol=f"a{number}/usdt",
                timeframe="1m", schedule=Schedule(interval_ms=5_000),
            )  # fmt: skip
            job = self.do(self.job_service.create(new))
            self.pages[job.id], self.fences[job.id] = 0, 0

    @rule(target=held, worker=st.sampled_from("abc"), most=st.integers(1, JOBS))
    def claim(self, worker: str, most: int) -> Any:
        now_ms = self.clock.now_ms()
        before = {job.id: job for job in self.do(self.job_service.find())}
        taken = self.do(self.leases.claim(worker, most, LEASE_MS))
        for job in taken:
            was = before[job.id]
            assert was.status == "active"
            assert was.state != "running" or (was.lock.lock_until or 0) <= now_ms
            assert job.fence == self.fences[job.id] + 1
            assert job.cursor.page == self.pages[job.id], "it begins where the data ends"
            self.fences[job.id] = job.fence
        due = [
            job.id
            for job in before.values()
            if job.status == "active"
            and (job.lock.lock_until or job.next_run_at) <= now_ms
            and job.state != "failed"
        ]
        assert len(taken) == min(most, len(due)), "what is due is taken"
        return multiple(*taken)

    def is_mine(self, job: Job) -> bool:
        return self.fences[job.id] == job.fence

    @rule(target=held, job=consumes(held))
    def save(self, job: Job) -> Job:
        mine, page = self.is_mine(job), job.cursor.page + 1
        job = replace(job, cursor=Cursor(page=page))
        (known,) = self.do(self.leases.heartbeat([job], LEASE_MS))
        assert (known is not None) == mine
        if mine:
            self.pages[job.id] = page
        return job

    @rule(
        target=released,
        job=consumes(held),
        how=st.sampled_from(["finish", "fail", "give up", "wait", "park"]),
    )
    def settle(self, job: Job, how: str) -> Job:
        mine, now_ms = self.is_mine(job), self.clock.now_ms()
        if how == "finish":
            (written,) = self.do(self.leases.finish([job], now_ms))
        elif how == "fail":
            written = self.do(self.leases.fail(job, now_ms, "x", now_ms + 3_000))
        elif how == "give up":
            written = self.do(self.leases.fail(job, now_ms, "x"))
        elif how == "wait":
            written = self.do(self.leases.wait(job, now_ms, Reset(now_ms + 4_000), "x"))
        else:
            written = self.do(self.leases.release(job, now_ms, "x"))
        assert (written is not None) == mine
        if written:
            self.fences[job.id] = written.fence
            assert written.lock.locked_by is None
        return job

    @rule(job=released)
    def beat_too_late(self, job: Job) -> None:
        assert self.do(self.leases.heartbeat([job], LEASE_MS)) == [None]

    @rule(number=st.integers(0, JOBS - 1), how=st.sampled_from(["pause", "resume", "run"]))
    def order(self, number: int, how: str) -> None:
        job_id = sorted(self.pages)[number]
        before = self.do(self.job_service.get(job_id))
        after: Job = self.do(getattr(self.job_service, how)(job_id))
        assert after.status == ("paused" if how == "pause" else "active")
        assert (after.cursor, after.fence, after.lock) == (before.cursor, before.fence, before.lock)

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0, 11.0]))
    def wait_a_while(self, seconds: float) -> None:
        self.do(self.clock.advance(seconds))

    @invariant()
    def cursors_are_where_the_data_is(self) -> None:
        for job in self.do(self.job_service.find()):
            assert job.cursor.page == self.pages[job.id]
            assert job.fence == self.fences[job.id]


TestLeases = LeaseMachine.TestCase
TestLeases.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
