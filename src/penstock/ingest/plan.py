"""Computes the changes that an operator's plan requires. Pure.

A plan may change, pause and resume jobs that a plan created. It does not change jobs that clients
created or paused. Nothing is ever deleted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from msgspec import Struct
from msgspec.structs import replace

from penstock.config import ConnectorPlan
from penstock.connectors import Connector
from penstock.ingest.admin import limit_of
from penstock.ingest.candle_jobs import OHLCV_BACKFILL, OHLCV_INCREMENTAL
from penstock.ingest.kinds.markets_refresh import MarketsRefresh
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Cursor, Job, NewJob, Schedule
from penstock.jobs.validation import admitted
from penstock.throttle.gate import Limit

ORIGIN = "apply"
_FROM, _THE_BEGINNING = f"{ORIGIN}, from ", "the beginning"
NO_LONGER_PLANNED = "no longer in the plan"

Key = tuple[str, str, str | None, str | None]


@dataclass(frozen=True)
class MakeConnector:
    exchange_id: str
    limits: tuple[Limit, ...] | None
    notes: str | None


@dataclass(frozen=True)
class EditConnector:
    """A change of the fields in the plan; None leaves a field unchanged."""

    exchange_id: str
    limits: tuple[Limit, ...] | None
    notes: str | None


@dataclass(frozen=True)
class MakeJob:
    new: NewJob
    origin: str


@dataclass(frozen=True)
class EditJob:
    job: Job
    schedule: Schedule


@dataclass(frozen=True)
class PauseJob:
    job: Job


@dataclass(frozen=True)
class ResumeJob:
    job: Job


PlanStep = MakeConnector | EditConnector | MakeJob | EditJob | PauseJob | ResumeJob


class PlannedChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step, as it is shown to users and programs."""

    action: str
    """create, edit, pause or resume."""
    what: str
    exchange_id: str
    type: str | None = None
    symbol: str | None = None
    timeframe: str | None = None
    job_id: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class CurrentState:
    """The existing connectors and jobs."""

    connectors: Mapping[str, Connector]
    chosen: Mapping[str, tuple[Limit, ...] | None]
    """The limits set by operators, by exchange."""
    live: Sequence[Job]
    done: Sequence[Job]
    """Finished backfills."""


@dataclass(frozen=True)
class PlannedJob:
    """A job of the plan."""

    new: NewJob
    schedule: Schedule | None
    origin: str

    @property
    def key(self) -> Key:
        new = self.new
        return new.exchange_id, new.type, new.symbol, new.timeframe


def planned(exchange_id: str, plan: ConnectorPlan) -> list[tuple[NewJob, str]]:
    """The jobs of a plan, and the origin to store with each."""
    refresh = Schedule(interval_ms=round(plan.markets_refresh * 1000))
    jobs = [(NewJob(exchange_id=exchange_id, type=MarketsRefresh.name, schedule=refresh), ORIGIN)]
    looks = Schedule(interval_ms=round(plan.interval * 1000)) if plan.interval else None
    for symbol in plan.symbols:
        for timeframe in plan.timeframes:
            new = NewJob(
                exchange_id=exchange_id,
                type=OHLCV_INCREMENTAL,
                symbol=symbol,
                timeframe=timeframe,
                schedule=looks,
            )
            jobs.append((new, ORIGIN))
            if plan.backfill is not False:
                backfill = replace(new, type=OHLCV_BACKFILL, schedule=None)
                jobs.append(_from(backfill, plan.backfill))
    return jobs


def _from(backfill: NewJob, begin: date | bool) -> tuple[NewJob, str]:
    if isinstance(begin, bool):
        return backfill, _FROM + _THE_BEGINNING
    midnight = datetime.combine(begin, time(), UTC)
    since_ms = max(0, round(midnight.timestamp() * 1000))
    return replace(backfill, cursor=Cursor(since_ms=since_ms)), _FROM + begin.isoformat()


def wanted(jobs: Iterable[tuple[NewJob, str]], kinds: Mapping[str, AnyKind]) -> list[PlannedJob]:
    """The planned jobs, each once, with the schedules that they will have."""
    found: dict[Key, PlannedJob] = {}
    for new, origin in jobs:
        schedule = admitted(new, kinds, job_id="", now_ms=0).schedule
        one = PlannedJob(new, schedule, origin)
        found.setdefault(one.key, one)
    return list(found.values())


