"""The job model, as it is stored and as clients see it.

A job is one document, with the fields of its definition (what, where, how often) and of its
progress (state, cursor, lease). Times are milliseconds of the store's clock. Parts without
containers are not garbage collected: thousands of jobs are read at a time.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Status = Literal["active", "paused", "deleted"]
"""The status set by clients: active, paused or deleted. A finished job is deleted too."""
State = Literal["idle", "queued", "running", "waiting_rate_limit", "success", "failed"]
"""The state of its runs. Only a job that never runs again is ``success``."""

# The last millisecond of the year 9999: sums of such numbers still fit every database.
Instant = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Priority = Annotated[int, Meta(ge=0, le=100)]


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How often a job runs."""

    mode: Literal["interval"] = "interval"
    interval_ms: Annotated[int, Meta(ge=1_000, le=366 * 86_400_000)]


class Cursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The position of a job that advances in time. Everything before it is durable."""

    since_ms: Instant | None = None
    """The start of the next request; None: the start of the exchange's history."""
    until_ms: Instant | None = None
    """The end, exclusive; None: the present."""
    page: Count = 0
    """Completed pages; pages that were requested at the same time and saved together are one."""
    last_ts: Instant | None = None
    """The open time of the latest durable candle."""
    done: bool = False


class JobStats(Struct, frozen=True, kw_only=True, gc=False):
    """Counts of runs, and the latest results."""

    runs: int = 0
    success: int = 0
    fail: int = 0
    last_run_at: int | None = None
    last_success_at: int | None = None
    last_error: str | None = None


class JobLock(Struct, frozen=True, kw_only=True, gc=False):
    """The holder of the job, and when its lease expires unless renewed."""

    locked_by: str | None = None
    lock_until: int | None = None


class JobProgress(Struct, frozen=True, kw_only=True):
    """The numbers from which rows, rate and remaining work are computed."""

    rows: int = 0
    pages: int = 0
    started_at: int | None = None
    resumed_at: int | None = None
    """When it was last resumed in the middle …"""
    resumed_rows: int = 0
    """… and its number of rows then."""
    resumptions: int = 0
    first_ts: int | None = None
    """The open time of its first candle …"""
    target_ts: int | None = None
    """… and the time at which it will end, as far as known."""
    checked_ts: int | None = None
    """The end of the range that was checked for missing candles."""
    recorded: dict[str, int] = {}
    """By log and slot, the last record number assigned to its records there."""


class JobEvent(Struct, frozen=True, kw_only=True, gc=False):
    """An event in the history of a job."""

    at: int
    what: str
    """claimed, taken_over, skipped, missing, waiting, failed, done, parked, created, edited, …"""
    detail: str = ""
    by: str = ""
    """The worker; empty for a client's action."""


class Job(Struct, frozen=True, kw_only=True):
    """A job."""

    id: str
    exchange_id: str
    type: str
    symbol: str | None = None
    """The market of its target, if it has one. Unified: BTC/USDT."""
    timeframe: str | None = None
    status: Status = "active"
    state: State = "idle"
    schedule: Schedule | None = None
    """None: it runs until it is done."""
    next_run_at: int
    priority: int
    """Lower runs first."""
    claim_priority: int | None = None
    """The priority used for claims: its priority, or below 0 to run before all other due jobs.
    None in jobs of earlier versions: their priority."""
    target: Any
    """What it works on, of the type that its kind declares …"""
    target_key: str
    """… as one text, by which no two live jobs of one exchange and type are equal."""
    cursor: Any
    """Where it stands, of the type that its kind declares."""
    asked: dict[str, Any] | None = None
    """The cursor as a client gave it, as a document; None in jobs of earlier versions."""
    is_known: bool = True
    """Whether this version knows its kind; if not, target and cursor are documents."""
    stats: JobStats = JobStats()
    lock: JobLock = JobLock()
    fence: int = 0
    """Incremented by every claim; a write with an older fence is rejected."""
    attempts: int = 0
    """Failures since it last saved a page."""
    progress: JobProgress = JobProgress()
    events: tuple[JobEvent, ...] = ()
    """The last fifty, oldest first."""
    origin: str = ""
    """What created it, if not a client. A plan may pause jobs that a plan created."""
    created_at: int
    updated_at: int
    version: int = 0


class NewJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that a client sets for a new job; the others follow from its type."""

    exchange_id: str
    type: str
    symbol: str | None = None
    timeframe: str | None = None
    schedule: Schedule | None = None
    priority: Priority | None = None
    cursor: Any = None
    """A document; its fields depend on the type."""


class JobEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a job that can be edited; omitted ones are unchanged."""

    schedule: Schedule | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    cursor: Any = UNSET
    """Only while no worker runs it."""


EVENTS_KEPT = 50


def claim_priority_of(job: Job) -> int:
    """Return the priority by which a job is claimed."""
    return job.priority if job.claim_priority is None else job.claim_priority
