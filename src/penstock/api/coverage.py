"""Routes for the coverage map, for gaps, and to fill one."""

from typing import Annotated, Literal, TypeVar

from litestar import Response, get, post
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from penstock.api.app_state import AppState, GivenState, json_answer, resource_answer
from penstock.api.problems import AnyRequest, bad_field
from penstock.api.reading import After, Limit, Word, body_of, page_start, page_token, query_of
from penstock.api.views import job_view
from penstock.coverage.model import GapState
from penstock.jobs.model import Instant
from penstock.market.symbol import Symbol
from penstock.monitor.cells import Columns
from penstock.monitor.coverage_map import CoverageMap, read_map
from penstock.monitor.gaps import GapFilter, Gaps, find_gap, is_token, read_gaps
from penstock.monitor.series import SeriesFilter, is_key

_STEPS_MS = {"day": 86_400_000, "hour": 3_600_000}
_COLUMNS = {"day": 60, "hour": 72}
"""By default."""
_MOST_COLUMNS = 2_000


class _OfSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exchange: Word | UnsetType = UNSET
    channel: Word | UnsetType = UNSET
    symbol: Word | UnsetType = UNSET
    """In any spelling except the exchange's own: btc_usdt or BTC/USDT."""
    limit: Limit = 100
    after: After | UnsetType = UNSET
    """``more`` of the previous page."""

    def series(self) -> SeriesFilter:
        """The series that are wanted."""
        slug = Symbol.parse(self.symbol).slug if self.symbol else None
        return SeriesFilter(self.exchange or None, self.channel or None, slug)


class MapQuery(_OfSeries, frozen=True, kw_only=True):
    """Which part of the coverage map to show."""

    step: Literal["day", "hour"] = "day"
    """What a column is, in UTC."""
    from_ms: Instant | UnsetType = field(name="from", default=UNSET)
    """In ms; by default 60 days or 72 hours before ``until``."""
    until_ms: Instant | UnsetType = field(name="until", default=UNSET)
    """In ms; by default now. The column of this time is the last."""


class GapQuery(_OfSeries, frozen=True, kw_only=True):
    """Which gaps to list."""

    state: GapState | UnsetType = UNSET
    from_ms: Instant | UnsetType = field(name="from", default=UNSET)
    """In ms: gaps that end before this are left out."""
    until_ms: Instant | UnsetType = field(name="until", default=UNSET)
    """In ms: gaps that begin at this or later are left out."""


class GapOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gap to fill."""

    id: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]


Paged = TypeVar("Paged", CoverageMap, Gaps)


def _with_token(page: Paged) -> Paged:
    """A page whose ``more`` can be sent back as ``after``."""
    return page if page.more is None else replace(page, more=page_token(page.more))


@get("/coverage/map")
async def mapped(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Show how complete each series is, day by day or hour by hour."""
    asked = query_of(request, MapQuery)
    after = page_start(asked.after or None)
    if after is not None and not is_key(after):
        raise bad_field("after", "is not a `more` that a page returned")
    columns = await _columns(app_state, asked)
    async with app_state.reading:
        found = await read_map(app_state.store, columns, asked.series(), asked.limit, after)
    return json_answer(_with_token(found))


async def _columns(app_state: AppState, asked: MapQuery) -> Columns:
    step_ms = _STEPS_MS[asked.step]
    last_ms = asked.until_ms
    if isinstance(last_ms, UnsetType):
        last_ms = await app_state.store.now_ms()
    last = last_ms // step_ms
    first = max(0, last + 1 - _COLUMNS[asked.step])
    if not isinstance(asked.from_ms, UnsetType):
        first = asked.from_ms // step_ms
    if first > last:
        raise bad_field("from", "is after `until`")
    if last - first >= _MOST_COLUMNS:
        raise bad_field("from", f"a map has at most {_MOST_COLUMNS:,} columns")
    return Columns(first * step_ms, step_ms, last + 1 - first)


@get("/gaps")
async def gaps(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """List gaps by series and position, with their causes and whether they can be filled."""
    asked = query_of(request, GapQuery)
    after = page_start(asked.after or None)
    if after is not None and not is_token(after):
        raise bad_field("after", "is not a `more` that a page returned")
    wanted = GapFilter(
        asked.series(),
        asked.state or None,
        None if isinstance(asked.from_ms, UnsetType) else asked.from_ms,
        None if isinstance(asked.until_ms, UnsetType) else asked.until_ms,
    )
    return json_answer(_with_token(await read_gaps(app_state.store, wanted, asked.limit, after)))


@post("/gaps/fill")
async def filled(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Make the job that fills a gap: 201; or run the one that exists: 200."""
    order = await body_of(request, GapOrder)
    job, is_new = await app_state.admin.fill(await find_gap(app_state.store, order.id))
    status, location = (201, f"jobs/{job.id}") if is_new else (200, "")
    return resource_answer(request, job_view(job), job.version, status, location)


ROUTES = [mapped, gaps, filled]
