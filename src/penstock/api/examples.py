"""Examples for the API's description: documents in the form that the API returns."""

from typing import Any

import msgspec

from penstock.api import fleet_examples
from penstock.api.credentials import READ_ONLY
from penstock.api.live_hub import Update
from penstock.api.login import SessionView
from penstock.api.market_examples import market_answers
from penstock.api.monitoring import alert_view, statistics_view
from penstock.api.observed_examples import observed
from penstock.api.problems import FieldProblem, Problem
from penstock.api.views import (
    BreakerView,
    TransitionView,
    connector_view,
    job_view,
    listing_view,
    lock_view,
    tick_view,
)
from penstock.connectors import Connector, LimitState
from penstock.connectors.markets import ExchangeListing
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails
from penstock.jobs.model import Cursor, Job, JobEvent, JobProgress, JobStats, Schedule
from penstock.jobs.product_locks import ProductLock, key_of
from penstock.live import Tick
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.stats.alerts import Alert
from penstock.stats.statistics import DirectoryStatistics, DiskStatistics, StorageStatistics
from penstock.storage.state.job_targets import target_key

_HOUR_MS = 3_600_000
_AT_MS = 1_768_645_800_000
_SYMBOL, _TIMEFRAME = "BTC/USDT", "1h"


def connector(exchange: str) -> Connector:
    """Return a connector in the middle of a window."""
    start_ms = _AT_MS - _AT_MS % 60_000
    main = LimitState(
        kind="aligned",
        unit="weight",
        category="",
        amount=6000,
        period_ms=60_000,
        burst=0,
        used=1250,
        window_start=start_ms,
        reset_at=start_ms + 60_000,
        server_used=1248,
    )
    return Connector(
        id=exchange,
        exchange_id=exchange,
        creation_date=_AT_MS - 24 * _HOUR_MS,
        updated_at=_AT_MS,
        status="active",
        notes=None,
        rate_limit_period_ms=main.period_ms,
        rate_limit=main.amount,
        rate_limit_usage=main.used,
        rate_limit_window_start=start_ms,
        rate_limit_reset_at=start_ms + 60_000,
        limits=(main,),
        blocked_until=None,
        blocked_by=None,
        exchange_offset_ms=12,
        saturation_count=3,
        last_job_run_time=_AT_MS - 30_000,
        jobs_count=2,
        active_jobs_count=2,
        version=7,
    )


def job(exchange: str) -> Job:
    """Return a job that runs every hour."""
    target = {"symbol": _SYMBOL, "timeframe": _TIMEFRAME}
    return Job(
        id="019bcc6e2e40f3a1b2c4d5e6",
        exchange_id=exchange,
        type="ohlcv_incremental",
        symbol=_SYMBOL,
        timeframe=_TIMEFRAME,
        schedule=Schedule(interval_ms=_HOUR_MS),
        next_run_at=_AT_MS + _HOUR_MS,
        priority=50,
        target=target,
        target_key=target_key(target),
        cursor=Cursor(since_ms=_AT_MS, last_ts=_AT_MS - _HOUR_MS, page=1),
        stats=JobStats(runs=1, success=1, last_run_at=_AT_MS, last_success_at=_AT_MS),
        fence=1,
        progress=JobProgress(rows=1, pages=1, started_at=_AT_MS),
        events=(
            JobEvent(at=_AT_MS - 1000, what="created"),
            JobEvent(at=_AT_MS, what="claimed", by="host-4711"),
        ),
        created_at=_AT_MS - 1000,
        updated_at=_AT_MS,
        version=3,
    )


def _listing(exchange: str) -> ExchangeListing:
    """Return two markets, one of which is not trading."""
    found = [("BTC", "0.01", "0.00001", "TRADING"), ("ETH", "0.01", "0.0001", "BREAK")]
    markets = tuple(
        ListedMarket(f"{base}USDT", Symbol(base, "USDT"), details=MarketDetails(*details))
        for base, *details in found
    )
    return ExchangeListing(exchange, _AT_MS, ("1m", "1h", "1d"), markets)


