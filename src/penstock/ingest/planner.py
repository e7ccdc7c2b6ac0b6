"""Chooses how to fetch ranges of trades or candles, and computes what that costs. Pure.

Of the endpoints and page sizes that an exchange declares, those with the least cost for the range
are chosen. What is not known without a request is in a ``Survey``.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal, NamedTuple

from msgspec import Struct

from penstock.exchanges.paged import PagedEndpoint
from penstock.ingest.concurrency import FEW_TRADES, concurrency_for
from penstock.ingest.file_cover import FileCover
from penstock.ingest.planned_time import Budget, Load, duration_ms
from penstock.ingest.request_rate import request_rate
from penstock.market.interval import SECOND_MS

Concurrency = int | Literal["auto"]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What is known of a range before it is fetched."""

    exchange_id: str
    symbol: str
    """Unified: BTC/USDT."""
    timeframe: str | None = None
    """The length of candles; None for trades."""
    endpoints: tuple[PagedEndpoint, ...]
    """Those with the records of the range."""
    category: str = ""
    """The category of its requests."""
    parts: tuple[int, ...]
    """The places for rows, ids or intervals, in each part of the range. No page has two parts."""
    rows: int
    """How many rows there are in these places."""
    rows_error: float = 0.0
    """How far off that may be, as a share; 0 if it is exact."""
    overlap: int = 0
    """How many rows of a page the page before has too."""
    is_walk: bool = False
    """Whether a page can only be requested after the one before it."""
    latency_ms: float
    budget: Budget
    since_ms: int | None = None
    until_ms: int | None = None
    """Where the range begins and ends, of candles and where ids are times; the end is excluded."""
    from_id: int | None = None
    to_id: int | None = None
    """The first and the last id, of trades."""
    notes: tuple[str, ...] = ()
    """What of the range does not exist."""
    requests: int = 0
    """How many requests it took to find this out."""
    cover: FileCover | None = None
    """What published files have of the range, if they spare requests."""

    @property
    def channel(self) -> str:
        """The kind of records."""
        return "trades" if self.timeframe is None else "candles"


class Plan(Struct, frozen=True, kw_only=True):
    """How a range is fetched."""

    exchange_id: str
    symbol: str
    channel: str
    timeframe: str | None
    source: Literal["rest", "files"]
    endpoint: str
    page_size: int
    cost: int
    """Of one request."""
    requests: int
    rows: int
    rows_error: float
    """How far off the rows may be, as a share; 0 if they are exact."""
    weight: int
    """Of all requests."""
    weight_per_row: float
    concurrency: int
    """Requests in flight at a time."""
    eta_s: float | None
    """If nothing else is fetched; None if the limits leave nothing."""
    since_ms: int | None
    until_ms: int | None
    from_id: int | None
    to_id: int | None
    notes: tuple[str, ...]
    files: int = 0
    """How many published files are read."""
    file_bytes: int = 0


class Plans(Struct, frozen=True, kw_only=True):
    """The plans of several ranges, which share the limits of their exchange."""

    plans: tuple[Plan, ...]
    workers: int
    """How many ranges are fetched at a time."""
    requests: int
    rows: int
    weight: int
    eta_s: float | None
    """Of all together; None if the limits leave nothing."""


class Choice(NamedTuple):
    """An endpoint with a page size, and how many requests a range takes with them."""

    requests: int
    endpoint: PagedEndpoint
    rows: int
    cost: int

    @property
    def weight(self) -> int:
        """The cost of all requests."""
        return self.requests * self.cost


