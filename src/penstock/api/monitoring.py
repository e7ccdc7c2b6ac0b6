"""Routes for statistics of storage, and for alerts."""

from litestar import Response, get
from msgspec import Struct

from penstock.api.app_state import GivenState, json_answer
from penstock.api.views import Date, date
from penstock.stats.alert_store import read_alerts
from penstock.stats.alerts import Alert, Severity, State, newest_first
from penstock.stats.statistics import (
    DirectoryStatistics,
    DiskStatistics,
    StorageStatistics,
    read_statistics,
)


class DirectoryView(Struct, frozen=True, kw_only=True):
    """The files of a category of data, such as ``lake/EXCHANGE/CHANNEL``."""

    directory: str
    size_bytes: int
    files: int
    updated: Date | None
    """When one of them was changed last."""
    approximate: bool
    """Whether it is a symbol's share of files that several symbols have in common."""


class StatisticsView(Struct, frozen=True, kw_only=True):
    """What a data folder and its lake take, as its keeper measured them last."""

    host: str
    folder: str
    at: Date
    took_ms: int
    disks: tuple[DiskStatistics, ...]
    directories: tuple[DirectoryView, ...]
    omitted: int
    """The number of symbols that are left out; the largest are listed."""


def statistics_view(found: StorageStatistics) -> StatisticsView:
    """Return statistics in the API's form."""
    return StatisticsView(
        host=found.host,
        folder=found.folder,
        at=date(found.at_ms),
        took_ms=found.took_ms,
        disks=found.disks,
        directories=tuple(map(_directory_view, found.directories)),
        omitted=found.omitted,
    )


def _directory_view(found: DirectoryStatistics) -> DirectoryView:
    return DirectoryView(
        directory=found.directory,
        size_bytes=found.size_bytes,
        files=found.files,
        updated=None if found.updated_ms is None else date(found.updated_ms),
        approximate=found.approximate,
    )


@get("/stats")
async def measured(app_state: GivenState) -> Response[bytes]:
    """Return what each data folder takes on disk, how it grows, and when its disk is full."""
    found = await read_statistics(app_state.store)
    return json_answer([statistics_view(each) for each in found])


class AlertView(Struct, frozen=True, kw_only=True):
    """Something that is or was wrong in the fleet."""

    id: str
    rule: str
    """What kind of problem it is: gaps, stale, ban, breaker, disk, backup, process, crash_loop."""
    subject: str
    """What has it: a process, an exchange, a disk."""
    message: str
    severity: Severity
    state: State
    since: Date
    """When it fired last."""
    changed: Date
    """When it fired or was resolved."""
    times: int
    """How often it fired."""


def alert_view(alert: Alert) -> AlertView:
    """Return an alert in the API's form."""
    return AlertView(
        id=alert.id,
        rule=alert.rule,
        subject=alert.subject,
        message=alert.message,
        severity=alert.severity,
        state=alert.state,
        since=date(alert.since_ms),
        changed=date(alert.changed_ms),
        times=alert.times,
    )


@get("/alerts")
async def alerts(app_state: GivenState) -> Response[bytes]:
    """List the alerts that fire, and those that were resolved in the last days, newest first."""
    found = newest_first((await read_alerts(app_state.store)).values())
    return json_answer([alert_view(each) for each in found])


ROUTES = [measured, alerts]
