"""Saves the outcome of a job run.

Errors are grouped by their remedy. No budget, no disk space, or a market that another job run has
locked: the job waits, and no attempt is counted. A cause outside of the job: it is released. A
retry cannot help: it has failed. All other errors, unexpected ones included, are retried with
increasing delays.
"""

from collections.abc import Callable, Mapping
from random import random
from typing import Any, Literal, NamedTuple

from penstock.clock import Clock
from penstock.config import Jobs
from penstock.errors import (
    BadFile,
    BadJob,
    BadRequest,
    Banned,
    CircuitOpen,
    ConnectorPaused,
    CostExceedsLimit,
    LockLost,
    MalformedSymbol,
    PenstockError,
    ProductLocked,
    RateLimited,
    StorageFull,
    StoreUnreachable,
    UnknownExchange,
    UnknownInterval,
    UnknownSymbol,
)
from penstock.jobs.facts import JobDone, JobFailed, JobParked, JobWaits
from penstock.jobs.kinds import JobKind, RequestRate
from penstock.jobs.leases import Leases, Reset
from penstock.jobs.model import Job
from penstock.jobs.run import AnyRun
from penstock.resilience.backoff import Backoff
from penstock.telemetry import Listener

_HOPELESS = (
    BadFile,
    BadJob,
    BadRequest,
    CostExceedsLimit,
    MalformedSymbol,
    UnknownExchange,
    UnknownInterval,
    UnknownSymbol,
)
_NOT_ITS_FAULT = (ConnectorPaused, StoreUnreachable)
# Causes outside of the job may last; an immediate retry would only add load.
_ASIDE_MS = 1_000
# The holder of a lock may release it at any time, and there may be space again.
_LOCKED_MS = _FULL_MS = 30_000
# The store's time is known here to within a round trip; rather late than early.
_DOUBT_MS = 50


class Outcome(NamedTuple):
    """How a run ended."""

    how: Literal["done", "failed", "waiting", "parked"]
    closed_ms: int = 0
    """How long its exchange has no budget."""


class Outcomes:
    """Saves the outcomes of one worker's job runs, and releases the jobs."""

    def __init__(
        self,
        leases: Leases,
        kinds: Mapping[str, JobKind[Any, Any]],
        clock: Clock,
        settings: Jobs,
        emit: Listener,
        draw: Callable[[], float] = random,
    ) -> None:
        self._leases, self._kinds = leases, kinds
        self._clock, self._emit, self._draw = clock, emit, draw
        self._backoff = Backoff(
            attempts=settings.attempts,
            first_s=settings.first_delay,
            longest_s=settings.longest_delay,
        )

    async def settle(self, job_run: AnyRun, result: object, at_ms: int) -> Outcome:
        """Save how a run ended; a lost lease is marked in the run.

        ``result`` is what the run returned or raised, ``at_ms`` the store's time.
        """
        match result:
            case True:
                return await self._done(job_run, at_ms)
            case RateLimited() | Banned() | CircuitOpen():
                return await self._wait(job_run, at_ms, result)
            case ProductLocked() | LockLost():
                return await self._wait_aside(job_run, at_ms, str(result), _LOCKED_MS)
            case StorageFull():
                return await self._wait_aside(job_run, at_ms, str(result), _FULL_MS)
            case Exception() if not isinstance(result, _NOT_ITS_FAULT):
                return await self._fail(job_run, at_ms, result)
            case Exception():
                return await self._release(job_run, at_ms, str(result), at_ms + _ASIDE_MS)
            case _ if job_run.waits:
                return await self._wait_aside(job_run, at_ms, job_run.stopping, 0)
            case _:
                return await self._release(
                    job_run, at_ms, job_run.stopping or "it was interrupted", at_ms
                )

    async def _done(self, job_run: AnyRun, at_ms: int) -> Outcome:
        job = job_run.job
        if self._kept(job_run, *await self._leases.finish([job], at_ms)):
            self._emit(
                JobDone(
                    job=job.id,
                    kind=job.type,
                    exchange=job.exchange_id,
                    rows=job.progress.rows,
                    ended=job.schedule is None,
                )
            )
        return Outcome("done")

    async def _wait(
        self, job_run: AnyRun, at_ms: int, error: RateLimited | Banned | CircuitOpen
    ) -> Outcome:
        job = job_run.job
        again_ms = error.until_ms if isinstance(error, Banned) else error.retry_at_ms
        # The error has a time of this machine's clock; only the difference applies to the store's.
        wait_ms = max(1, again_ms - self._clock.now_ms()) + _DOUBT_MS
        reset = Reset(at_ms + wait_ms, *await self._request_rate(job))
        if self._kept(job_run, await self._leases.wait(job, at_ms, reset, str(error))):
            fact = JobWaits(
                job=job.id, exchange=job.exchange_id, wait_ms=wait_ms, reason=str(error)
            )
            self._emit(fact)
        return Outcome("waiting", wait_ms)

    async def _wait_aside(self, job_run: AnyRun, at_ms: int, reason: str, wait_ms: int) -> Outcome:
        job, due_ms = job_run.job, at_ms + wait_ms
        written = await self._leases.release(job, at_ms, reason, due_ms, what="waiting")
        if self._kept(job_run, written):
            self._emit(
                JobWaits(job=job.id, exchange=job.exchange_id, wait_ms=wait_ms, reason=reason)
            )
        return Outcome("waiting")

    async def _request_rate(self, job: Job) -> RequestRate:
        try:
            return await self._kinds[job.type].request_rate(job)
        except PenstockError:
            return RequestRate()

    async def _fail(self, job_run: AnyRun, at_ms: int, error: Exception) -> Outcome:
        job = job_run.job
        reason = str(error) if isinstance(error, PenstockError) else repr(error)
        retry_ms: int | None = None
        if not isinstance(error, _HOPELESS) and job.attempts + 1 < self._backoff.attempts:
            delay_s = self._backoff.delay(job.attempts, self._draw())
            retry_ms = at_ms + max(1, round(delay_s * 1000))
        if self._kept(job_run, await self._leases.fail(job, at_ms, reason, retry_ms)):
            self._emit(
                JobFailed(
                    job=job.id,
                    kind=job.type,
                    exchange=job.exchange_id,
                    reason=reason,
                    given_up=retry_ms is None,
                )
            )
        return Outcome("failed")

    async def _release(self, job_run: AnyRun, at_ms: int, reason: str, due_ms: int) -> Outcome:
        job = job_run.job
        if self._kept(job_run, await self._leases.release(job, at_ms, reason, due_ms)):
            self._emit(JobParked(job=job.id, exchange=job.exchange_id, reason=reason))
        return Outcome("parked")

    def _kept(self, job_run: AnyRun, written: Job | None) -> bool:
        if written is None:
            job_run.lose("its lease ran out and another took it")
        return written is not None
