"""Applies a plan: all of it is checked before anything is changed, then it is done step by step.

Each step can be repeated, so after an interruption it is enough to apply the plan again.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from msgspec import UNSET

from penstock.config import ConnectorPlan
from penstock.errors import BadJob, ConfigError, PenstockError
from penstock.exchanges import registry
from penstock.ingest.admin import FleetAdmin, check_timeframe, checked
from penstock.ingest.candle_jobs import OHLCV_BACKFILL
from penstock.ingest.plan import (
    NO_LONGER_PLANNED,
    CurrentState,
    EditConnector,
    EditJob,
    MakeConnector,
    MakeJob,
    PauseJob,
    PlannedJob,
    PlanStep,
    ResumeJob,
    planned,
    steps,
    wanted,
)
from penstock.jobs.model import Job, JobEdit, State
from penstock.jobs.service import JobService

_PAGE = 500


async def prepare(
    plans: Mapping[str, ConnectorPlan], admin: FleetAdmin, origin: str
) -> list[PlanStep]:
    """Return the changes that applying the plans would make.

    Raises:
        ConfigError: the plans are invalid; it lists all problems. ``origin`` names their source.
    """
    jobs: list[PlannedJob] = []
    problems: list[str] = []
    for exchange_id, plan in plans.items():
        good, bad = await _wanted(exchange_id, plan, admin)
        jobs, problems = jobs + good, problems + bad
    if problems:
        raise ConfigError("connectors", problem="\n  ".join(["", *problems]), origin=origin)
    return steps(plans, jobs, await _found(plans, admin))


async def _wanted(
    exchange_id: str, plan: ConnectorPlan, admin: FleetAdmin
) -> tuple[list[PlannedJob], list[str]]:
    """Return the jobs of a plan as they will be stored, or all problems of the plan."""
    problems: list[str] = []

    def look(check: Callable[[], object]) -> None:
        try:
            check()
        except PenstockError as error:
            problems.append(f"connectors.{exchange_id}: {error}")

    try:
        exchange = registry.load(exchange_id)
        listed = await admin.listings.of(exchange_id) if plan.symbols else None
    except PenstockError as error:
        return [], [f"connectors.{exchange_id}: {error}"]
    if bool(plan.symbols) != bool(plan.timeframes):
        missing = "timeframes" if plan.symbols else "symbols"
        problems.append(f"connectors.{exchange_id}.{missing}: name at least one.")
    for symbol in plan.symbols:
        assert listed is not None
        look(partial(listed.find, symbol))
    for timeframe in plan.timeframes:
        look(partial(check_timeframe, exchange, timeframe))
    if problems:
        return [], problems
    jobs = [(await checked(new, admin.listings), by) for new, by in planned(exchange_id, plan)]
    try:
        return wanted(jobs, admin.job_service.kinds), []
    except BadJob as error:
        return [], [f"connectors.{exchange_id}: {error.field}: {error.problem}."]


async def _found(plans: Mapping[str, ConnectorPlan], admin: FleetAdmin) -> CurrentState:
    connectors = {one.exchange_id: one for one in await admin.connectors.find(limit=1000)}
    chosen = {
        exchange_id: await admin.connectors.chosen_limits(exchange_id)
        for exchange_id in plans
        if exchange_id in connectors
    }
    live = [job async for job in _all(admin.job_service)]
    done = [job async for job in _all(admin.job_service, OHLCV_BACKFILL, "success")]
    return CurrentState(connectors, chosen, live, done)


async def _all(
    job_service: JobService, kind: str | None = None, state: State | None = None
) -> AsyncIterator[Job]:
    after: str | None = None
    while page := await job_service.find(type=kind, state=state, limit=_PAGE, after=after):
        for job in page:
            yield job
        after = page[-1].id


async def carry_out(step: PlanStep, admin: FleetAdmin) -> None:
    """Carry out one step."""
    match step:
        case MakeConnector(exchange_id, limits, notes):
            await admin.connectors.ensure_connector(exchange_id, limits, notes)
        case EditConnector(exchange_id, limits, notes):
            await admin.connectors.edit(
                exchange_id, version=None, limits=limits or UNSET, notes=notes or UNSET
            )
        case MakeJob(new, origin):
            await admin.add(new, origin)
        case EditJob(job, schedule):
            await admin.job_service.edit(job.id, JobEdit(schedule=schedule), version=None)
        case PauseJob(job):
            await admin.job_service.pause(job.id, NO_LONGER_PLANNED)
        case ResumeJob(job):
            await admin.job_service.resume(job.id)
