"""The worker claims due jobs, has their kinds run them and saves the outcomes.

It sleeps until a job is due. It claims no more jobs than it can run, and none of an exchange that
has no budget. While it is suspended, it claims none and releases those that run. An exception in a
job affects only that job. While the store does not answer, running jobs stop before their leases
end and no job is started. Times are the store's, extrapolated with this process's monotonic clock:
a stepped wall clock has no effect.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from penstock.clock import Clock, wait_for
from penstock.config import Jobs
from penstock.errors import BadJob, StorageError
from penstock.jobs.facts import JobLost, StoreAnswers, StoreSilent
from penstock.jobs.heartbeats import Heartbeats
from penstock.jobs.kinds import JobKind
from penstock.jobs.leases import Leases, QueueHead
from penstock.jobs.model import Job, claim_priority_of
from penstock.jobs.outcomes import Outcomes
from penstock.jobs.permits import JobPermits
from penstock.jobs.run import NS_PER_MS, AnyRun
from penstock.jobs.schedule import rank
from penstock.telemetry import Listener, quiet

# At a stop the current page may be completed; then the job is released as it was last saved.
_PARK_S = 4.0
_LET_GO_S = 2.0
# Other workers may claim a job that was due a moment ago: no busy loop then.
_LEAST_SLEEP_MS = 20
_SILENCE_S = 1.0
# Checked again after this time: an operator may raise a limit or lift a stop before it ends.
_CLOSED_AT_MOST_MS = 60_000


class Worker:
    """Claims and runs jobs in one process. For one event loop."""

    def __init__(
        self,
        name: str,
        leases: Leases,
        kinds: Mapping[str, JobKind[Any, Any]],
        clock: Clock,
        settings: Jobs,
        emit: Listener = quiet,
    ) -> None:
        self.name = name
        """The holder in its leases."""
        self.job_runs: dict[str, AnyRun] = {}
        """The current job runs, by job id."""
        self.ended: Counter[str] = Counter()
        """The number of ended job runs by outcome: done, failed, waiting, parked, lost."""
        self.suspended: Callable[[], str] = lambda: ""
        """Returns why no job may run now; "" if jobs may run."""
        self._leases, self._clock = leases, clock
        self.kinds = kinds
        """The kinds of jobs that it runs, by name."""
        self._settings, self._emit = settings, emit
        self._lease_ms = round(settings.lease * 1000)
        self._outcomes = Outcomes(leases, kinds, clock, settings, emit)
        self._permits = JobPermits(leases.store, name, settings.per_exchange, self._lease_ms, clock)
        self._heartbeats = Heartbeats(
            leases, self._permits, clock, self._lease_ms, self._report_store
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed: dict[str, int] = {}
        """Exchanges without budget, and until when (monotonic ns)."""
        self._store_ahead_ms = 0
        """How far the store's time is ahead of this process's monotonic time."""
        self._silent = ""
        self._wake = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; then release everything within seconds."""
        renewing = asyncio.create_task(self._heartbeats.run())
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._wake.set())
        try:
            while not stop.is_set():
                if renewing.done():
                    renewing.result()  # a bug: raise it rather than let leases expire
                self._wake.clear()
                looking = asyncio.create_task(self._start_due_jobs())
                await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
                # A store that answers does so soon; a stop does not wait for one that does not.
                if not await self._within(_LET_GO_S, looking):
                    looking.cancel()
                    break
                await wait_for(self._wake, self._clock, looking.result())
            await self._release_all()
        finally:
            renewing.cancel()
            stopping.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(renewing, stopping, *self._tasks, return_exceptions=True)

    async def _start_due_jobs(self) -> float:
        """Start the jobs that can be started; return the seconds until the next check."""
        try:
            self._permits.full.clear()
            suspended = self.suspended()
            for job_run in self.job_runs.values() if suspended else ():
                job_run.stop(suspended, waits=True)
            if not suspended:
                await self._claim()
            await self._permits.release()
            if suspended:
                return self._settings.poll_interval
            busy, due_ms = self._busy(), None
            if not self._room() or busy - self._closed.keys():
                await self._make_room()
            if self._room():
                due_ms = await self._leases.next_due_ms(busy)
        except StorageError as error:
            self._report_store(str(error))
            return _SILENCE_S
        self._report_store("")
        waits_ms = [self._settings.poll_interval * 1000, *self._until_open_ms()]
        if due_ms is not None:
            waits_ms.append(due_ms - self.store_now_ms())
        return max(_LEAST_SLEEP_MS, min(waits_ms)) / 1000

    async def _claim(self) -> None:
        while room := self._room():
            asked_ns = self._clock.monotonic_ns()
            jobs = await self._leases.claim(
                self.name, room, self._lease_ms, self._busy(), self._permits
            )
            if not jobs:
                return
            lock_until = jobs[0].lock.lock_until or 0
            answered_ms = self._clock.monotonic_ns() // NS_PER_MS
            self._store_ahead_ms = lock_until - self._lease_ms - answered_ms
            for job in jobs:
                self._begin(job, asked_ns)

    def _busy(self) -> set[str]:
        """Exchanges of which no more jobs are claimed now."""
        now_ns = self._clock.monotonic_ns()
        self._closed = {name: end for name, end in self._closed.items() if end > now_ns}
        return self._permits.full | self._closed.keys()

    def _room(self) -> int:
        """How many more jobs this worker may run."""
        return max(0, self._settings.concurrency - len(self.job_runs))

    def _until_open_ms(self) -> list[int]:
        now_ns = self._clock.monotonic_ns()
        return [(end_ns - now_ns) // NS_PER_MS + 1 for end_ns in self._closed.values()]

    async def _make_room(self) -> None:
        """Stop a job that has used its time slice if a waiting job is more urgent by now."""
        first = await self._leases.next_waiting(self._closed.keys())
        if first is not None and (job_run := self._displaced_by(first)):
            job_run.stop("others wait")

    def _displaced_by(self, first: QueueHead) -> AnyRun | None:
        ran_ns = self._clock.monotonic_ns() - round(self._settings.time_slice * 1_000_000_000)
        job_runs = list(self.job_runs.values())
        if len(job_runs) < self._settings.concurrency or first.exchange_id in self._busy():
            job_runs = [
                job_run for job_run in job_runs if job_run.job.exchange_id == first.exchange_id
            ]
        if any(job_run.stopping for job_run in job_runs):
            return None
        now_ms = self.store_now_ms()
        candidates = [
            job_run
            for job_run in job_runs
            if job_run.began_ns <= ran_ns
            and first.rank < rank(now_ms, claim_priority_of(job_run.job))
        ]
        return max(candidates, key=lambda job_run: job_run.job.priority, default=None)

    def store_now_ms(self) -> int:
        """The store's current time, as estimated here."""
        return self._store_ahead_ms + self._clock.monotonic_ns() // NS_PER_MS

    def _begin(self, job: Job, claimed_ns: int) -> None:
        job_run = AnyRun(job, self._heartbeats.save)
        self.job_runs[job.id] = job_run
        self._heartbeats.add(job_run, claimed_ns)
        task = asyncio.create_task(self._take(job_run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, job_run: AnyRun) -> None:
        """Run one job from start to end; its exceptions do not affect other jobs."""
        working = asyncio.ensure_future(self._run(job_run))
        guarding = asyncio.create_task(self._guard(job_run))
        try:
            await asyncio.wait({working, guarding}, return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            (result,) = await asyncio.gather(working, return_exceptions=True)
            self._heartbeats.drop(job_run)
            await self._settle(job_run, result)
        finally:
            working.cancel()
            guarding.cancel()
            self.job_runs.pop(job_run.job.id, None)
            self._permits.done(job_run.job.exchange_id)
            self._wake.set()

    async def _run(self, job_run: AnyRun) -> bool:
        job = job_run.job
        if not job.is_known:
            raise BadJob("cursor", "a newer penstock wrote it, and this one cannot read it")
        return await self.kinds[job.type].run(job_run)

    async def _settle(self, job_run: AnyRun, result: object) -> None:
        """Save how a run ended, unless another worker holds the job by now."""
        while not job_run.lost:
            try:
                outcome = await self._outcomes.settle(job_run, result, self.store_now_ms())
            except StorageError as error:
                self._report_store(str(error))
                if self._clock.monotonic_ns() >= job_run.good_until_ns:
                    job_run.lose("its end could not be written to the store")
                await self._clock.sleep(_SILENCE_S)
                continue
            if outcome.closed_ms:
                closed_ms = min(outcome.closed_ms, _CLOSED_AT_MOST_MS)
                until_ns = self._clock.monotonic_ns() + closed_ms * NS_PER_MS
                self._closed[job_run.job.exchange_id] = until_ns
            if not job_run.lost:
                self.ended[outcome.how] += 1
                return
        self.ended["lost"] += 1
        self._emit(
            JobLost(job=job_run.job.id, exchange=job_run.job.exchange_id, reason=job_run.lost)
        )

    async def _guard(self, job_run: AnyRun) -> None:
        """Return when the lease is lost, or too close to its end to be renewed in time."""
        spare_ns = self._lease_ms * NS_PER_MS // 3
        while True:
            left_ns = job_run.good_until_ns - spare_ns - self._clock.monotonic_ns()
            if left_ns <= 0:
                job_run.lose("its lease could not be renewed in time")
            if await wait_for(job_run.gone, self._clock, left_ns / 1_000_000_000):
                return

    async def _release_all(self) -> None:
        """Wait a few seconds for current pages to be completed, then release all jobs."""
        for job_run in self.job_runs.values():
            job_run.stop("the worker stops")
        if not await self._within(_PARK_S, *self._tasks):
            for job_run in self.job_runs.values():
                job_run.gone.set()
            await self._within(_LET_GO_S, *self._tasks)
        releasing = asyncio.create_task(self._permits.release())
        await self._within(_LET_GO_S, releasing)
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)

    async def _within(self, seconds: float, *tasks: asyncio.Task[Any]) -> bool:
        """Wait for tasks, at most ``seconds``; return whether all are done."""
        late = asyncio.create_task(self._clock.sleep(seconds))
        try:
            while (left := [task for task in tasks if not task.done()]) and not late.done():
                await asyncio.wait({late, *left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
        return not left

    def _report_store(self, trouble: str) -> None:
        """Report once when the store stops answering, and once when it answers again."""
        if trouble and not self._silent:
            self._emit(StoreSilent(reason=trouble))
        elif self._silent and not trouble:
            self._emit(StoreAnswers())
        self._silent = trouble
