"""What processes that were killed left in a data folder, and what nothing uses any more.

Everything here is found by its name, and removed only if no process uses it: by a lock that the
user of such files holds, by the id of the process in their name, or by the open files of all
processes. Locks are held until the next one is asked for, so each is to be removed before that.
Records are never removed here; that is the retention's work.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.errors import SlotInUse, StorageError
from penstock.market.channels import BY_EVENT
from penstock.storage.lake import Lake
from penstock.storage.log.repair import WORK
from penstock.storage.log.rocksdb import READER_PREFIX, held
from penstock.telemetry.log_file import FOLDER as LOGS
from penstock.telemetry.log_file import SUFFIX
from penstock.telemetry.rotated_file import OLD

_TEMPORARY = re.compile(r"\..+\.([0-9]+)")
_DAMAGED = re.compile(r"(.+)\.damaged-[0-9]{8}T[0-9]{6}Z")
_OLD_NS = 3600 * 1_000_000_000
"""Younger files may be in use in ways that cannot be seen from here."""


@dataclass(frozen=True)
class Garbage:
    """Something that may be removed."""

    kind: str
    path: Path
    size_bytes: int
    files: int
    remove: Callable[[], object]


def size_of(path: Path) -> tuple[int, int]:
    """The space that a file or the files of a folder take, and their number.

    Links are not followed. A file that has another name elsewhere takes no space here.
    """
    if path.is_symlink() or not path.is_dir():
        try:
            found = path.lstat()
        except OSError:
            return 0, 0
        return found.st_blocks * 512 if found.st_nlink == 1 else 0, 1
    sizes = [size_of(Path(folder, name)) for folder, _, names in os.walk(path) for name in names]
    return sum(size for size, _ in sizes), sum(files for _, files in sizes)


def folder_garbage(kind: str, folder: Path) -> Garbage:
    """A folder that is to be removed with all that is in it."""
    return Garbage(kind, folder, *size_of(folder), lambda: shutil.rmtree(folder))


def file_garbage(kind: str, file: Path) -> Garbage:
    """A file that is to be removed."""
    return Garbage(kind, file, *size_of(file), lambda: file.unlink(missing_ok=True))


def temporary_files(folder: Path, now_ns: int) -> Iterator[Garbage]:
    """Files that a process began to write and did not rename, in a folder and the log in it."""
    for place in (folder, folder / "log"):
        for path in place.glob(".*") if place.is_dir() else ():
            match = _TEMPORARY.fullmatch(path.name)
            if match and path.is_file() and not _runs(int(match[1])) and _is_old(path, now_ns):
                yield file_garbage("temporary file", path)


def old_logs(folder: Path, days: int, now_ns: int) -> Iterator[Garbage]:
    """Log files in a data folder whose processes have written nothing for so many days."""
    logs, most_ns = folder / LOGS, days * 86_400 * 1_000_000_000
    for path in sorted(logs.glob("*")) if logs.is_dir() else ():
        is_log = path.suffix == SUFFIX or path.name.endswith(SUFFIX + OLD)
        if is_log and path.is_file() and now_ns - path.stat().st_mtime_ns > most_ns:
            yield file_garbage("log", path)


def repair_copies(log: Path) -> Iterator[Garbage]:
    """Copies that repairs of slots were making when they were killed."""
    for path in log.glob(f"*{WORK}") if log.is_dir() else ():
        with suppress(SlotInUse, StorageError), held(log, path.name.removesuffix(WORK)):
            yield folder_garbage("repair", path)


def damaged_slots(log: Path) -> Iterator[Garbage]:
    """Slots that repairs put aside: what they had that is damaged is nowhere else."""
    for path in log.glob("*.damaged-*") if log.is_dir() else ():
        if _DAMAGED.fullmatch(path.name) and path.is_dir():
            yield folder_garbage("damaged slot", path)


def reader_folders(now_ns: int) -> Iterator[Garbage]:
    """Temporary folders of readers that were killed; those of other users are left alone."""
    found = [
        path
        for path in Path(tempfile.gettempdir()).glob(f"{READER_PREFIX}*")
        if path.is_dir() and path.stat().st_uid == os.geteuid() and _is_old(path, now_ns)
    ]
    used = _open_files() if found else []
    for path in found:
        if not any(each.startswith(f"{path}/") for each in used):
            yield folder_garbage("reader", path)


def unused_lake_files(lake: Lake, folder: Path | None, hours: int) -> Iterator[Garbage]:
    """Files of each table that no version within the retention uses; sizes only in a folder."""
    for row in BY_EVENT.values():
        paths = lake.unused_files(row, hours)
        size = 0
        if folder is not None:
            there = [folder / row.name / path for path in paths]
            there = [path for path in there if path.is_file()]
            size, paths = sum(size_of(path)[0] for path in there), list(map(str, there))
        if paths:
            where = Path(row.name) if folder is None else folder / row.name
            yield Garbage("lake", where, size, len(paths), partial(lake.vacuum, row, hours))


def _is_old(path: Path, now_ns: int) -> bool:
    try:
        return now_ns - path.lstat().st_mtime_ns > _OLD_NS
    except OSError:
        return False


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _open_files() -> list[str]:
    """The paths of the open files of all processes that may be examined."""
    found = list[str]()
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # it is no process, has ended, or belongs to another user
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    found.append(str(link.readlink()))
    return found
