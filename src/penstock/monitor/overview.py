"""The overview of a fleet: each exchange, the totals, the disk, the last backup, the alerts."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from penstock import __version__
from penstock.backup.outcome import BackupOutcome
from penstock.exchanges import registry
from penstock.monitor.lights import ExchangeFacts, Light, last_data_ms, light_of
from penstock.monitor.rates import Point, RateSampler
from penstock.resilience.breaker import Breaker, Phase
from penstock.runtime.disk_space import measure_space
from penstock.runtime.status import SeenProcess, this_machine
from penstock.stats.alerts import Alert, Severity, newest_first
from penstock.stats.fleet import is_up, named
from penstock.stats.statistics import StorageStatistics

MOST_ALERTS = 20
_FRESH_MS = 600_000
"""Statistics that are older than this are not shown."""


class ExchangeView(Struct, frozen=True, kw_only=True):
    """How an exchange is collected."""

    exchange: str
    light: Light
    why: list[str]
    """The reasons for the light, worst first; empty if all is well."""
    messages_per_s: float | None
    lag_ms: int | None
    """From the exchange's time of a trade to its receipt, with the clocks' difference removed."""
    last_data_ms: int | None
    markets: int
    gaps_open: int
    connections: int
    connections_up: int
    blocked_until_ms: int | None
    """The end of a stop that the exchange ordered."""
    breaker: Phase
    processes: list[str]
    """Those that collect from it and should be running."""


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over the fleet."""

    messages_per_s: float | None
    gaps_open: int
    markets: int
    processes: int
    """Those that should be running."""
    processes_failed: int
    """Those that failed, or should be running and are not."""
    jobs_running: int
    jobs_failed: int


class DiskView(Struct, frozen=True, kw_only=True):
    """The disk with data that will be full first."""

    host: str
    path: str
    free_bytes: int
    total_bytes: int
    used_bytes: int
    """Total less free."""
    data_bytes: int | None
    """What collected data takes on it; null if no keeper has measured it."""
    growth_bytes_per_day: float | None
    days_left: float | None
    """Until it is full; null if data does not grow, or the growth is not known."""


class BackupView(Struct, frozen=True, kw_only=True):
    """The last backup; of several data folders, the one that needs attention first."""

    at_ms: int
    """When the last attempt was begun."""
    ok: bool
    verified: bool
    """Whether the last backup was restored and checked without a finding."""
    rehearsed_at_ms: int | None
    """When a backup was last restored and checked without a finding."""
    message: str
    """Why it failed, or its name."""


class AlertRow(Struct, frozen=True, kw_only=True):
    """An alert."""

    rule: str
    subject: str
    message: str
    since_ms: int
    ended_ms: int | None
    """Null while it fires."""
    severity: Severity


class Overview(Struct, frozen=True, kw_only=True):
    """A fleet at one time, by the state store's clock."""

    at_ms: int
    version: str
    exchanges: list[ExchangeView]
    totals: Totals
    disk: DiskView | None
    """That of the data folder of this machine if no keeper has measured one in the last minutes;
    null if that cannot be measured either."""
    backup: BackupView | None
    """Null if there is none."""
    alerts: list[AlertRow]
    """Those that fire first, then the newest."""
    rates: list[Point]
    """Messages per second of all exchanges in the last ten minutes, oldest first."""


class ConnectorFacts(NamedTuple):
    """What the overview needs to know of a connector."""

    is_paused: bool = False
    blocked_until_ms: int | None = None
    exchange_offset_ms: int = 0
    """How far the exchange's clock is ahead of the store's."""


class OverviewInputs(NamedTuple):
    """What an overview is made of. Times are those of the state store."""

    now_ms: int
    processes: Sequence[SeenProcess] = ()
    connectors: Mapping[str, ConnectorFacts] = {}
    breakers: Mapping[str, Breaker] = {}
    gaps_open: Mapping[str, int] = {}
    """By exchange."""
    jobs: Mapping[str, int] = {}
    """By state, of the live ones."""
    statistics: Sequence[StorageStatistics] = ()
    backups: Sequence[BackupOutcome] = ()
    alerts: Sequence[Alert] = ()
    stale_after_s: float = 60.0
    own_disk: DiskView | None = None
    """That of the data folder of this machine."""


def overview_of(inputs: OverviewInputs, rates: RateSampler) -> Overview:
    """The overview of what was read."""
    shown = named(inputs.processes)
    collecting: dict[str, list[tuple[str, SeenProcess]]] = {}
    for name, seen in shown.items():
        for exchange in exchanges_of(seen):
            collecting.setdefault(exchange, []).append((name, seen))
    exchanges = [
        _exchange(name, inputs, collecting.get(name, []), rates)
        for name in sorted({*collecting, *inputs.connectors, *inputs.gaps_open})
    ]
    return Overview(
        at_ms=inputs.now_ms,
        version=__version__,
        exchanges=exchanges,
        totals=Totals(
            messages_per_s=rates.total,
            gaps_open=sum(inputs.gaps_open.values()),
            markets=sum(each.markets for each in exchanges),
            processes=sum(each.status.state != "failed" for each in shown.values()),
            processes_failed=sum(not is_up(each) for each in shown.values()),
            jobs_running=inputs.jobs.get("running", 0),
            jobs_failed=inputs.jobs.get("failed", 0),
        ),
        disk=next(iter(disks_of(inputs.statistics, inputs.now_ms)), inputs.own_disk),
        backup=_backup(inputs.backups),
        alerts=[_alert(each) for each in newest_first(inputs.alerts)[:MOST_ALERTS]],
        rates=rates.points,
    )


