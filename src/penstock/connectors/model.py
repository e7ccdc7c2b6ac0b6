"""A connector is one document per exchange, shared by every process that sends to it.

The document has the configuration: status, notes, limits. The usage of the limits is in the budget
of the same name, which outlives the document: a connector that is deleted and created again
continues with the same usage.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from penstock.connectors.limits import LimitState, in_force, restored, state_of, stored
from penstock.connectors.stops import Stop
from penstock.storage.state import Budget, Document
from penstock.throttle.gate import Limit

Status = Literal["active", "paused", "deleted"]


class Connector(Struct, frozen=True, kw_only=True):
    """One exchange's connector. Times are in ms, by the store's clock."""

    id: str
    exchange_id: str
    creation_date: int
    updated_at: int
    status: Status
    notes: str | None
    rate_limit_period_ms: int
    """This and the next four fields are those of the first limit, which is the main one."""
    rate_limit: int
    rate_limit_usage: int
    rate_limit_window_start: int
    rate_limit_reset_at: int
    limits: tuple[LimitState, ...]
    blocked_until: int | None
    """The end of a stop ordered by the exchange."""
    blocked_by: Stop | None
    """The response that ordered it, if known."""
    exchange_offset_ms: int
    """How far the exchange's clock is ahead of the store's."""
    saturation_count: int
    """How often there was no capacity."""
    last_job_run_time: int | None
    jobs_count: int
    active_jobs_count: int
    version: int


def new_document(
    exchange_id: str,
    announced: Sequence[Limit],
    chosen: Sequence[Limit] | None,
    notes: str | None,
    now_ms: int,
) -> Document:
    """The document of a new connector."""
    return {
        "id": exchange_id,
        "exchange_id": exchange_id,
        "creation_date": now_ms,
        "updated_at": now_ms,
        "status": "active",
        "notes": notes,
        "chosen": None if chosen is None else stored(chosen),
        "announced": stored(announced),
        "exchange_offset_ms": 0,
        "last_job_run_time": None,
    }


def limits_of(document: Document, of_key: Sequence[Limit] | None = None) -> tuple[Limit, ...]:
    """The limits in force, the main one first; ``of_key`` replace the exchange's public ones."""
    chosen = restored(document["chosen"]) if document["chosen"] else None
    return in_force(chosen, restored(document["announced"]) if of_key is None else of_key)


class JobCount(NamedTuple):
    """The number of a connector's live jobs, and how many of them are active."""

    all: int = 0
    active: int = 0


def connector_of(
    document: Document,
    in_force: Sequence[Limit],
    budget: Budget,
    jobs: JobCount,
    now_ms: int,
) -> Connector:
    """A connector, with the state of its limits at a time."""
    offset_ms = document["exchange_offset_ms"]
    limits = tuple(state_of(limit, budget, now_ms, offset_ms) for limit in in_force)
    main, blocked_until = limits[0], budget.blocked_until_ms
    stop = document.get("stop")
    return Connector(
        id=document["id"],
        exchange_id=document["exchange_id"],
        creation_date=document["creation_date"],
        updated_at=document["updated_at"],
        status=document["status"],
        notes=document["notes"],
        rate_limit_period_ms=main.period_ms,
        rate_limit=main.amount,
        rate_limit_usage=main.used,
        rate_limit_window_start=now_ms if main.window_start is None else main.window_start,
        rate_limit_reset_at=now_ms if main.reset_at is None else main.reset_at,
        limits=limits,
        blocked_until=blocked_until if blocked_until > now_ms else None,
        blocked_by=msgspec.convert(stop, Stop) if stop and blocked_until > now_ms else None,
        exchange_offset_ms=offset_ms,
        saturation_count=budget.refused,
        last_job_run_time=document["last_job_run_time"],
        jobs_count=jobs.all,
        active_jobs_count=jobs.active,
        version=document["version"],
    )
