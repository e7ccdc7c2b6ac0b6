"""Converts a client's request into a complete job, or rejects it with a reason. Pure."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from penstock.errors import BadJob, MalformedSymbol, UnknownInterval, near_matches
from penstock.jobs.kinds import JobKind
from penstock.jobs.model import Cursor, Job, JobEdit, JobProgress, NewJob, Schedule
from penstock.jobs.schedule import MANUAL, next_due
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

S = TypeVar("S", bound=Struct)


def admitted(new: NewJob, kinds: Mapping[str, JobKind], job_id: str, now_ms: int) -> Job:
    """The job that a client requests, due at once.

    Raises:
        BadJob: it is invalid.
    """
    new = _typed(new)
    kind = kind_of(new.type, kinds)
    if not new.exchange_id:
        raise BadJob("exchange_id", "name an exchange")
    symbol, timeframe = _market(new, kind)
    cursor = new.cursor or Cursor()
    _check_cursor(cursor, kind)
    priority = kind.priority if new.priority is None else new.priority
    return Job(
        id=job_id,
        exchange_id=new.exchange_id,
        type=kind.name,
        symbol=symbol,
        timeframe=timeframe,
        schedule=_schedule(new.schedule, kind, timeframe),
        next_run_at=now_ms,
        priority=priority,
        claim_priority=kind.claim_priority(priority),
        target_key=kind.target_key(cursor),
        cursor=cursor,
        created_at=now_ms,
        updated_at=now_ms,
    )


def edited(job: Job, edit: JobEdit, kinds: Mapping[str, JobKind], now_ms: int) -> Job:
    """The job with a client's changes.

    Raises:
        BadJob: they are invalid.
    """
    edit, kind = _typed(edit), kind_of(job.type, kinds)
    if not isinstance(edit.schedule, UnsetType):
        schedule = _schedule(edit.schedule, kind, job.timeframe)
        if schedule is not None and schedule != job.schedule:
            due_ms = next_due(job.id, schedule.interval_ms, now_ms)
            job = replace(job, schedule=schedule, next_run_at=min(job.next_run_at, due_ms))
    if not isinstance(edit.priority, UnsetType):
        manual = job.claim_priority == MANUAL
        claimed_by = MANUAL if manual else kind.claim_priority(edit.priority)
        job = replace(job, priority=edit.priority, claim_priority=claimed_by)
    if not isinstance(edit.cursor, UnsetType) and edit.cursor != job.cursor:
        _check_cursor(edit.cursor, kind)
        # A worker whose lease has expired must not write the old cursor back.
        moved = {"target_key": kind.target_key(edit.cursor), "fence": job.fence + 1}
        job = replace(job, cursor=edit.cursor, progress=JobProgress(), **moved)
    return replace(job, updated_at=now_ms)


def kind_of(name: str, kinds: Mapping[str, JobKind]) -> JobKind:
    """The kind of that name.

    Raises:
        BadJob: there is none.
    """
    if name in kinds:
        return kinds[name]
    near = near_matches(name, kinds)
    hint = f"did you mean {' or '.join(near)}" if near else f"there are {' '.join(sorted(kinds))}"
    raise BadJob("type", f"there is no kind {name!r}; {hint}")


def _typed(said: S) -> S:
    """The same, with the bounds of its types checked: its constructor does not check them."""
    try:
        return msgspec.convert(msgspec.to_builtins(said), type(said))
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise BadJob(path.rstrip("`") or "job", problem) from error


def _market(new: NewJob, kind: JobKind) -> tuple[str | None, str | None]:
    if not kind.of_market:
        for field in ("symbol", "timeframe"):
            if getattr(new, field) is not None:
                raise BadJob(field, f"a {kind.name} has none: it is for the whole exchange")
        return None, None
    if new.symbol is None:
        raise BadJob("symbol", f"a {kind.name} needs one, such as BTC/USDT")
    if new.timeframe is None:
        raise BadJob("timeframe", f"a {kind.name} needs one, such as 1h")
    try:
        return Symbol.parse(new.symbol).unified, Interval.parse(new.timeframe).text
    except MalformedSymbol as error:
        raise BadJob("symbol", str(error).rstrip(".")) from error
    except UnknownInterval as error:
        raise BadJob("timeframe", str(error).rstrip(".")) from error


def _schedule(said: Schedule | None, kind: JobKind, timeframe: str | None) -> Schedule | None:
    if not kind.repeats:
        if said is not None:
            raise BadJob("schedule", f"a {kind.name} has none: it runs until it is done")
        return None
    return said or Schedule(interval_ms=kind.interval_ms(timeframe))


def _check_cursor(cursor: Cursor, kind: JobKind) -> None:
    since_ms, until_ms = cursor.since_ms, cursor.until_ms
    if cursor.done:
        raise BadJob("cursor.done", "only a worker can say that a job is done")
    if kind.of_range and (since_ms is None or until_ms is None):
        raise BadJob("cursor", f"a {kind.name} needs since_ms and until_ms")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise BadJob("cursor", f"since_ms {since_ms} is not before until_ms {until_ms}")
    if until_ms is not None and kind.repeats:
        raise BadJob("cursor.until_ms", f"a {kind.name} has no end")
    if not kind.of_market and cursor != Cursor():
        raise BadJob("cursor", f"a {kind.name} has none")
