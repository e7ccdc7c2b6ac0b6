"""Routes for jobs: create, list, edit, pause, resume, run, delete, and follow events."""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath
from litestar.response import ServerSentEvent, ServerSentEventMessage
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from penstock.api.app_state import (
    AppState,
    GivenState,
    expected_version,
    json_answer,
    page_answer,
    resource_answer,
)
from penstock.api.credentials import Granted, granted_to
from penstock.api.problems import AnyRequest, bad_field
from penstock.api.reading import After, Limit, Word, body_of, page_start, query_of
from penstock.api.views import EditedJob, JobSummary, job_view
from penstock.errors import StorageError
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Job, JobEdit, JobEvent, NewJob, State, Status
from penstock.market.symbol import Symbol
from penstock.monitor.jobs_summary import summarized_jobs

_LOOK_S = 0.5
_SILENT_LOOKS = 30
"""Polls without a new event after which an event stream sends a keep-alive comment."""


class JobFilters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to list."""

    exchange_id: Word | UnsetType = UNSET
    type: Word | UnsetType = UNSET
    symbol: Word | UnsetType = UNSET
    """In any spelling except the exchange's own: btc_usdt or BTC/USDT."""
    timeframe: Word | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    """Deleted and finished jobs are listed only if requested."""
    state: State | UnsetType = UNSET
    limit: Limit = 100
    after: After | UnsetType = UNSET


@post("/jobs")
async def created(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Make a job; its exchange's connector is made too, if there is none."""
    new = await body_of(request, NewJob)
    return _answer(request, await app_state.admin.add(new), 201)


@get("/jobs")
async def listed(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """List jobs, oldest first."""
    asked = query_of(request, JobFilters)
    found = await app_state.job_service.find(
        exchange_id=asked.exchange_id or None,
        type=asked.type or None,
        symbol=Symbol.parse(asked.symbol).unified if asked.symbol else None,
        timeframe=asked.timeframe or None,
        status=asked.status or None,
        state=asked.state or None,
        limit=asked.limit + 1,
        after=page_start(asked.after or None),
    )
    return page_answer(request, found, asked.limit, job_view)


@get("/jobs/summary")
async def summarized(app_state: GivenState) -> Response[bytes]:
    """List the live jobs that run or failed, then others, at most 500; and count all by state."""
    return json_answer(await job_summary(app_state))


async def job_summary(app_state: AppState) -> JobSummary:
    """The live jobs that need attention first, and how many there are.

    Raises:
        StorageError: the store does not answer.
    """
    found = await summarized_jobs(app_state.job_service)
    items = tuple(map(job_view, found.jobs))
    return JobSummary(items=items, counts=found.counts, paused=found.paused)


@get("/jobs/{job_id:str}")
async def shown(
    request: AnyRequest, app_state: GivenState, job_id: FromPath[str]
) -> Response[bytes]:
    """Show one job."""
    return _answer(request, await app_state.job_service.get(job_id))


@put("/jobs/{job_id:str}")
async def edited(
    request: AnyRequest, app_state: GivenState, job_id: FromPath[str]
) -> Response[bytes]:
    """Change a job's schedule, priority or cursor; If-Match says which version of it."""
    given = await body_of(request, EditedJob)
    version = await expected_version(
        request, lambda: app_state.job_service.get(job_id), needed=True
    )
    edit = _edit_of(given, await app_state.job_service.get(job_id), app_state.job_service.kinds)
    return _answer(request, await app_state.job_service.edit(job_id, edit, version=version))


def _edit_of(given: EditedJob, job: Job, kinds: Mapping[str, AnyKind]) -> JobEdit:
    """Return the changes that a client requests; all other fields must be unchanged."""
    if given.cursor is not UNSET and job.is_known:
        given = replace(given, cursor=kinds[job.type].read_cursor(given.cursor))
    shown, changes = asdict(job_view(job)), {}
    for field, value in asdict(given).items():
        if value is UNSET or value == shown[field]:
            continue
        if field not in JobEdit.__struct_fields__ or value is None:
            kept = "" if shown[field] is UNSET else msgspec.json.encode(shown[field]).decode()
            as_it_is = f", or say {kept} as it is now" if kept else ""
            raise bad_field(field, f"cannot be changed: leave it out{as_it_is}")
        changes[field] = value
    return JobEdit(**changes)


@delete("/jobs/{job_id:str}", status_code=204)
async def deleted(request: AnyRequest, app_state: GivenState, job_id: FromPath[str]) -> None:
    """End a job; what it brought is kept."""
    version = await expected_version(request, lambda: app_state.job_service.get(job_id))
    await app_state.job_service.delete(job_id, version=version)


@post("/jobs/{job_id:str}/pause")
async def paused(
    request: AnyRequest, app_state: GivenState, job_id: FromPath[str]
) -> Response[bytes]:
    """Let a job rest; a worker that runs it parks it where it stands."""
    return _answer(request, await app_state.job_service.pause(job_id))


@post("/jobs/{job_id:str}/resume")
async def resumed(
    request: AnyRequest, app_state: GivenState, job_id: FromPath[str]
) -> Response[bytes]:
    """Let a job run again, from its cursor; also one that failed."""
    return _answer(request, await app_state.job_service.resume(job_id))


@post("/jobs/{job_id:str}/run")
async def run(request: AnyRequest, app_state: GivenState, job_id: FromPath[str]) -> Response[bytes]:
    """Make a job due at once, before all others."""
    return _answer(request, await app_state.job_service.run(job_id))


@get("/jobs/{job_id:str}/events")
async def events(
    request: AnyRequest, app_state: GivenState, job_id: FromPath[str]
) -> Response[bytes] | ServerSentEvent:
    """The latest events of a job; as text/event-stream, its events from now on."""
    job = await app_state.job_service.get(job_id)
    if "text/event-stream" not in request.headers.get("accept", ""):
        return json_answer(job.events)
    last = request.headers.get("last-event-id", "")
    known = job.events
    if last.isdecimal():
        known = tuple(event for event in job.events if event.at <= int(last[:15]))
    return ServerSentEvent(_follow(app_state, granted_to(request.scope), job_id, known))


async def _follow(
    app_state: AppState, granted: Granted, job_id: str, known: Sequence[JobEvent]
) -> AsyncIterator[ServerSentEventMessage]:
    silent = 0
    while granted.is_valid() and not app_state.closing.is_set():
        try:
            latest = (await app_state.job_service.get(job_id)).events
        except StorageError:
            # An error cannot be sent within a stream; a client that reconnects gets it.
            return
        # The job service and the worker both add events, so a new one may precede known ones.
        for event in (event for event in latest if event not in known):
            data = msgspec.json.encode(event).decode()
            yield ServerSentEventMessage(data=data, event=event.what, id=event.at)
        silent = 0 if latest != known else silent + 1
        if silent % _SILENT_LOOKS == 1:
            yield ServerSentEventMessage(data=None, comment="nothing new")
        known = latest
        await app_state.clock.sleep(_LOOK_S)


def _answer(request: AnyRequest, job: Job, status: int = 200) -> Response[bytes]:
    location = f"jobs/{job.id}" if status == 201 else ""
    return resource_answer(request, job_view(job), job.version, status, location)


ROUTES = [created, listed, summarized, shown, edited, deleted, paused, resumed, run, events]
