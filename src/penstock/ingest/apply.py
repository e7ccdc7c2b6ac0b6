"""Applying a plan: looked at whole before anything is changed, then carried out step by step.

Each step can be taken again, so that whatever interrupts it, applying the plan once more is enough.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from msgspec import UNSET

from penstock.config import ConnectorPlan
from penstock.errors import BadJob, ConfigError, PenstockError
from penstock.exchanges import registry
from penstock.ingest.plan import (
    NO_LONGER_PLANNED,
    EditConnector,
    EditJob,
    Found,
    MakeConnector,
    MakeJob,
    PauseJob,
    ResumeJob,
    Step,
    Wanted,
    planned,
    steps,
    wanted,
)
from penstock.ingest.requests import Intake, check_timeframe, checked
from penstock.jobs.desk import JobDesk
from penstock.jobs.kinds import OHLCV_BACKFILL
from penstock.jobs.model import Job, JobEdit, State

_PAGE = 500


async def prepare(plans: Mapping[str, ConnectorPlan], intake: Intake, origin: str) -> list[Step]:
    """What applying plans would change.

    Raises:
        ConfigError: something in them cannot be; it names all of it. ``origin`` says whence.
    """
    jobs: list[Wanted] = []
    problems: list[str] = []
    for exchange_id, plan in plans.items():
        good, bad = await _wanted(exchange_id, plan, intake)
        jobs, problems = jobs + good, problems + bad
    if problems:
        raise ConfigError("connectors", problem="\n  ".join(["", *problems]), origin=origin)
    return steps(plans, jobs, await _found(plans, intake))


async def _wanted(
    exchange_id: str, plan: ConnectorPlan, intake: Intake
) -> tuple[list[Wanted], list[str]]:
    """The jobs of a plan as they will be kept; or else everything that is wrong with it."""
    problems: list[str] = []

    def look(check: Callable[[], object]) -> None:
        try:
            check()
        except PenstockError as error:
            problems.append(f"connectors.{exchange_id}: {error}")

    try:
        exchange = registry.load(exchange_id)
        listed = await intake.listings.of(exchange_id) if plan.symbols else None
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
    jobs = [(await checked(new, intake.listings), by) for new, by in planned(exchange_id, plan)]
    try:
        return wanted(jobs, intake.desk.kinds), []
    except BadJob as error:
        return [], [f"connectors.{exchange_id}: {error.field}: {error.problem}."]


async def _found(plans: Mapping[str, ConnectorPlan], intake: Intake) -> Found:
    connectors = {one.exchange_id: one for one in await intake.connectors.find(limit=1000)}
    chosen = {
        exchange_id: await intake.connectors.chosen_limits(exchange_id)
        for exchange_id in plans
        if exchange_id in connectors
    }
    live = [job async for job in _all(intake.desk)]
    done = [job async for job in _all(intake.desk, OHLCV_BACKFILL.name, "success")]
    return Found(connectors, chosen, live, done)


async def _all(
    desk: JobDesk, kind: str | None = None, state: State | None = None
) -> AsyncIterator[Job]:
    after: str | None = None
    while page := await desk.find(type=kind, state=state, limit=_PAGE, after=after):
        for job in page:
            yield job
        after = page[-1].id


async def carry_out(step: Step, intake: Intake) -> None:
    """Take one step."""
    match step:
        case MakeConnector(exchange_id, limits, notes):
            await intake.connectors.ensure_connector(exchange_id, limits, notes)
        case EditConnector(exchange_id, limits, notes):
            await intake.connectors.edit(
                exchange_id, version=None, limits=limits or UNSET, notes=notes or UNSET
            )
        case MakeJob(new, origin):
            await intake.add(new, origin)
        case EditJob(job, schedule):
            await intake.desk.edit(job.id, JobEdit(schedule=schedule), version=None)
        case PauseJob(job):
            await intake.desk.pause(job.id, NO_LONGER_PLANNED)
        case ResumeJob(job):
            await intake.desk.resume(job.id)
