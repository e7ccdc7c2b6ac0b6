"""What a job is, as it is kept and as people see it.

A job is one document, with the fields of its definition (what, where, how often) and those of its
life (state, cursor, lease). Instants are milliseconds of the store's clock.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Status = Literal["active", "paused", "deleted"]
"""What people want of it: to run, to rest, or to be gone. One that is done is gone too."""
State = Literal["idle", "queued", "running", "waiting_rate_limit", "success", "failed"]
"""What it does. Only a job that never runs again is ``success``."""

# The last millisecond of the year 9999: sums of such numbers still fit every database.
Instant = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Priority = Annotated[int, Meta(ge=0, le=100)]


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a job runs."""

    mode: Literal["interval"] = "interval"
    interval_ms: Annotated[int, Meta(ge=1_000, le=366 * 86_400_000)]


class Cursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a job stands. What lies before it is durable."""

    since_ms: Instant | None = None
    """The next thing to ask for; None: wherever the exchange's history begins."""
    until_ms: Instant | None = None
    """Up to here, and not further; None: up to the present."""
    page: Count = 0
    """Pages done."""
    last_ts: Instant | None = None
    """The beginning of the newest candle that is durable."""
    done: bool = False


class JobStats(Struct, frozen=True, kw_only=True):
    """How it went so far."""

    runs: int = 0
    success: int = 0
    fail: int = 0
    last_run_at: int | None = None
    last_success_at: int | None = None
    last_error: str | None = None


class JobLock(Struct, frozen=True, kw_only=True):
    """Who holds the job, and until when unless it is renewed."""

    locked_by: str | None = None
    lock_until: int | None = None


class JobProgress(Struct, frozen=True, kw_only=True):
    """Enough to tell rows, rate and what is left."""

    rows: int = 0
    pages: int = 0
    started_at: int | None = None
    resumed_at: int | None = None
    """When it was last taken up in the middle …"""
    resumed_rows: int = 0
    """… and how many rows it had then."""
    resumptions: int = 0
    first_ts: int | None = None
    """Where it began …"""
    target_ts: int | None = None
    """… and where it will end, as far as is known."""
    checked_ts: int | None = None
    """Up to here it was checked that no candle is missing."""
    recorded: dict[str, int] = {}
    """By log and slot, the last broadcast number that was given to what it recorded there."""


class JobEvent(Struct, frozen=True, kw_only=True):
    """Something that befell a job."""

    at: int
    what: str
    """claimed, taken_over, skipped, missing, waiting, failed, done, parked, created, edited, …"""
    detail: str = ""
    by: str = ""
    """The worker; empty where it was a person's doing."""


class Job(Struct, frozen=True, kw_only=True):
    """A job."""

    id: str
    exchange_id: str
    type: str
    symbol: str | None = None
    """Unified: BTC/USDT."""
    timeframe: str | None = None
    status: Status = "active"
    state: State = "idle"
    schedule: Schedule | None = None
    """None: it runs until it is done."""
    next_run_at: int
    priority: int
    """Lower goes first."""
    claim_priority: int | None = None
    """By what it is claimed: its priority, or less than 0 before everything that is due. None in
    jobs of earlier versions: their priority."""
    target_key: str | None = None
    """What tells it from others of its type, symbol and timeframe: the range of a gap."""
    cursor: Cursor = Cursor()
    stats: JobStats = JobStats()
    lock: JobLock = JobLock()
    fence: int = 0
    """Raised by every claim; a write that names an older one is not made."""
    attempts: int = 0
    """Failures since it last got anywhere."""
    progress: JobProgress = JobProgress()
    events: tuple[JobEvent, ...] = ()
    """The last fifty, oldest first."""
    origin: str = ""
    """What made it, where that was not a person: what a plan made, a plan may pause again."""
    created_at: int
    updated_at: int
    version: int = 0


class NewJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client may say of a job; the rest follows from its type."""

    exchange_id: str
    type: str
    symbol: str | None = None
    timeframe: str | None = None
    schedule: Schedule | None = None
    priority: Priority | None = None
    cursor: Cursor | None = None


class JobEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may change in a job; what is left out stays."""

    schedule: Schedule | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET
    """Only while nobody runs it."""


EVENTS_KEPT = 50


def claim_priority_of(job: Job) -> int:
    """By what a job is claimed."""
    return job.priority if job.claim_priority is None else job.claim_priority


def as_job(document: dict[str, Any]) -> Job:
    """The job a document holds.

    Events are kept in two lists: the job service and the worker that holds the job write at the
    same time, each its own.
    """
    told = sorted(
        [*document.get("orders", ()), *document.get("doings", ())], key=lambda event: event["at"]
    )
    return msgspec.convert({**document, "events": told[-EVENTS_KEPT:]}, Job)


def as_document(job: Job) -> dict[str, Any]:
    """The part of a document that is the job itself; the store keeps its version."""
    document: dict[str, Any] = msgspec.to_builtins(job)
    for kept_apart in ("events", "version"):
        del document[kept_apart]
    return document
