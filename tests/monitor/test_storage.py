"""What data takes on disk, and its backups."""

import hashlib
from pathlib import Path

from msgspec.structs import replace

from penstock.backup.folder import Rehearsal, write_rehearsal
from penstock.backup.model import digest_line, digest_name
from penstock.backup.outcome import BackupOutcome
from penstock.config import Backup
from penstock.monitor.storage import LocalBackups, read_local_backups, storage_of
from penstock.stats.statistics import DirectoryStatistics, DiskStatistics, StorageStatistics

from .statuses import NOW_MS

NONE = LocalBackups(items=[], newest_ms=None)


def directory(name: str, size: int, per_day: float | None = None) -> DirectoryStatistics:
    return DirectoryStatistics(
        directory=name, size_bytes=size, files=2, updated_ms=1, growth_bytes_per_day=per_day
    )


def folder(name: str, *directories: DirectoryStatistics) -> StorageStatistics:
    disk = DiskStatistics(path=name, size_bytes=100, free_bytes=50, data_bytes=9)
    return StorageStatistics(
        host="h", folder=name, at_ms=NOW_MS, took_ms=1, disks=(disk,), directories=directories
    )


def test_datasets_of_all_folders_are_added() -> None:
    one = folder(
        "/a", directory("lake", 70), directory("lake/binance", 60),
        directory("lake/binance/trades", 50, 5.0), directory("lake/binance/trades/btc_usdt", 9),
        directory("lake/_delta_log/trades", 7), directory("log", 30), directory("log/collect-x", 9),
        directory("log/work-0", 9), directory("log/work-0/binance/trades/btc_usdt", 9),
    )  # fmt: skip
    other = folder("/b", directory("lake/binance/trades", 5, 1.0), directory("log", 1))
    shown = storage_of([one, other], [], NONE, Backup(), NOW_MS)
    [dataset] = shown.datasets
    assert (dataset.name, dataset.bytes, dataset.files, dataset.per_day_bytes) == (
        "binance/trades", 55, 4, 6.0
    )  # fmt: skip
    assert shown.log is not None
    assert (shown.log.bytes, shown.log.slots) == (31, 2)
    assert [each.path for each in shown.disks] == ["/a", "/b"]
    assert (shown.at_ms, shown.backups, shown.next_backup_ms) == (NOW_MS, [], None)


def test_without_a_keeper_nothing_is_known() -> None:
    shown = storage_of([], [], NONE, Backup(), NOW_MS)
    assert (shown.at_ms, shown.datasets, shown.log, shown.disks) == (None, [], None, [])


def test_backups_of_this_machine_have_their_rehearsals(tmp_path: Path) -> None:
    assert read_local_backups(Backup(), tmp_path) == NONE
    settings = Backup(folder=str(tmp_path / "backups"), every=3600.0, remote="s3:bucket/x")
    assert read_local_backups(settings, tmp_path) == NONE
    assert storage_of([], [], NONE, settings, NOW_MS).next_backup_ms == NOW_MS

    (tmp_path / "backups").mkdir()
    for hour in (9, 10, 11):
        archive = tmp_path / "backups" / f"storage-2026-01-17T{hour:02}-00-00-000.tar.gz"
        archive.write_bytes(b"x" * hour)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        archive.with_name(digest_name(archive.name)).write_text(digest_line(digest, archive.name))
        result = Rehearsal(at=f"2026-01-17T{hour:02}:30:00+00:00", digest=digest, verified=True)
        if hour == 10:
            result = replace(result, verified=False, findings=["one record is lost"])
        if hour < 11:
            write_rehearsal(archive, result)
    local = read_local_backups(settings, tmp_path)
    failed = BackupOutcome(log_id="a", folder="/a", host="x", at_ms=local.newest_ms or 0,
                           problem="the disk is full")  # fmt: skip
    same = BackupOutcome(log_id="b", folder="/b", host="x", at_ms=1, name=local.items[0].name)
    shown = storage_of([], [failed, same], local, settings, NOW_MS)
    assert [(each.name[-17:-7], each.bytes, each.ok, each.message) for each in shown.backups] == [
        ("", 0, False, "the disk is full"),
        ("-00-00-000", 11, True, ""),
        ("-00-00-000", 10, False, "one record is lost"),
        ("-00-00-000", 9, True, ""),
    ]
    newest, middle, oldest = shown.backups[1:]
    assert (newest.verified_ms, newest.rehearsed_ms, newest.remote) == (None, None, "s3:bucket/x")
    assert middle.verified_ms is None
    assert oldest.verified_ms == oldest.rehearsed_ms == oldest.at_ms + 1_800_000
    assert middle.rehearsed_ms == middle.at_ms + 1_800_000
    assert shown.next_backup_ms == newest.at_ms + 3_600_000
