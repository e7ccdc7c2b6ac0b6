"""Documents in the form that the API returns.

The store keeps all times in milliseconds. The fields that the specification defines as dates
(``created_at``, ``last_run_at`` and so on) are returned in the format of RFC 3339; times used for
calculations stay in milliseconds.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from penstock.connectors import Connector, LimitState, Stop
from penstock.connectors.markets import ExchangeListing
from penstock.exchanges.symbol_map import ListedMarket
from penstock.jobs.model import (
    Job,
    JobLock,
    JobProgress,
    Priority,
    Schedule,
    State,
    Status,
)
from penstock.jobs.product_locks import ProductLock
from penstock.live import Tick
from penstock.resilience.breaker import Breaker

Date = Annotated[
    str, Meta(extra_json_schema={"format": "date-time", "examples": ["2026-01-17T10:30:00.000Z"]})
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999


def date(at_ms: int) -> str:
    """Return a time in the format of RFC 3339, at most the end of the year 9999."""
    at = _EPOCH + timedelta(milliseconds=max(0, min(at_ms, _LAST_MS)))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _date_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else date(at_ms)


class ConnectorView(Struct, frozen=True, kw_only=True):
    """One exchange's connector: its limits, and how much of them the fleet has used."""

    id: str
    exchange_id: str
    creation_date: Date
    updated_at: Date
    status: Literal["active", "paused", "deleted"]
    notes: str | None
    rate_limit_period_ms: int
    rate_limit: int
    rate_limit_usage: int
    rate_limit_window_start: int
    rate_limit_reset_at: int
    limits: tuple[LimitState, ...]
    blocked_until: int | None
    blocked_by: Stop | None
    exchange_offset_ms: int
    saturation_count: int
    last_job_run_time: Date | None
    jobs_count: int
    active_jobs_count: int
    version: int


def connector_view(connector: Connector) -> ConnectorView:
    """Return a connector in the API's form."""
    return ConnectorView(
        **{
            **asdict(connector),
            "creation_date": date(connector.creation_date),
            "updated_at": date(connector.updated_at),
            "last_job_run_time": _date_or_none(connector.last_job_run_time),
        }
    )


class StatsView(Struct, frozen=True, kw_only=True):
    """The runs of a job, and how they ended."""

    runs: int
    success: int
    fail: int
    last_run_at: Date | None
    last_success_at: Date | None
    last_error: str | None


class JobView(Struct, frozen=True, kw_only=True):
    """A job: its type and market, schedule, state, cursor and statistics."""

    id: str
    exchange_id: str
    type: str
    symbol: str | None
    timeframe: str | None
    status: Status
    state: State
    schedule: Schedule | None
    next_run_at: int
    priority: int
    claim_priority: int | None
    target_key: str
    cursor: Any
    """Its fields depend on the type."""
    stats: StatsView
    lock: JobLock
    fence: int
    attempts: int
    progress: JobProgress
    origin: str
    created_at: Date
    updated_at: Date
    version: int
    unknown_kind: bool | UnsetType = UNSET
    """True if a newer version made it: this one shows it, and neither runs nor changes it."""


class EditedJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as returned by the API, or some of its fields, with changes.

    Schedule, priority and cursor can be changed; all other fields must be unchanged.
    """

    schedule: Schedule | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    cursor: Any = UNSET
    """Can be changed only while no worker runs the job."""
    id: str | UnsetType = UNSET
    exchange_id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    symbol: str | UnsetType | None = UNSET
    timeframe: str | UnsetType | None = UNSET
    status: Status | UnsetType = UNSET
    state: State | UnsetType = UNSET
    next_run_at: int | UnsetType = UNSET
    claim_priority: int | UnsetType | None = UNSET
    target_key: str | UnsetType = UNSET
    stats: StatsView | UnsetType = UNSET
    lock: JobLock | UnsetType = UNSET
    fence: int | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    progress: JobProgress | UnsetType = UNSET
    origin: str | UnsetType = UNSET
    created_at: Date | UnsetType = UNSET
    updated_at: Date | UnsetType = UNSET
    version: int | UnsetType = UNSET
    unknown_kind: bool | UnsetType = UNSET


def job_view(job: Job) -> JobView:
    """Return a job in the API's form, without its events, which have their own route.

    Its target is shown as the market, the key and what the cursor says of it.
    """
    fields = asdict(job)
    for apart in ("events", "target", "asked", "is_known"):
        del fields[apart]
    stats = {
        **asdict(job.stats),
        "last_run_at": _date_or_none(job.stats.last_run_at),
        "last_success_at": _date_or_none(job.stats.last_success_at),
    }
    return JobView(
        **{
            **fields,
            "stats": StatsView(**stats),
            "created_at": date(job.created_at),
            "updated_at": date(job.updated_at),
            "unknown_kind": UNSET if job.is_known else True,
        }
    )


class MarketView(Struct, frozen=True, kw_only=True):
    """One market. Fields that the exchange does not provide are null."""

    symbol: str
    native: str
    """The exchange's own name."""
    tick_size: str | None
    """The step of its prices."""
    lot_size: str | None
    """The step of its quantities."""
    status: str | None
    """The exchange's own term."""