def exchanges_of(seen: SeenProcess) -> list[str]:
    """The exchanges from which a process collects.

    One that failed before its first report, or is of an earlier version, has it in its name.
    """
    status = seen.status
    if status.exchanges or status.kind not in ("collect", "fetch"):
        return [each.exchange for each in status.exchanges]
    exchange, *rest = status.name.split("-")[1:] or [""]
    if rest and exchange in _families():
        exchange += f"{registry.SEPARATOR}{rest[0]}"
    return [exchange] if exchange else []


@cache
def _families() -> list[str]:
    return registry.families()


def _exchange(
    name: str,
    inputs: OverviewInputs,
    processes: Sequence[tuple[str, SeenProcess]],
    rates: RateSampler,
) -> ExchangeView:
    connector = inputs.connectors.get(name, ConnectorFacts())
    breaker = inputs.breakers.get(name, Breaker())
    running = [seen for _, seen in processes if is_up(seen)]
    activity = [
        found for seen in running for found in seen.status.exchanges if found.exchange == name
    ]
    connections = sum(each.connections for each in activity)
    connections_up = sum(each.connections_up for each in activity)
    lags = [each.lag_ms for each in activity if each.lag_ms is not None]
    light, why = light_of(
        ExchangeFacts(
            exchange=name,
            now_ms=inputs.now_ms,
            processes=processes,
            connections=connections,
            connections_up=connections_up,
            gaps_open=inputs.gaps_open.get(name, 0),
            blocked_until_ms=connector.blocked_until_ms,
            breaker=breaker,
            is_paused=connector.is_paused,
            stale_after_s=inputs.stale_after_s,
        )
    )
    return ExchangeView(
        exchange=name,
        light=light,
        why=why,
        messages_per_s=rates.rate(name),
        lag_ms=max(0, max(lags) + connector.exchange_offset_ms) if lags else None,
        last_data_ms=max(
            (at_ms for _, seen in processes if (at_ms := last_data_ms(seen, name)) is not None),
            default=None,
        ),
        markets=_markets(running, name),
        gaps_open=inputs.gaps_open.get(name, 0),
        connections=connections,
        connections_up=connections_up,
        blocked_until_ms=connector.blocked_until_ms,
        breaker=breaker.forced or breaker.phase,
        processes=[each for each, _ in processes],
    )


def _markets(running: Iterable[SeenProcess], exchange: str) -> int:
    """The number of markets: processes of one kind divide them, those of other kinds repeat."""
    by_kind: dict[str, int] = {}
    for seen in running:
        for found in seen.status.exchanges:
            if found.exchange == exchange:
                by_kind[seen.status.kind] = by_kind.get(seen.status.kind, 0) + found.markets
    return max(by_kind.values(), default=0)


def disks_of(statistics: Iterable[StorageStatistics], now_ms: int) -> list[DiskView]:
    """The disks that were measured lately; the one that will be full first comes first."""
    found = [
        DiskView(
            host=each.host,
            path=disk.path,
            free_bytes=disk.free_bytes,
            total_bytes=disk.size_bytes,
            used_bytes=max(0, disk.size_bytes - disk.free_bytes),
            data_bytes=disk.data_bytes,
            growth_bytes_per_day=disk.growth_bytes_per_day,
            days_left=disk.days_until_full,
        )
        for each in statistics
        if now_ms - each.at_ms <= _FRESH_MS
        for disk in each.disks
    ]
    return sorted(found, key=_soonest)


def measured_disk(folder: Path) -> DiskView | None:
    """The disk of a folder, as it is now; None if it cannot be measured. It blocks."""
    try:
        space = measure_space(folder)
    except OSError:
        return None
    return DiskView(
        host=this_machine()[0],
        path=str(folder.resolve()),
        free_bytes=space.free,
        total_bytes=space.total,
        used_bytes=space.total - space.free,
        data_bytes=None,
        growth_bytes_per_day=None,
        days_left=None,
    )


def _soonest(disk: DiskView) -> tuple[float, float]:
    days = float("inf") if disk.days_left is None else disk.days_left
    return days, disk.free_bytes / (disk.total_bytes or 1)


def _backup(outcomes: Sequence[BackupOutcome]) -> BackupView | None:
    # One that failed first, then the oldest.
    outcome = min(outcomes, key=lambda each: (not each.problem, each.at_ms), default=None)
    if outcome is None:
        return None
    return BackupView(
        at_ms=outcome.at_ms,
        ok=not outcome.problem,
        verified=bool(outcome.name) and outcome.verified == outcome.name,
        rehearsed_at_ms=outcome.verified_ms,
        message=outcome.problem or outcome.name,
    )


def _alert(alert: Alert) -> AlertRow:
    return AlertRow(
        rule=alert.rule,
        subject=alert.subject,
        message=alert.message,
        since_ms=alert.since_ms,
        ended_ms=None if alert.state == "firing" else alert.changed_ms,
        severity=alert.severity,
    )