def plan(survey: Survey, *, chunk_concurrency: Concurrency = "auto", sharing: int = 1) -> Plan:
    """The plan of a range that shares the limits with others in ``sharing`` ranges, itself one."""
    choice = _chosen(survey)
    alone = _load(survey, choice, chunk_concurrency, 1)
    rows = survey.rows if choice.requests else 0
    return Plan(
        exchange_id=survey.exchange_id,
        symbol=survey.symbol,
        channel=survey.channel,
        timeframe=survey.timeframe,
        source="rest" if survey.cover is None else "files",
        endpoint=choice.endpoint.path,
        page_size=choice.rows,
        cost=choice.cost,
        requests=choice.requests,
        rows=rows,
        rows_error=survey.rows_error,
        weight=choice.weight,
        weight_per_row=choice.weight / rows if rows else 0.0,
        concurrency=_load(survey, choice, chunk_concurrency, sharing).concurrency,
        eta_s=_seconds(duration_ms([alone], survey.budget, survey.latency_ms)),
        since_ms=survey.since_ms,
        until_ms=survey.until_ms,
        from_id=survey.from_id,
        to_id=survey.to_id,
        notes=survey.notes,
        files=0 if survey.cover is None else survey.cover.files,
        file_bytes=0 if survey.cover is None else survey.cover.size,
    )


def plan_all(
    surveys: Sequence[Survey], *, workers: int = 1, chunk_concurrency: Concurrency = "auto"
) -> Plans:
    """The plans of several ranges, of which each exchange's are fetched ``workers`` at a time."""
    by_exchange: defaultdict[str, list[Survey]] = defaultdict(list)
    for survey in surveys:
        if any(survey.parts):
            by_exchange[survey.exchange_id].append(survey)
    sharing = {name: min(workers, len(group)) for name, group in by_exchange.items()}
    plans = [
        plan(
            survey,
            chunk_concurrency=chunk_concurrency,
            sharing=sharing.get(survey.exchange_id, 1),
        )
        for survey in surveys
    ]
    ends_ms = [_together_ms(group, workers, chunk_concurrency) for group in by_exchange.values()]
    return Plans(
        plans=tuple(plans),
        workers=workers,
        requests=sum(each.requests for each in plans),
        rows=sum(each.rows for each in plans),
        weight=sum(each.weight for each in plans),
        eta_s=_seconds(max(ends_ms, default=0.0)),
    )


def cheapest(endpoints: Iterable[PagedEndpoint], parts: Sequence[int], overlap: int = 0) -> Choice:
    """The endpoint and page size with the least cost, and of these the one with fewest requests."""
    choices = [
        Choice(requests_for(parts, rows, overlap), endpoint, rows, cost)
        for endpoint in endpoints
        for rows, cost in endpoint.costs
    ]
    return min(choices, key=lambda choice: (choice.weight, choice.requests))


def requests_for(parts: Sequence[int], page_size: int, overlap: int = 0) -> int:
    """How many pages cover parts of a range, if each repeats ``overlap`` rows of the one before."""
    new = max(1, page_size - overlap)
    return sum(1 + ceil(max(0, part - page_size) / new) for part in parts if part)


def _chosen(survey: Survey) -> Choice:
    """How what files do not have is requested; each file takes a request too."""
    if survey.cover is None:
        return cheapest(survey.endpoints, survey.parts, survey.overlap)
    choice = cheapest(survey.endpoints, survey.cover.rest, survey.overlap)
    return choice._replace(requests=choice.requests + survey.cover.files)


def _together_ms(surveys: Sequence[Survey], workers: int, chosen: Concurrency) -> float:
    latest = max((survey.budget for survey in surveys), key=lambda budget: budget.now_ms)
    # If others end before it, a range gets their share of an automatic concurrency.
    loads = [_load(each, _chosen(each), chosen, sharing=1) for each in surveys]
    latency_ms = max(survey.latency_ms for survey in surveys)
    return duration_ms(loads, latest, latency_ms, workers)


def _load(survey: Survey, choice: Choice, chosen: Concurrency, sharing: int) -> Load:
    load = Load(choice.requests, choice.cost, survey.category, 1)
    is_short = survey.timeframe is None and sum(survey.parts) <= FEW_TRADES
    if survey.is_walk or is_short:
        return load
    if chosen == "auto":
        limits = map(survey.budget.free, survey.budget.used)
        chosen = concurrency_for(request_rate(limits, load), survey.latency_ms, sharing)
    return load._replace(concurrency=max(1, min(chosen, load.requests)))


def _seconds(duration_ms: float) -> float | None:
    return None if duration_ms == inf else round(duration_ms / SECOND_MS, 3)
