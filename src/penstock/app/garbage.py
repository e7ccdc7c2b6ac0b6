"""Finds and removes what nothing uses any more, in all places that the settings name."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from penstock.backup.garbage import backup_garbage, checkpoint_garbage
from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import MissingExtra, PenstockError
from penstock.keep.garbage import (
    Garbage,
    damaged_slots,
    old_logs,
    reader_folders,
    repair_copies,
    temporary_files,
    unused_lake_files,
)
from penstock.runtime.checkpoints import staging_folder
from penstock.runtime.stores import configured_log, lake_to_read, lake_url, local_folder


class Removal(Struct, frozen=True, kw_only=True):
    """Something that was removed, or would be."""

    kind: str
    path: str
    size_bytes: int
    files: int
    problem: str = ""
    """Why it could not be removed."""


def collect_garbage(
    settings: Settings, clock: Clock, *, dry_run: bool = False, damaged: bool = False
) -> Iterator[Removal]:
    """Remove what killed processes left and what nothing uses; with ``damaged``, damaged slots too.

    What a running process uses is left alone.

    Raises:
        ConfigError: the URL of the log or of the lake is invalid.
        StorageError: a folder or the lake cannot be read.
    """
    for each in _find(settings, clock.now_ns(), damaged=damaged):
        problem = ""
        if not dry_run:
            try:
                each.remove()
            except (OSError, PenstockError) as error:
                problem = str(error)
        yield Removal(
            kind=each.kind,
            path=str(each.path),
            size_bytes=each.size_bytes,
            files=each.files,
            problem=problem,
        )


def _find(settings: Settings, now_ns: int, *, damaged: bool) -> Iterator[Garbage]:
    yield from temporary_files(Path(settings.collect.data_dir), now_ns)
    yield from old_logs(Path(settings.collect.data_dir), settings.logs.keep_days, now_ns)
    yield from reader_folders(now_ns)
    folder = configured_log(settings).folder
    if folder is not None:
        if folder != Path(settings.collect.data_dir):
            yield from temporary_files(folder, now_ns)
        yield from repair_copies(folder / "log")
        yield from checkpoint_garbage(staging_folder(folder))
        if damaged:
            yield from damaged_slots(folder / "log")
    if settings.backup.folder:
        backups = Path(settings.backup.folder).expanduser()
        yield from temporary_files(backups, now_ns)
        yield from backup_garbage(backups)
    lake = local_folder(lake_url(settings))
    if lake is None or lake.is_dir():
        try:
            opened = lake_to_read(settings)
        except MissingExtra:  # without it, there is no lake to clean from here
            return
        yield from unused_lake_files(opened, lake, settings.keep.vacuum_hours)
