"""The changes of a job's document when a run starts, continues or ends. Pure.

Each is a patch for one fenced write. ``wake_at`` is when a job may be claimed: its due time or,
while a worker holds it, the end of the lease; a job without one is not claimed. Jobs of one
exchange, type and claim priority are a queue, which is claimed in the order of ``wake_at``.
"""

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from penstock.jobs.model import EVENTS_KEPT, Job, JobEvent, JobProgress
from penstock.jobs.schedule import next_due
from penstock.storage.state import Patch
from penstock.storage.state.documents import Add, StoreNow

_LONGEST_ERROR = 2_000
_ONE_MORE, _NOW = Add(1), StoreNow()
_NO_PROGRESS: dict[str, Any] = msgspec.to_builtins(JobProgress())


def claimed(worker: str, lease_ms: int) -> Patch:
    """A run starts."""
    return {
        "state": "running",
        "fence": _ONE_MORE,
        "unsettled": _ONE_MORE,
        "lock.locked_by": worker,
        "stats.last_run_at": _NOW,
        **_renewal(lease_ms),
    }


def renewed(job: Job, lease_ms: int) -> Patch:
    """The run continues: the lease is renewed, the cursor and progress are saved."""
    return {**_renewal(lease_ms), **_work(job)}


def finished(job: Job, at_ms: int) -> Patch:
    """The run of a repeating job succeeded."""
    assert job.schedule is not None, "a job without a schedule ends for good"
    due_ms = next_due(job.id, job.schedule.interval_ms, at_ms)
    return {
        **_unlocked(job, at_ms, "done", due_ms=due_ms),
        "state": "idle",
        # This also completes a manual run.
        "claim_priority": job.priority,
        "attempts": 0,
        "stats.runs": _ONE_MORE,
        "stats.success": _ONE_MORE,
        "stats.last_success_at": at_ms,
        "stats.last_error": None,
    }


def failed(job: Job, at_ms: int, reason: str, retry_ms: int | None) -> Patch:
    """The run failed; it is retried at ``retry_ms``, or only on a client's request if None."""
    return {
        **_unlocked(job, at_ms, "failed", reason, due_ms=retry_ms),
        "state": "failed" if retry_ms is None else "idle",
        "attempts": job.attempts + 1,
        "stats.runs": _ONE_MORE,
        "stats.fail": _ONE_MORE,
        "stats.last_error": reason[:_LONGEST_ERROR],
    }


def waiting(job: Job, at_ms: int, until_ms: int, reason: str) -> Patch:
    """There is no budget. It does not count as a failure."""
    return {
        **_unlocked(job, at_ms, "waiting", reason, due_ms=until_ms),
        "state": "waiting_rate_limit",
    }


def released(
    job: Job, at_ms: int, reason: str, due_ms: int, what: Literal["parked", "waiting"]
) -> Patch:
    """Its worker releases it in the middle; another may continue."""
    state = "queued" if job.status == "active" else "idle"
    return {**_unlocked(job, at_ms, what, reason, due_ms=due_ms), "state": state}


def ended(job: Job, at_ms: int) -> Job:
    """The job, finished. Another one with the same key may then be created."""
    return replace(
        with_event(job, at_ms, "done"),
        status="deleted",
        state="success",
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
    """The job with an event of its worker added."""
    by = job.lock.locked_by or ""
    event = JobEvent(at=at_ms, what=what, detail=detail[:_LONGEST_ERROR], by=by)
    return replace(job, events=(*job.events, event))


def worker_events_of(job: Job) -> list[Any]:
    """The latest events of workers, as they are stored."""
    kept = [event for event in job.events if event.by]
    documents: list[Any] = msgspec.to_builtins(kept[-EVENTS_KEPT // 2 :])
    return documents


def stored_progress(progress: JobProgress) -> dict[str, Any]:
    """What is known of a job's progress. Most jobs know little, and are written often."""
    known: dict[str, Any] = msgspec.to_builtins(progress)
    return {name: value for name, value in known.items() if value != _NO_PROGRESS[name]}


def _renewal(lease_ms: int) -> Patch:
    return {
        "lock.lock_until": StoreNow(lease_ms),
        "wake_at": StoreNow(lease_ms),
        "updated_at": _NOW,
    }


def _work(job: Job) -> Patch:
    return {
        "cursor": msgspec.to_builtins(job.cursor),
        "progress": stored_progress(job.progress),
        "attempts": job.attempts,
        "doings": worker_events_of(job),
    }


def _unlocked(job: Job, at_ms: int, what: str, detail: str = "", *, due_ms: int | None) -> Patch:
    patch = {
        **_work(with_event(job, at_ms, what, detail)),
        # Incremented here too: a heartbeat still under way must not renew the lease.
        "fence": _ONE_MORE,
        "lock": {"locked_by": None, "lock_until": None},
        "unsettled": 0,
        "wake_at": due_ms,
        "updated_at": _NOW,
    }
    if due_ms is not None:
        patch["next_run_at"] = due_ms
    return patch
