"""Routes for collected data: trades, candles, order books and coverage, page by page.

A page is a range of rows in the order of time. Its end is the time of its last row, and how many
rows of that time were returned: the next page begins there, whatever is recorded meanwhile.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import Response, get
from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.api.app_state import AppState, GivenState
from penstock.api.problems import AnyRequest, ProblemError, bad_field
from penstock.api.reading import After, Word, page_start, page_token, query_of

if TYPE_CHECKING:
    import polars as pl

    from penstock.dataset.dataset import Dataset
    from penstock.dataset.query import Query

CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"

Rows = Annotated[int, Meta(ge=1, le=10_000, description="Maximum rows per page.")]
Since = Annotated[
    Word, Meta(description="From this time on: 2026-11-01T12:00Z, -1h, or milliseconds.")
]
Until = Annotated[Word, Meta(description="Before this time; by default now.")]
Format = Annotated[Literal["json", "csv", "arrow"], Meta(description="How the rows are returned.")]
Numbers = Annotated[
    Literal["text", "float"], Meta(description="Prices and quantities: exact, or as numbers.")
]
_FIRST_NS = 60_000_000_000
_GROWTH = 8
_LATE_NS = 60_000_000_000
"""How far clocks of exchanges may be ahead."""


class _Shared(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exchange: Word | UnsetType = UNSET
    symbol: Word | UnsetType = UNSET
    """In any spelling: btc_usdt, BTC/USDT, or the exchange's own."""
    format: Format = "json"
    limit: Rows = 1000
    after: After | UnsetType = UNSET


class TradeQuery(_Shared, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which trades to return."""

    since: Since = "-1h"
    until: Until | UnsetType = UNSET
    numbers: Numbers = "text"


class BookQuery(TradeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes and snapshots of order books to return."""

    limit: Rows = 100


class CandleQuery(TradeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which candles to return."""

    interval: Word = "1m"
    from_trades: Literal["yes", "no"] = "no"
    """Whether they are computed from trades."""


class CoverageQuery(_Shared, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which intervals of the ledger of coverage to return."""

    channel: Word | UnsetType = UNSET


class DataPage(Struct, frozen=True, kw_only=True):
    """Rows of collected data."""

    items: list[dict[str, Any]]
    """Their fields are the columns that docs/data.md lists."""
    next: str | None
    """Send it as ``after`` to get the next page."""
    missing: list[str]
    """What is missing in the range that was asked for."""


class _Page(NamedTuple):
    frame: "pl.DataFrame"
    next: str | None
    missing: list[str]


@get("/trades")
async def trades(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Return trades, oldest first."""
    asked = query_of(request, TradeQuery)
    return await _answer(request, app_state, asked, lambda data: data.trades)


@get("/candles")
async def candles(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Return candles, oldest first."""
    asked = query_of(request, CandleQuery)
    computed = asked.from_trades == "yes"
    return await _answer(
        request,
        app_state,
        asked,
        lambda data: partial(data.candles, asked.interval, from_trades=computed),
    )


@get("/books")
async def books(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Return changes and snapshots of order books, oldest first."""
    asked = query_of(request, BookQuery)
    return await _answer(request, app_state, asked, lambda data: data.books)


@get("/coverage")
async def coverage(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Return what is complete and what is missing, by market and channel."""
    asked = query_of(request, CoverageQuery)
    skip = _cursor(asked.after or None, 1)[0]

    def read(data: "Dataset") -> _Page:
        rows = data.coverage(
            asked.symbol or None, exchange=asked.exchange or None, channel=asked.channel or None
        )
        frame = rows.polars().slice(skip)
        more = frame.height > asked.limit
        next_ = page_token(str(skip + asked.limit)) if more else None
        return _Page(frame.head(asked.limit), next_, [])

    return _written(request, asked.format, await _read(app_state, read))


ROUTES = [trades, candles, books, coverage]


async def _answer(
    request: AnyRequest,
    app_state: AppState,
    asked: TradeQuery,
    method_of: Callable[["Dataset"], Callable[..., "Query[Any]"]],
) -> Response[bytes]:
    at_ns, skip = _cursor(asked.after or None, 2)
    options = {
        "symbols": asked.symbol or None, "exchange": asked.exchange or None,
        "numbers": asked.numbers, "on_gap": "ignore",
    }  # fmt: skip

    def read(data: "Dataset") -> _Page:
        query = method_of(data)
        since_ns, until_ns = data.range_ns(asked.since, asked.until or None, _LATE_NS)
        start_ns = max(since_ns, at_ns)

        def until(end_ns: int) -> "pl.DataFrame":
            found = query(since=start_ns, until=end_ns, **options)
            return found.polars().slice(skip)

        missing = query(since=since_ns, until=until_ns, **options).missing()
        span_ns, end_ns = _FIRST_NS, min(start_ns + _FIRST_NS, until_ns)
        # Most pages are short: the range grows until it has a page.
        while (frame := until(end_ns)).height <= asked.limit and end_ns < until_ns:
            span_ns *= _GROWTH
            end_ns = min(start_ns + span_ns, until_ns)
        next_ = None
        if frame.height > asked.limit:
            frame = frame.head(asked.limit)
            last_ns = frame["time_ns"][-1]
            same = int((frame["time_ns"] == last_ns).sum())
            next_ = page_token(f"{last_ns}-{same + (skip if last_ns == start_ns else 0)}")
        return _Page(frame, next_, missing)

    return _written(request, asked.format, await _read(app_state, read))


def _cursor(token: str | None, numbers: int) -> tuple[int, ...]:
    """The numbers in the end of a page; zeros for the first page.

    Raises:
        ProblemError: it is not one that a page returned.
    """
    text = page_start(token)
    if text is None:
        return (0,) * numbers
    parts = text.split("-")
    if len(parts) != numbers or not all(each.isdecimal() and len(each) < 20 for each in parts):
        raise bad_field("after", "is not a `next` that a page returned")
    return tuple(map(int, parts))


async def _read(app_state: AppState, read: Callable[["Dataset"], _Page]) -> _Page:
    open_data = app_state.open_data
    if open_data is None:
        raise ProblemError(404, "This server offers no collected data.")
    async with app_state.reading:
        return await asyncio.to_thread(lambda: read(open_data()))


def _written(
    request: AnyRequest, form: Literal["json", "csv", "arrow"], page: _Page
) -> Response[bytes]:
    # Imported here: the libraries of the extra are there once data was read.
    from penstock.dataset.export import write_frames  # noqa: PLC0415

    headers = {}
    if page.next:
        query = dict(parse_qsl(request.url.query))
        address = f"{request.url.path}?{urlencode({**query, 'after': page.next})}"
        headers["Link"] = f'<{address}>; rel="next"'
    file = BytesIO()
    write_frames([page.frame], page.frame.schema, "jsonl" if form == "json" else form, file)
    body, media_type = file.getvalue(), CSV if form == "csv" else ARROW
    if form == "json":
        rows = b",".join(body.splitlines())
        end = msgspec.json.encode({"next": page.next, "missing": page.missing})
        body, media_type = b'{"items":[' + rows + b"]," + end[1:], "application/json"
    return Response(body, media_type=media_type, headers=headers)
