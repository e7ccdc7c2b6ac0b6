"""Converts a client's request into a complete job, or rejects it with a reason. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from penstock.errors import BadJob, near_matches
from penstock.jobs.kinds import AnyKind, Market
from penstock.jobs.model import Job, JobEdit, JobProgress, NewJob, Schedule
from penstock.jobs.schedule import MANUAL, next_due
from penstock.storage.state.job_targets import target_key

S = TypeVar("S", bound=Struct)


def admitted(new: NewJob, kinds: Mapping[str, AnyKind], job_id: str, now_ms: int) -> Job:
    """The job that a client requests, due at once.

    Raises:
        BadJob: it is invalid.
    """
    new = _typed(new)
    kind = kind_of(new.type, kinds)
    if not new.exchange_id:
        raise BadJob("exchange_id", "name an exchange")
    cursor = kind.read_cursor({} if new.cursor is None else new.cursor)
    target = kind.target(Market(new.symbol, new.timeframe), cursor)
    kind.check_exchange(new.exchange_id, target)
    priority = kind.priority if new.priority is None else new.priority
    return Job(
        id=job_id,
        exchange_id=new.exchange_id,
        type=kind.name,
        **kind.market(target)._asdict(),
        schedule=_schedule(new.schedule, kind, target),
        next_run_at=now_ms,
        priority=priority,
        claim_priority=kind.claim_priority(priority),
        target=target,
        target_key=target_key(target),
        cursor=cursor,
        asked=_asked(cursor),
        created_at=now_ms,
        updated_at=now_ms,
    )


def edited(job: Job, edit: JobEdit, kinds: Mapping[str, AnyKind], now_ms: int) -> Job:
    """The job with a client's changes.

    Raises:
        BadJob: they are invalid.
    """
    edit, kind = _typed(edit), kind_of(job.type, kinds)
    if not isinstance(edit.schedule, UnsetType):
        schedule = _schedule(edit.schedule, kind, job.target)
        if schedule is not None and schedule != job.schedule:
            due_ms = next_due(job.id, schedule.interval_ms, now_ms)
            job = replace(job, schedule=schedule, next_run_at=min(job.next_run_at, due_ms))
    if not isinstance(edit.priority, UnsetType):
        manual = job.claim_priority == MANUAL
        claimed_by = MANUAL if manual else kind.claim_priority(edit.priority)
        job = replace(job, priority=edit.priority, claim_priority=claimed_by)
    if not isinstance(edit.cursor, UnsetType):
        job = _moved(job, kind, edit.cursor)
    return replace(job, updated_at=now_ms)


def _moved(job: Job, kind: AnyKind, given: object) -> Job:
    """The job from another cursor, which may also change its target."""
    cursor = kind.read_cursor(given)
    if cursor == job.cursor:
        return job
    target = kind.target(Market(job.symbol, job.timeframe), cursor)
    kind.check_exchange(job.exchange_id, target)
    # A worker whose lease has expired must not write the old cursor back.
    moved = {"cursor": cursor, "asked": _asked(cursor), "progress": JobProgress()}
    key = target_key(target)
    return replace(job, target=target, target_key=key, fence=job.fence + 1, **moved)


def _asked(cursor: Struct) -> dict[str, Any]:
    """What a client asked for, as it is stored: without fields that are not set."""
    given: dict[str, Any] = msgspec.to_builtins(cursor)
    return {name: value for name, value in given.items() if value is not None}


def kind_of(name: str, kinds: Mapping[str, AnyKind]) -> AnyKind:
    """The kind of that name.

    Raises:
        BadJob: there is none.
    """
    if name in kinds:
        return kinds[name]
    near = near_matches(name, kinds)
    hint = f"did you mean {' or '.join(near)}" if near else f"there are {' '.join(sorted(kinds))}"
    raise BadJob("type", f"there is no kind {name!r}; {hint}")


def _typed(given: S) -> S:
    """The same, with the bounds of its types checked: its constructor does not check them."""
    try:
        return msgspec.convert(msgspec.to_builtins(given), type(given))
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise BadJob(path.rstrip("`") or "job", problem) from error


def _schedule(given: Schedule | None, kind: AnyKind, target: Struct) -> Schedule | None:
    interval_ms = kind.interval_ms(target)
    if interval_ms is None:
        if given is not None:
            raise BadJob("schedule", f"a {kind.name} has none: it runs until it is done")
        return None
    return given or Schedule(interval_ms=interval_ms)
