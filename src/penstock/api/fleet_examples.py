"""Examples for the API's description: the documents that show a fleet."""

from typing import Any

from penstock import __version__
from penstock.monitor.collected import Collected, CollectedMarket
from penstock.monitor.config_view import Config, SettingView
from penstock.monitor.coverage_map import CoverageMap, MapSeries
from penstock.monitor.gaps import Gaps, GapView
from penstock.monitor.overview import (
    AlertRow,
    BackupView,
    DiskView,
    ExchangeView,
    Overview,
    Totals,
)
from penstock.monitor.processes import Processes, ProcessView
from penstock.monitor.rates import Point
from penstock.monitor.storage import BackupFileView, DatasetView, LogView, Storage

_AT_MS = 1_768_645_800_000
_SYMBOL = "BTC/USDT"
_DISK = DiskView(
    host="host-a",
    path="/var/lib/penstock",
    free_bytes=600_000_000_000,
    total_bytes=1_000_000_000_000,
    used_bytes=400_000_000_000,
    data_bytes=300_000_000_000,
    growth_bytes_per_day=4e9,
    days_left=150.0,
)


def answers(exchange: str) -> dict[str, Any]:
    """Return an example of a successful response, by operation."""
    return {
        "showOverview": _overview(exchange),
        "listProcesses": Processes(items=[_process(exchange)]),
        "showStorage": _storage(exchange),
        "listCollected": Collected(
            items=[
                CollectedMarket(
                    exchange=exchange,
                    symbol=_SYMBOL,
                    channels=["book_deltas", "trades"],
                    last_ms=_AT_MS - 120,
                )
            ]
        ),
        "showCoverageMap": CoverageMap(
            from_ms=1_768_348_800_000,
            step_ms=86_400_000,
            columns=4,
            series=[
                MapSeries(
                    exchange=exchange, channel="trades", symbol=_SYMBOL, share=0.9991, cells=".fFg"
                )
            ],
            more=None,
        ),
        "listGaps": Gaps(items=[_gap(exchange)], more=None),
        "listSettings": Config(
            items=[
                SettingView(
                    name="api.port",
                    value=8780,
                    origin="environment PENSTOCK_API_PORT",
                    masked=False,
                    doc="Port; 0 chooses a free one.",
                )
            ]
        ),
    }


def _overview(exchange: str) -> Overview:
    shown = ExchangeView(
        exchange=exchange,
        light="warning",
        why=["2 gaps are open"],
        messages_per_s=412.5,
        lag_ms=38,
        last_data_ms=_AT_MS - 120,
        markets=50,
        gaps_open=2,
        connections=2,
        connections_up=2,
        blocked_until_ms=None,
        breaker="closed",
        processes=[f"collect-{exchange}"],
    )
    return Overview(
        at_ms=_AT_MS,
        version=__version__,
        exchanges=[shown],
        totals=Totals(
            messages_per_s=412.5,
            gaps_open=2,
            markets=50,
            processes=4,
            processes_failed=0,
            jobs_running=1,
            jobs_failed=0,
        ),
        disk=_DISK,
        backup=BackupView(
            at_ms=_AT_MS - 3_600_000,
            ok=True,
            verified=True,
            rehearsed_at_ms=_AT_MS - 3_590_000,
            message="storage-20260117T093000Z.tar.gz",
        ),
        alerts=[
            AlertRow(
                rule="gaps",
                subject=f"{exchange}/trades",
                message="2 gaps are open, the oldest for 12 min: btc_usdt. See: penstock gaps",
                since_ms=_AT_MS - 60_000,
                ended_ms=None,
                severity="warning",
            )
        ],
        rates=[Point(_AT_MS - 5_000, 408.0), Point(_AT_MS, 412.5)],
    )


def _storage(exchange: str) -> Storage:
    return Storage(
        at_ms=_AT_MS - 30_000,
        datasets=[
            DatasetView(
                name=f"{exchange}/trades", bytes=12_000_000_000, files=310, per_day_bytes=None
            )
        ],
        log=LogView(bytes=900_000_000, files=48, slots=3),
        disks=[_DISK],
        backups=[
            BackupFileView(
                name="storage-2026-01-17T09-30-00-000.tar.gz",
                host="host-a",
                folder="/var/lib/penstock",
                at_ms=_AT_MS - 3_600_000,
                bytes=11_000_000_000,
                verified_ms=_AT_MS - 3_000_000,
                rehearsed_ms=_AT_MS - 3_000_000,
                remote="s3:bucket/penstock",
                ok=True,
                message="",
            )
        ],
        next_backup_ms=_AT_MS + 7_200_000,
    )


def _gap(exchange: str) -> GapView:
    return GapView(
        id=f"{exchange}.trades.btc_usdt/id/1000",
        exchange=exchange,
        channel="trades",
        symbol=_SYMBOL,
        by="id",
        first=1000,
        last=2999,
        size=2000,
        since_ms=_AT_MS - 700_000,
        until_ms=_AT_MS - 660_000,
        state="open",
        cause="disconnected",
        origin="exchange",
        reason="1006: the connection was lost",
        source="",
        opened_ms=_AT_MS - 600_000,
        closed_ms=None,
        job_id=None,
        fillable=True,
        why_not="",
    )


def _process(exchange: str) -> ProcessView:
    return ProcessView(
        id=f"00000000deadbeef/collect-{exchange}",
        kind="collect",
        name=f"collect-{exchange}",
        host="host-a",
        pid=4711,
        folder="/var/lib/penstock",
        state="running",
        health="healthy",
        gone=False,
        doing="50 markets, 412 records/s, 0 ids missing",
        exchanges=[exchange],
        messages_per_s=412.5,
        started_ms=_AT_MS - 86_400_000,
        last_data_ms=_AT_MS - 120,
        silent_ms=900,
        problems=[],
        restarts=0,
        children=[],
    )