_TRADED = {
    "symbol": _SYMBOL, "time": "2026-01-17T10:30:00.123000Z", "source": "live",
    "received": "2026-01-17T10:30:00.145210Z", "time_ns": 1_768_645_800_123_000_000,
    "received_ns": 1_768_645_800_145_210_377,
}  # fmt: skip
_ROWS: dict[str, dict[str, Any]] = {
    "Trades": {**_TRADED, "id": 4711, "price": "60000.10", "quantity": "0.50", "taker": "buy"},
    "Candles": {
        **_TRADED, "interval": "1h", "open": "60000.10", "high": "60010.00", "low": "59990.00",
        "close": "60005.00", "volume": "12.5", "trades": 1024,
    },
    "Books": {
        **_TRADED, "is_snapshot": False, "first_update_id": 101, "update_id": 102,
        "bids": [{"price": "60000.10", "quantity": "0.50"}], "asks": [],
    },
    "Coverage": {
        "channel": "trades", "symbol": _SYMBOL, "state": "complete",
        "since": "2026-01-01T00:00:00.000000Z", "until": "2026-01-17T10:30:00.000000Z",
        "by": "id", "first": 1, "last": 4711,
    },
}  # fmt: skip


def _breaker(exchange: str) -> BreakerView:
    at, reason = "2026-01-17T10:30:00.000Z", "5 of 5 requests failed, the last: … (503)."
    return BreakerView(
        exchange_id=exchange,
        state="open",
        forced=None,
        reason=reason,
        retry_at=1_768_646_100_000,
        probe_by=None,
        failures_in_a_row=0,
        transitions=(TransitionView(at=at, to="open", reason=reason),),
    )


def _lock(exchange: str) -> ProductLock:
    return ProductLock(
        id=key_of(exchange, "BTC-USDT"),
        holder="host-a/work-0/4711",
        job_id="019a8b3c5d7e9f00a1b2c3d4",
        job_fence=1,
        since=_AT_MS,
        until=_AT_MS + 2 * _HOUR_MS,
        token=3,
    )


def _tick(exchange: str) -> Tick:
    ticker = Ticker(
        exchange=exchange,
        symbol=Symbol.parse(_SYMBOL),
        received_at_ns=_AT_MS * 1_000_000,
        at_ns=(_AT_MS - 22) * 1_000_000,
        last_text="60000.10",
        bid_text="60000.00",
        bid_quantity_text="1.25",
        ask_text="60000.10",
        ask_quantity_text="0.50",
    )
    return Tick(ticker, age_ms=840, stale=False)


def _statistics(exchange: str) -> StorageStatistics:
    disk = DiskStatistics(
        path="/var/lib/penstock",
        size_bytes=10**12,
        free_bytes=6 * 10**11,
        data_bytes=3 * 10**11,
        growth_bytes_per_day=4e9,
        days_until_full=150.0,
    )
    files = DirectoryStatistics(
        directory=f"lake/{exchange}/trades",
        size_bytes=12 * 10**9,
        files=310,
        updated_ms=_AT_MS - 60_000,
    )
    return StorageStatistics(
        host="host-a",
        folder=disk.path,
        at_ms=_AT_MS,
        took_ms=85,
        disks=(disk,),
        directories=(files,),
    )


def _alert(exchange: str) -> Alert:
    return Alert(
        rule="gaps",
        subject=f"{exchange}/trades",
        message="2 gaps are open, the oldest for 12 min: btc_usdt. See: penstock gaps",
        severity="warning",
        state="firing",
        since_ms=_AT_MS,
        seen_ms=_AT_MS,
        changed_ms=_AT_MS,
    )


def _rows(exchange: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"items": [{"exchange": exchange, **row}], "next": None, "missing": []}


def answers(exchange: str) -> dict[str, Any]:
    """Return an example of a successful response, by operation."""
    one, work = connector_view(connector(exchange)), job_view(job(exchange))
    of_connectors = {
        f"{verb}Connector": one for verb in ("ensure", "show", "edit", "pause", "resume")
    }
    of_jobs = {f"{verb}Job": work for verb in ("create", "show", "edit", "pause", "resume", "run")}
    shown = {
        **of_connectors,
        **of_jobs,
        "showBreaker": _breaker(exchange),
        "forceBreaker": _breaker(exchange),
        "listConnectors": {"items": [one], "next": None},
        "listJobs": {"items": [work], "next": None},
        "listJobEvents": job(exchange).events,
        "listLocks": [lock_view(_lock(exchange))],
        "releaseLock": lock_view(_lock(exchange)),
        "showMarkets": listing_view(_listing(exchange)),
        "listTicks": {"items": [tick_view(_tick(exchange))], "next": None},
        "streamTicks": [tick_view(_tick(exchange))],
        "showTick": tick_view(_tick(exchange)),
        **{f"list{name}": _rows(exchange, row) for name, row in _ROWS.items()},
        **market_answers(exchange),
        "showStatistics": [statistics_view(_statistics(exchange))],
        "listAlerts": [alert_view(_alert(exchange))],
        "summarizeJobs": {"items": [work], "counts": {"idle": 1}, "paused": 0},
        "fillGap": work,
        **fleet_examples.answers(exchange),
        **observed(exchange, _AT_MS),
        "showSession": SessionView(needed=True, scope="read"),
        "live": Update(topic="overview", seq=41, at_ms=_AT_MS, data={}),
        "alive": {"status": "alive"},
        "ready": {"status": "ready"},
        "metrics": 'penstock_limit_used{exchange="…",limit="weight 60000ms"} 1250.0',
    }
    return {operation: msgspec.to_builtins(answer) for operation, answer in shown.items()}