class ListingView(Struct, frozen=True, kw_only=True):
    """The markets of an exchange, as last fetched."""

    exchange_id: str
    refreshed_at: Date
    timeframes: tuple[str, ...]
    """Candle lengths that the exchange offers."""
    markets: tuple[MarketView, ...]


def market_view(one: ListedMarket) -> MarketView:
    """Return a market in the API's form."""
    return MarketView(symbol=one.symbol.unified, native=one.native, **one.details._asdict())


def listing_view(listing: ExchangeListing) -> ListingView:
    """Return an exchange's listing in the API's form, with markets sorted by name."""
    found = sorted(listing.markets, key=lambda one: one.symbol.unified)
    return ListingView(
        exchange_id=listing.exchange_id,
        refreshed_at=date(listing.refreshed_at),
        timeframes=listing.timeframes,
        markets=tuple(map(market_view, found)),
    )


class ConnectorPage(Struct, frozen=True, kw_only=True):
    """A page of connectors, sorted by exchange_id; ``next`` is null on the last page."""

    items: tuple[ConnectorView, ...]
    next: str | None


class JobPage(Struct, frozen=True, kw_only=True):
    """A page of jobs, oldest first; ``next`` is null on the last page."""

    items: tuple[JobView, ...]
    next: str | None


class JobSummary(Struct, frozen=True, kw_only=True):
    """The jobs that need attention first, and how many there are."""

    items: tuple[JobView, ...]
    """Those that run, those that failed, then the others."""
    counts: dict[str, int]
    """Live jobs by state."""
    paused: int
    """How many of them are paused."""


class TickView(Struct, frozen=True, kw_only=True):
    """The latest tick of a market. Values that the exchange does not send are null."""

    exchange: str
    symbol: str
    last: str | None
    bid: str | None
    bid_quantity: str | None
    ask: str | None
    ask_quantity: str | None
    open: str | None
    high: str | None
    low: str | None
    volume: str | None
    quote_volume: str | None
    time: Date | None
    """The exchange's time."""
    received: Date
    age_ms: int
    """The time since it was received, by the store's clock."""
    stale: bool
    """Whether it is older than live.stale_after."""


class TickPage(Struct, frozen=True, kw_only=True):
    """A page of ticks, by exchange and symbol; ``next`` is null on the last page."""

    items: tuple[TickView, ...]
    next: str | None


def tick_view(tick: Tick) -> TickView:
    """Return a tick in the API's form."""
    ticker = tick.ticker
    return TickView(
        exchange=tick.exchange,
        symbol=tick.symbol.unified,
        last=ticker.last_text,
        bid=ticker.bid_text,
        bid_quantity=ticker.bid_quantity_text,
        ask=ticker.ask_text,
        ask_quantity=ticker.ask_quantity_text,
        open=ticker.open_text,
        high=ticker.high_text,
        low=ticker.low_text,
        volume=ticker.volume_text,
        quote_volume=ticker.quote_volume_text,
        time=None if ticker.at_ms is None else date(ticker.at_ms),
        received=date(ticker.received_at_ns // 1_000_000),
        age_ms=tick.age_ms,
        stale=tick.stale,
    )


class TransitionView(Struct, frozen=True, kw_only=True):
    """A change of a circuit breaker."""

    at: Date
    to: Literal["closed", "open", "half_open", "forced open", "forced closed", "automatic"]
    reason: str


class BreakerView(Struct, frozen=True, kw_only=True):
    """The circuit breaker of an exchange, shared by all processes."""

    exchange_id: str
    state: Literal["closed", "open", "half_open"]
    forced: Literal["open", "closed"] | None
    """An operator's order, which replaces the state."""
    reason: str | None
    """Why it was opened last."""
    retry_at: int | None
    """When the next probe may be sent, in milliseconds, if it is open."""
    probe_by: str | None
    """The process that probes the exchange now."""
    failures_in_a_row: int
    transitions: tuple[TransitionView, ...]
    """The latest changes, the newest last."""


def breaker_view(exchange_id: str, breaker: Breaker) -> BreakerView:
    """Return a circuit breaker in the API's form."""
    return BreakerView(
        exchange_id=exchange_id,
        state=breaker.phase,
        forced=breaker.forced,
        reason=breaker.reason or None,
        retry_at=breaker.retry_at_ms if breaker.phase == "open" else None,
        probe_by=breaker.probe_by or None,
        failures_in_a_row=breaker.tally.in_a_row,
        transitions=tuple(
            TransitionView(at=date(each.at_ms), to=each.to, reason=each.reason)
            for each in breaker.transitions
        ),
    )


class LockView(Struct, frozen=True, kw_only=True):
    """The lock of a market whose trades a job run fetches."""

    key: str
    """``product:EXCHANGE:MARKET``, the market as the exchange names it."""
    holder: str
    """The host, slot and process id of the worker."""
    job_id: str
    since: Date
    until: Date
    """When it is free unless it is renewed."""
    token: int
    """Incremented each time the lock is taken or released."""


def lock_view(lock: ProductLock) -> LockView:
    """Return a lock in the API's form."""
    return LockView(
        key=lock.id,
        holder=lock.holder,
        job_id=lock.job_id,
        since=date(lock.since),
        until=date(lock.until),
        token=lock.token,
    )
