"""Checks of the machine: Python, disk space, and how fast a disk is."""

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from penstock import compiled
from penstock.clock import Clock
from penstock.doctor.model import Finding, Subject, in_thread, ok, problem, warning
from penstock.runtime.event_loops import loop_name
from penstock.runtime.stores import lake_url, local_folder

LEAST_PYTHON = (3, 11)
_FULL_PERCENT = 2.0
_SYNCS, _SYNCED_BYTES = 5, 4096
_SLOW_MS, _TOO_SLOW_MS = 200.0, 2000.0


async def check_python(subject: Subject) -> Iterable[Finding]:
    """The version of Python, and that of SQLite, which is part of it; the event loop."""
    version, least = sys.version_info[:2], ".".join(map(str, LEAST_PYTHON))
    words = f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    words += f", event loop {loop_name(subject.settings.collect.event_loop)}"
    if version < LEAST_PYTHON:
        return [problem("python", words, f"Install Python {least} or newer.")]
    return [ok("python", words)]


async def check_hot_path(_subject: Subject) -> Iterable[Finding]:
    """Whether frames are read and books kept by compiled code."""
    return [ok("hot path", compiled.path_words())]


def folders_of(subject: Subject) -> dict[str, Path]:
    """The folders that penstock writes to, by what they hold."""
    settings = subject.settings
    found = {"data": Path(settings.collect.data_dir), "lake": local_folder(lake_url(settings))}
    if settings.backup.folder:
        found["backup"] = Path(settings.backup.folder)
    return {name: folder for name, folder in found.items() if folder is not None}


def existing(folder: Path) -> Path:
    """A folder, or the nearest one above it that exists: there it would be created."""
    folder = folder.absolute()
    return next(each for each in (folder, *folder.parents) if each.is_dir())


async def check_space(subject: Subject) -> Iterable[Finding]:
    """How much of each disk is free."""
    return await in_thread(lambda: list(_spaces(subject)))


def _spaces(subject: Subject) -> Iterable[Finding]:
    seen = set[int]()
    for name, folder in folders_of(subject).items():
        place = existing(folder)
        if (device := place.stat().st_dev) in seen:
            continue
        seen.add(device)
        usage = shutil.disk_usage(place)
        yield _space(name, folder, usage.free, usage.total, subject)


def _space(name: str, folder: Path, free: int, total: int, subject: Subject) -> Finding:
    percent = 100 * free / total if total else 0.0
    words = f"{free / 1e9:,.1f} GB ({percent:.0f} %) free for {name} in {folder}"
    remedy = "Delete what is not needed, shorten keep.retention, or use a larger disk."
    if percent < _FULL_PERCENT:
        return problem("disk", words, remedy)
    if percent < subject.settings.alerts.disk_free_percent:
        return warning("disk", words, remedy)
    return ok("disk", words)


async def check_syncs(subject: Subject) -> Iterable[Finding]:
    """How long the disk of the data folder takes to store a small write for good."""
    return await in_thread(lambda: _syncs(subject))


def _syncs(subject: Subject) -> list[Finding]:
    place = existing(Path(subject.settings.collect.data_dir))
    if not os.access(place, os.W_OK):
        return []  # the check of permissions says so
    try:
        took_ms = sync_ms(place, subject.clock)
    except OSError as error:
        words = f"{place} cannot be written: {error.strerror}"
        return [problem("fsync", words, "Make room on the disk, or mount it for writing.")]
    words = f"a write takes {took_ms:.1f} ms to reach the disk of {place}"
    if took_ms > _SLOW_MS:
        remedy = "Use a local disk, an SSD if possible; see what else writes to it: iostat -x 1"
        make = problem if took_ms > _TOO_SLOW_MS else warning
        return [make("fsync", words, remedy)]
    return [ok("fsync", words)]


def sync_ms(folder: Path, clock: Clock) -> float:
    """The median of some small writes, each synced to the disk. The file has no name.

    Raises:
        OSError: the folder cannot be written.
    """
    took_ns = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            began_ns = clock.monotonic_ns()
            file.write(bytes(_SYNCED_BYTES))
            file.flush()
            os.fsync(file.fileno())
            took_ns.append(clock.monotonic_ns() - began_ns)
    return median(took_ns) / 1e6