def bodies(exchange: str) -> dict[str, dict[str, Any]]:
    """Return examples of request bodies, by operation."""
    candles = {"exchange_id": exchange, "symbol": _SYMBOL, "timeframe": _TIMEFRAME}
    hourly = {"mode": "interval", "interval_ms": _HOUR_MS}
    since = {"since_ms": 1_704_067_200_000}
    return {
        "ensureConnector": {
            "simple": {"exchange_id": exchange},
            "limited": {
                "exchange_id": exchange,
                "notes": "half of what is allowed; the rest is for another program",
                "limits": [{"amount": 3000, "period_ms": 60_000}],
            },
            "slow": {"exchange_id": exchange, "rate_limit": 20, "rate_limit_period_ms": 1000},
        },
        "editConnector": {"notes": {"notes": "watched by the night shift"}},
        "login": {"token": {"token": "correct horse battery staple"}},
        "releaseLock": {"release": {"key": _lock(exchange).id}},
        "fillGap": {"gap": {"id": f"{exchange}.trades.btc_usdt/id/1000"}},
        "forceBreaker": {"open": {"force": "open"}, "automatic": {"force": None}},
        "createJob": {
            "incremental": {**candles, "type": "ohlcv_incremental", "schedule": hourly},
            "backfill": {**candles, "type": "ohlcv_backfill", "cursor": since},
            "gap_of_trades": {
                "exchange_id": exchange,
                "type": "gap_backfill",
                "symbol": candles["symbol"],
                "cursor": {"first_id": 1000, "last_id": 2999},
            },
            "markets": {"exchange_id": exchange, "type": "markets_refresh"},
        },
        "editJob": {
            "faster": {"schedule": {**hourly, "interval_ms": 900_000}, "priority": 30},
            "as_shown": {**msgspec.to_builtins(job_view(job(exchange))), "priority": 30},
        },
    }


def problem(status: int) -> Problem:
    """Return an example of an error response."""
    return _PROBLEMS[status]


_PROBLEMS = {
    400: Problem(title="Bad Request", status=400, detail="The body is not valid JSON: truncated."),
    401: Problem(
        title="Unauthorized",
        status=401,
        detail="The token is missing. Send: Authorization: Bearer …",
    ),
    403: Problem(title="Forbidden", status=403, detail=READ_ONLY),
    404: Problem(
        type="urn:penstock:unknown-job",
        title="Unknown job",
        status=404,
        detail="There is no job '019b'. See: penstock jobs list",
    ),
    409: Problem(
        type="urn:penstock:already-exists",
        title="Already exists",
        status=409,
        detail="'019bcc6e2e40f3a1b2c4d5e6' in jobs has the same key. Change or delete it.",
        existing_id="019bcc6e2e40f3a1b2c4d5e6",
    ),
    412: Problem(
        title="Precondition Failed",
        status=412,
        detail="The document is at version 4. Fetch it again and retry.",
    ),
    413: Problem(
        title="Request Entity Too Large",
        status=413,
        detail="A body may have at most 1,000,000 bytes.",
    ),
    415: Problem(
        title="Unsupported Media Type",
        status=415,
        detail="The Content-Type must be application/json, not 'text/plain'.",
    ),
    422: Problem(
        title="Unprocessable Entity",
        status=422,
        detail="schedule.interval_ms: Expected `int` >= 1000",
        errors=(FieldProblem("schedule.interval_ms", "Expected `int` >= 1000"),),
    ),
    426: Problem(
        title="Upgrade Required",
        status=426,
        detail="This is a WebSocket. Open it with a WebSocket client.",
    ),
    429: Problem(
        title="Too Many Requests",
        status=429,
        detail="Too many wrong tokens from this address. Wait, then retry.",
    ),
    503: Problem(
        type="urn:penstock:store-unreachable",
        title="Store unreachable",
        status=503,
        detail="postgresql://db/penstock: gave no answer within 10 s. Check that it is running.",
    ),
}
