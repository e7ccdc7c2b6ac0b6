"""Transitions: what becomes of a job's document when a run begins, goes on or ends. Pure.

Each gives a patch for one fenced write. ``wake_at`` is when a job may be claimed: when it is due,
or, while somebody holds it, when the lease runs out; a job without one is claimed by nobody. Jobs
of one exchange, type and claim priority are a queue, which is claimed in the order of ``wake_at``.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.jobs.model import EVENTS_KEPT, Job, JobEvent
from penstock.jobs.schedule import next_due
from penstock.storage.state import Patch
from penstock.storage.state.documents import Add, StoreNow

_LONGEST_ERROR = 2_000


def claimed(worker: str, lease_ms: int) -> Patch:
    """A run begins."""
    return {
        "state": "running",
        "fence": Add(1),
        "unsettled": Add(1),
        "lock.locked_by": worker,
        "stats.last_run_at": StoreNow(),
        **_renewal(lease_ms),
    }


def renewed(job: Job, lease_ms: int) -> Patch:
    """The run goes on: the lease is renewed, and the cursor is where the data is."""
    return {**_renewal(lease_ms), **_work(job)}


def finished(job: Job, at_ms: int) -> Patch:
    """The run of a job that repeats is over, and it went well."""
    assert job.schedule is not None, "a job without a schedule ends for good"
    due_ms = next_due(job.id, job.schedule.interval_ms, at_ms)
    return {
        **_released(job, at_ms, "done", due_ms=due_ms),
        "state": "idle",
        # A run that was asked for is over with this one.
        "claim_priority": job.priority,
        "attempts": 0,
        "stats.runs": Add(1),
        "stats.success": Add(1),
        "stats.last_success_at": at_ms,
        "stats.last_error": None,
    }


def failed(job: Job, at_ms: int, reason: str, retry_ms: int | None) -> Patch:
    """The run failed; it is tried again at an instant, or not before somebody says so."""
    return {
        **_released(job, at_ms, "failed", reason, due_ms=retry_ms),
        "state": "failed" if retry_ms is None else "idle",
        "attempts": job.attempts + 1,
        "stats.runs": Add(1),
        "stats.fail": Add(1),
        "stats.last_error": reason[:_LONGEST_ERROR],
    }


def waiting(job: Job, at_ms: int, until_ms: int, reason: str) -> Patch:
    """There is no budget. That is nobody's failure."""
    return {
        **_released(job, at_ms, "waiting", reason, due_ms=until_ms),
        "state": "waiting_rate_limit",
    }


def parked(job: Job, at_ms: int, reason: str, due_ms: int) -> Patch:
    """Its worker lets go of it in the middle; another may go on with it."""
    state = "queued" if job.status == "active" else "idle"
    return {**_released(job, at_ms, "parked", reason, due_ms=due_ms), "state": state}


def ended(job: Job, at_ms: int) -> Job:
    """A job that is done for good. It makes room for another of its kind."""
    return replace(
        with_event(job, at_ms, "done"),
        status="deleted",
        state="success",
        cursor=replace(job.cursor, done=True),
        fence=job.fence + 1,
        attempts=0,
        lock=replace(job.lock, locked_by=None, lock_until=None),
        stats=replace(
            job.stats,
            runs=job.stats.runs + 1,
            success=job.stats.success + 1,
            last_success_at=at_ms,
            last_error=None,
        ),
        updated_at=at_ms,
    )


def with_event(job: Job, at_ms: int, what: str, detail: str = "") -> Job:
    """The job, with something its worker did."""
    by = job.lock.locked_by or ""
    event = JobEvent(at=at_ms, what=what, detail=detail[:_LONGEST_ERROR], by=by)
    return replace(job, events=(*job.events, event))


def worker_events_of(job: Job) -> list[Any]:
    """What workers did, as it is kept."""
    kept = [event for event in job.events if event.by][-EVENTS_KEPT // 2 :]
    return [msgspec.to_builtins(event) for event in kept]


def _renewal(lease_ms: int) -> Patch:
    return {
        "lock.lock_until": StoreNow(lease_ms),
        "wake_at": StoreNow(lease_ms),
        "updated_at": StoreNow(),
    }


def _work(job: Job) -> Patch:
    return {
        "cursor": msgspec.to_builtins(job.cursor),
        "progress": msgspec.to_builtins(job.progress),
        "attempts": job.attempts,
        "doings": worker_events_of(job),
    }


def _released(job: Job, at_ms: int, what: str, detail: str = "", *, due_ms: int | None) -> Patch:
    patch = {
        **_work(with_event(job, at_ms, what, detail)),
        # Raised here too: a heartbeat still under way shall not take the job back.
        "fence": Add(1),
        "lock": {"locked_by": None, "lock_until": None},
        "unsettled": 0,
        "wake_at": due_ms,
        "updated_at": StoreNow(),
    }
    if due_ms is not None:
        patch["next_run_at"] = due_ms
    return patch
