"""Routes for connectors, one connector per exchange."""

from typing import Annotated, Literal

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from penstock.api.app_state import (
    GivenState,
    expected_version,
    page_answer,
    resource_answer,
)
from penstock.api.problems import AnyRequest, bad_field
from penstock.api.reading import After, Limit, body_of, page_start, query_of
from penstock.api.views import Date, connector_view
from penstock.config import LimitPlan, Text
from penstock.connectors import Connector, Stop
from penstock.ingest.admin import limit_of
from penstock.throttle.gate import Limit as ThrottleLimit

Limits = Annotated[tuple[LimitPlan, ...], Meta(min_length=1, max_length=20)]


class NewConnector(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that creates a connector."""

    exchange_id: str
    notes: Text | None = None
    limits: Limits | None = None
    """Limits that replace the exchange's own."""
    rate_limit: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """Shorthand for one limit: the number of requests per period."""
    rate_limit_period_ms: Annotated[int, Meta(ge=1, le=31 * 86_400_000)] | None = None
    """The period of ``rate_limit`` in milliseconds."""


class EditedLimit(LimitPlan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit as returned by the API, or some of its fields. Measured fields are ignored."""

    used: int | UnsetType = UNSET
    window_start: int | UnsetType | None = UNSET
    reset_at: int | UnsetType | None = UNSET
    server_used: int | UnsetType | None = UNSET


EditedLimits = Annotated[tuple[EditedLimit, ...], Meta(min_length=1, max_length=20)]


class ConnectorEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connector as returned by the API, or some of its fields, with changes.

    Notes and limits can be changed. Measured fields are ignored; all others must be unchanged.
    """

    notes: Text | UnsetType | None = UNSET
    limits: EditedLimits | UnsetType | None = UNSET
    """None restores the exchange's own limits."""
    id: str | UnsetType = UNSET
    exchange_id: str | UnsetType = UNSET
    creation_date: Date | UnsetType = UNSET
    updated_at: Date | UnsetType = UNSET
    status: Literal["active", "paused", "deleted"] | UnsetType = UNSET
    rate_limit: int | UnsetType = UNSET
    """Amount and period of the first limit; to change them, change ``limits``."""
    rate_limit_period_ms: int | UnsetType = UNSET
    version: int | UnsetType = UNSET
    rate_limit_usage: int | UnsetType = UNSET
    """Measured, like all fields below."""
    rate_limit_window_start: int | UnsetType = UNSET
    rate_limit_reset_at: int | UnsetType = UNSET
    blocked_until: int | UnsetType | None = UNSET
    blocked_by: Stop | UnsetType | None = UNSET
    exchange_offset_ms: int | UnsetType = UNSET
    saturation_count: int | UnsetType = UNSET
    last_job_run_time: Date | UnsetType | None = UNSET
    jobs_count: int | UnsetType = UNSET
    active_jobs_count: int | UnsetType = UNSET


_FIXED = (
    "id", "exchange_id", "creation_date", "updated_at", "status", "rate_limit",
    "rate_limit_period_ms", "version",
)  # fmt: skip


class ConnectorFilters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which connectors to list."""

    status: Literal["active", "paused", "deleted"] | UnsetType = UNSET
    """Deleted connectors are listed only with ``status=deleted``."""
    limit: Limit = 100
    after: After | UnsetType = UNSET


@post("/connectors")
async def ensure(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Create an exchange's connector; if there is one, return it unchanged."""
    new = await body_of(request, NewConnector)
    limits = _limits_of(new)
    ensured = await app_state.connectors.ensure_connector(new.exchange_id, limits, new.notes)
    status = 201 if ensured.created else 200
    return _answer(request, ensured.connector, status)


@get("/connectors")
async def listed(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """List connectors, sorted by exchange_id."""
    asked = query_of(request, ConnectorFilters)
    after = page_start(asked.after or None)
    found = await app_state.connectors.find(asked.status or None, asked.limit + 1, after)
    return page_answer(request, found, asked.limit, connector_view)


@get("/connectors/{exchange_id:str}")
async def shown(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]
) -> Response[bytes]:
    """Show one connector."""
    connector = await app_state.connectors.get(exchange_id)
    return _answer(request, connector)


@patch("/connectors/{exchange_id:str}")
async def edited(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]
) -> Response[bytes]:
    """Change a connector's notes or limits."""
    edit = await body_of(request, ConnectorEdit)
    version = await expected_version(request, lambda: app_state.connectors.get(exchange_id))
    limits = _checked_limits(edit, await app_state.connectors.get(exchange_id))
    changed = await app_state.connectors.edit(
        exchange_id, version=version, notes=edit.notes, limits=limits
    )
    return _answer(request, changed)


def _checked_limits(
    edit: ConnectorEdit, connector: Connector
) -> list[ThrottleLimit] | UnsetType | None:
    """Return the limits to set, if they differ; all fixed fields must be unchanged."""
    shown, said = asdict(connector_view(connector)), asdict(edit)
    for field in _FIXED:
        if said[field] is not UNSET and said[field] != shown[field]:
            kept = msgspec.json.encode(shown[field]).decode()
            raise bad_field(field, f"cannot be changed: leave it out, or send the current {kept}")
    if not isinstance(edit.limits, tuple):
        return edit.limits
    names = LimitPlan.__struct_fields__
    wanted = [ThrottleLimit(**{name: getattr(x, name) for name in names}) for x in edit.limits]
    # The exchange's own limits, sent back unchanged, do not become limits set by the client: they
    # continue to follow what the exchange announces.
    known = [ThrottleLimit(**{name: getattr(x, name) for name in names}) for x in connector.limits]
    return UNSET if wanted == known else wanted


@delete("/connectors/{exchange_id:str}", status_code=204)
async def deleted(request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]) -> None:
    """Delete a connector that has no live jobs; the usage of its limits is kept."""
    version = await expected_version(request, lambda: app_state.connectors.get(exchange_id))
    await app_state.connectors.delete(exchange_id, version=version)


@post("/connectors/{exchange_id:str}/pause")
async def paused(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]
) -> Response[bytes]:
    """Stop all processes from sending requests to an exchange."""
    return _answer(request, await app_state.connectors.pause_connector(exchange_id))


@post("/connectors/{exchange_id:str}/resume")
async def resumed(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]
) -> Response[bytes]:
    """Allow all processes to send requests to an exchange again."""
    return _answer(request, await app_state.connectors.resume_connector(exchange_id))


def _limits_of(new: NewConnector) -> list[ThrottleLimit] | None:
    """Return the limits that a client set, in either of the two ways."""
    amount, period_ms = new.rate_limit, new.rate_limit_period_ms
    if amount is None and period_ms is None:
        return None if new.limits is None else [limit_of(plan) for plan in new.limits]
    if new.limits is not None:
        raise bad_field("rate_limit", "send either this or limits, not both")
    if amount is None or period_ms is None:
        missing = "rate_limit" if amount is None else "rate_limit_period_ms"
        raise bad_field(missing, "send both rate_limit and rate_limit_period_ms")
    return [limit_of(LimitPlan(amount=amount, period_ms=period_ms, unit="request"))]


def _answer(request: AnyRequest, connector: Connector, status: int = 200) -> Response[bytes]:
    location = f"connectors/{connector.exchange_id}" if status == 201 else ""
    return resource_answer(request, connector_view(connector), connector.version, status, location)


ROUTES = [ensure, listed, shown, edited, deleted, paused, resumed]
