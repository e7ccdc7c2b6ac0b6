"""What collected data takes on disk, and its backups."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from penstock.backup.folder import list_backups, read_rehearsal
from penstock.backup.outcome import BackupOutcome
from penstock.config import Backup
from penstock.errors import mask_urls
from penstock.monitor.overview import DiskView, disks_of
from penstock.runtime.status import this_machine
from penstock.stats.statistics import DirectoryStatistics, StorageStatistics

_LOG = "log"
_MOST_FINDINGS = 3


class DatasetView(Struct, frozen=True, kw_only=True):
    """One channel of one exchange in the lake."""

    name: str
    """``EXCHANGE/CHANNEL``."""
    bytes: int
    files: int
    per_day_bytes: float | None
    """How much it grows; null if that is not known."""


class LogView(Struct, frozen=True, kw_only=True):
    """The event log, with all its slots."""

    bytes: int
    files: int
    slots: int


class BackupFileView(Struct, frozen=True, kw_only=True):
    """One backup."""

    name: str
    host: str
    folder: str
    """The data folder that was backed up."""
    at_ms: int
    bytes: int
    verified_ms: int | None
    """When it was restored and checked without a finding."""
    rehearsed_ms: int | None
    """When it was last restored and checked, with findings or without."""
    remote: str | None
    """Where it is copied to; null if it is not."""
    ok: bool
    message: str


class Storage(Struct, frozen=True, kw_only=True):
    """All data folders of a fleet together."""

    at_ms: int | None
    """When the sizes were measured; null if no keeper has measured any."""
    datasets: list[DatasetView]
    log: LogView | None
    """Null if no keeper has measured it."""
    disks: list[DiskView]
    """The one that will be full first comes first."""
    backups: list[BackupFileView]
    """The newest first."""
    next_backup_ms: int | None
    """When the next is due; null if none are made here."""


class LocalBackups(Struct, frozen=True, kw_only=True):
    """The backups in the folder of this machine."""

    items: list[BackupFileView]
    newest_ms: int | None


def read_local_backups(settings: Backup, data_folder: Path) -> LocalBackups:
    """The backups in the configured folder; it blocks.

    Raises:
        StorageError: the folder cannot be read.
    """
    if not settings.folder:
        return LocalBackups(items=[], newest_ms=None)
    folder, (host, _) = Path(settings.folder).expanduser(), this_machine()
    items = []
    for each in list_backups(folder):
        rehearsal = read_rehearsal(folder / each.name)
        rehearsed_ms = None if rehearsal is None else _ms(rehearsal.at)
        findings = [] if rehearsal is None else rehearsal.findings[:_MOST_FINDINGS]
        items.append(
            BackupFileView(
                name=each.name,
                host=host,
                folder=str(data_folder.resolve()),
                at_ms=round(each.at.timestamp() * 1000),
                bytes=each.size,
                verified_ms=rehearsed_ms if each.verified else None,
                rehearsed_ms=rehearsed_ms,
                remote=mask_urls(settings.remote) or None,
                ok=not findings,
                message="; ".join(findings),
            )
        )
    return LocalBackups(items=items, newest_ms=max((each.at_ms for each in items), default=None))


def storage_of(
    statistics: Sequence[StorageStatistics],
    outcomes: Iterable[BackupOutcome],
    local: LocalBackups,
    settings: Backup,
    now_ms: int,
) -> Storage:
    """The document, from what keepers have stored and the backups of this machine."""
    directories = [each for found in statistics for each in found.directories]
    names = {each.name for each in local.items}
    backups = [*local.items, *(_outcome(each) for each in outcomes if _is_news(each, names))]
    next_ms = None
    if settings.folder:
        next_ms = now_ms
        if local.newest_ms is not None:
            next_ms = local.newest_ms + round(settings.every * 1000)
    return Storage(
        at_ms=max((each.at_ms for each in statistics), default=None),
        datasets=_datasets(directories),
        log=_log(directories),
        disks=disks_of(statistics, now_ms),
        backups=sorted(backups, key=lambda each: (-each.at_ms, each.name)),
        next_backup_ms=next_ms,
    )


def _datasets(directories: Iterable[DirectoryStatistics]) -> list[DatasetView]:
    found: dict[str, list[DirectoryStatistics]] = {}
    for each in directories:
        if each.dataset is not None:
            found.setdefault(each.dataset, []).append(each)
    return [
        DatasetView(
            name=name,
            bytes=sum(each.size_bytes for each in of_name),
            files=sum(each.files for each in of_name),
            per_day_bytes=_growth(of_name),
        )
        for name, of_name in sorted(found.items())
    ]


def _growth(found: Iterable[DirectoryStatistics]) -> float | None:
    known = [each.growth_bytes_per_day for each in found if each.growth_bytes_per_day is not None]
    return sum(known) if known else None


def _log(directories: Sequence[DirectoryStatistics]) -> LogView | None:
    whole = [each for each in directories if each.directory == _LOG]
    if not whole:
        return None
    slots = [each for each in directories if each.directory.count("/") == 1]
    return LogView(
        bytes=sum(each.size_bytes for each in whole),
        files=sum(each.files for each in whole),
        slots=sum(each.directory.startswith(f"{_LOG}/") for each in slots),
    )


def _is_news(outcome: BackupOutcome, names: set[str]) -> bool:
    """Whether an outcome says more than the files of this machine do."""
    return bool(outcome.problem) or outcome.name not in names


def _outcome(outcome: BackupOutcome) -> BackupFileView:
    return BackupFileView(
        name="" if outcome.problem else outcome.name,
        host=outcome.host,
        folder=outcome.folder,
        at_ms=outcome.at_ms,
        bytes=0 if outcome.problem else outcome.size_bytes,
        verified_ms=outcome.verified_ms if outcome.verified == outcome.name else None,
        rehearsed_ms=outcome.verified_ms if outcome.verified == outcome.name else None,
        remote=None,
        ok=not outcome.problem,
        message=outcome.problem,
    )


def _ms(text: str) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