def steps(
    plans: Mapping[str, ConnectorPlan], jobs: Sequence[PlannedJob], found: CurrentState
) -> list[PlanStep]:
    """The steps that create and resume planned jobs, and pause others that a plan created."""
    changes: list[PlanStep] = []
    for exchange_id, plan in plans.items():
        changes += _connector_steps(exchange_id, plan, found)
    live = {_key(job): job for job in found.live}
    for one in jobs:
        changes += _job_steps(one, live.get(one.key), found.done)
    meant = {one.key for one in jobs}
    changes += [
        PauseJob(job)
        for key, job in live.items()
        if key not in meant and _is_ours(job) and job.is_known and job.status == "active"
    ]
    return changes


def _connector_steps(exchange_id: str, plan: ConnectorPlan, found: CurrentState) -> list[PlanStep]:
    limits = tuple(limit_of(one) for one in plan.limits) or None
    notes = plan.notes or None
    connector = found.connectors.get(exchange_id)
    if connector is None:
        return [MakeConnector(exchange_id, limits, notes)]
    new_limits = None if limits == found.chosen[exchange_id] else limits
    new_notes = None if notes == connector.notes else notes
    if new_limits is None and new_notes is None:
        return []
    return [EditConnector(exchange_id, new_limits, new_notes)]


def _job_steps(one: PlannedJob, live: Job | None, done: Sequence[Job]) -> list[PlanStep]:
    if live is None:
        is_done = one.new.type == OHLCV_BACKFILL and any(_covers(job, one) for job in done)
        return [] if is_done else [MakeJob(one.new, one.origin)]
    changes: list[PlanStep] = []
    if not _is_ours(live):
        return changes
    if one.schedule is not None and one.schedule != live.schedule:
        changes.append(EditJob(live, one.schedule))
    if live.status == "paused" and _paused_by_plan(live):
        changes.append(ResumeJob(live))
    return changes


def _covers(done: Job, one: PlannedJob) -> bool:
    """Whether a finished backfill has fetched what a planned one would."""
    if _key(done) != one.key:
        return False
    if done.origin.startswith(_FROM):
        # The requested start counts: the history itself may begin later.
        return _begin(done.origin) <= _begin(one.origin)
    since_ms = one.new.cursor.since_ms if one.new.cursor else None
    first_ts = done.progress.first_ts
    return since_ms is not None and first_ts is not None and first_ts <= since_ms


def _begin(origin: str) -> str:
    """The first day of a planned backfill; empty, before all days, for the whole history."""
    day = origin.removeprefix(_FROM)
    return "" if day == _THE_BEGINNING else day


def _key(job: Job) -> Key:
    return job.exchange_id, job.type, job.symbol, job.timeframe


def _is_ours(job: Job) -> bool:
    return job.origin.startswith(ORIGIN)


def _paused_by_plan(job: Job) -> bool:
    pauses = [event for event in job.events if event.what == "paused"]
    return bool(pauses) and pauses[-1].detail == NO_LONGER_PLANNED


def shown(step: PlanStep) -> PlannedChange:
    """A step, as it is shown to users and programs."""
    match step:
        case MakeConnector() | EditConnector():
            action = "create" if isinstance(step, MakeConnector) else "edit"
            details = [_limit_words(limit) for limit in step.limits or ()]
            details += [f"notes {step.notes!r}"] if step.notes else []
            return PlannedChange(
                action=action,
                what="connector",
                exchange_id=step.exchange_id,
                detail=", ".join(details),
            )
        case MakeJob(new):
            since_ms = new.cursor.since_ms if new.cursor else None
            detail = (
                f"since {datetime.fromtimestamp(since_ms // 1000, UTC):%Y-%m-%d}"
                if since_ms
                else ""
            )
            return _job_change("create", new, detail)
        case EditJob(job, schedule):
            before_ms = job.schedule.interval_ms if job.schedule else 0
            detail = f"every {before_ms / 1000:g} s → {schedule.interval_ms / 1000:g} s"
            return _job_change("edit", job, detail)
        case PauseJob(job):
            return _job_change("pause", job, NO_LONGER_PLANNED)
        case ResumeJob(job):
            return _job_change("resume", job, "in the plan again")


def _job_change(action: str, job: Job | NewJob, detail: str) -> PlannedChange:
    return PlannedChange(
        action=action,
        what="job",
        exchange_id=job.exchange_id,
        type=job.type,
        symbol=job.symbol,
        timeframe=job.timeframe,
        job_id=job.id if isinstance(job, Job) else None,
        detail=detail,
    )


def _limit_words(limit: Limit) -> str:
    return f"{limit.unit} {limit.amount:,} per {limit.period_ms / 1000:g} s"
