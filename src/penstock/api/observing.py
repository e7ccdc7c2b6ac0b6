"""Routes for what a fleet does now: connections, rate limits and logs."""

import asyncio

from litestar import Response, get
from msgspec import Struct

from penstock.api.app_state import AppState, GivenState, json_answer
from penstock.api.problems import AnyRequest, bad_field
from penstock.api.reading import After, Limit, Word, query_of
from penstock.monitor.connections import connections
from penstock.monitor.limits import limits
from penstock.monitor.process_logs import Level, LogPage, LogQuery, read_logs


class LogFilters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a request for log lines."""

    level: Level = "debug"
    """Only lines of this level and above."""
    process: Word | None = None
    """Only lines of this process."""
    text: Word | None = None
    """Only lines with this text anywhere; the case of the letters a to z is ignored."""
    after: After | None = None
    limit: Limit = 200


@get("/connections")
async def connected(app_state: GivenState) -> Response[bytes]:
    """List the stream connections of all processes, with their latest events."""
    return json_answer(await connections(app_state.store))


@get("/limits")
async def limited(app_state: GivenState) -> Response[bytes]:
    """List the usage of all rate limits, the exchanges' stops and the circuit breakers."""
    return json_answer(await limits(app_state.store, app_state.connectors))


@get("/logs")
async def logged(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """List log lines of the processes with the server's data folder, the newest first."""
    asked = query_of(request, LogFilters)
    query = LogQuery(**{name: getattr(asked, name) for name in asked.__struct_fields__})
    try:
        page = await _read(app_state, query)
    except ValueError:
        raise bad_field("after", "is not a `next` that a page returned") from None
    return json_answer(page)


async def newest_logs(app_state: AppState) -> LogPage:
    """Return the newest log lines of all levels."""
    return await _read(app_state, LogQuery())


async def _read(app_state: AppState, query: LogQuery) -> LogPage:
    async with app_state.reading_logs:
        return await asyncio.to_thread(read_logs, app_state.monitor.folder, query)


ROUTES = [connected, limited, logged]
