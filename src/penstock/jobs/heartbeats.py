"""A heartbeat is one statement for all jobs of a worker.

It renews leases, saves cursors and reads clients' changes of the jobs. It is sent when a job has a
page to save, and otherwise after a third of the lease. Saves that are requested while one is under
way are sent with the next, so that many jobs that save at once cost one write.
"""

import asyncio
from collections.abc import Callable

from penstock.clock import Clock, wait_for
from penstock.errors import StorageError
from penstock.jobs.leases import Leases
from penstock.jobs.permits import JobPermits
from penstock.jobs.run import NS_PER_MS, AnyRun

# A store that does not answer is retried after the lease divided by this.
_AGAIN_SHARE = 20


class Heartbeats:
    """Renews the leases of one worker's job runs."""

    def __init__(
        self,
        leases: Leases,
        permits: JobPermits,
        clock: Clock,
        lease_ms: int,
        on_reply: Callable[[str], None],
    ) -> None:
        self._leases, self._permits = leases, permits
        self._clock, self._lease_ms = clock, lease_ms
        self._on_reply = on_reply
        """Called with the reason if the store did not answer, with an empty text if it did."""
        self._job_runs: dict[AnyRun, int] = {}
        """Every job run, and when it was last renewed."""
        self._unsaved: dict[AnyRun, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    def add(self, job_run: AnyRun, claimed_ns: int) -> None:
        """Renew the lease of a job run from now on; it was claimed at ``claimed_ns``."""
        job_run.began_ns = claimed_ns
        job_run.good_until_ns = claimed_ns + self._lease_ms * NS_PER_MS
        self._job_runs[job_run] = claimed_ns
        self._wake.set()

    def drop(self, job_run: AnyRun) -> None:
        """Stop renewing the lease of a job run."""
        self._job_runs.pop(job_run, None)
        if (saved := self._unsaved.pop(job_run, None)) and not saved.done():
            saved.set_result(None)

    async def save(self, job_run: AnyRun) -> None:
        """Save a job run's cursor with the next heartbeat; return once it is stored."""
        if job_run not in self._job_runs:
            return
        saved = self._unsaved.get(job_run)
        if saved is None:
            saved = self._unsaved[job_run] = asyncio.get_running_loop().create_future()
        self._wake.set()
        await asyncio.shield(saved)

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            self._wake.clear()
            if due := self._due():
                await self._renew(due)
            else:
                await self._sleep()

    def _due(self) -> list[AnyRun]:
        """Job runs that have something to save or whose lease is to be renewed."""
        before_ns = self._clock.monotonic_ns() - self._lease_ms * NS_PER_MS // 3
        return [
            t for t, at_ns in self._job_runs.items() if t in self._unsaved or at_ns <= before_ns
        ]

    async def _sleep(self) -> None:
        """Sleep until something is to be saved or the next renewal is due."""
        sleep_s = self._lease_ms / 3000
        if self._job_runs:
            elapsed_ns = self._clock.monotonic_ns() - min(self._job_runs.values())
            sleep_s = max(0.0, sleep_s - elapsed_ns / 1_000_000_000)
        await wait_for(self._wake, self._clock, sleep_s)

    async def _renew(self, job_runs: list[AnyRun]) -> None:
        sent_ns = self._clock.monotonic_ns()
        # Saves requested while this is under way wait for the next.
        saving = {
            job_run: self._unsaved.pop(job_run) for job_run in job_runs if job_run in self._unsaved
        }
        try:
            await self._permits.renew()
            known = await self._leases.heartbeat(
                [job_run.job for job_run in job_runs], self._lease_ms
            )
        except StorageError as error:
            self._on_reply(str(error))
            self._put_back(saving)
            await self._clock.sleep(self._lease_ms / 1000 / _AGAIN_SHARE)
            return
        self._on_reply("")
        for job_run, job in zip(job_runs, known, strict=True):
            if job_run not in self._job_runs:
                continue
            if job is None:
                job_run.lose("its lease ran out and another took it")
                self.drop(job_run)
            else:
                self._job_runs[job_run] = sent_ns
                job_run.renewed(job, sent_ns + self._lease_ms * NS_PER_MS)
        for saved in saving.values():
            if not saved.done():
                saved.set_result(None)

    def _put_back(self, saving: dict[AnyRun, asyncio.Future[None]]) -> None:
        for job_run, saved in saving.items():
            if job_run in self._job_runs:
                self._unsaved[job_run] = saved
            elif not saved.done():
                saved.set_result(None)
