"""Checks of the data folder: who may use it, and what killed processes left there."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.backup.archive import PARTIAL
from penstock.doctor.machine import existing, folders_of
from penstock.doctor.model import Finding, Subject, in_thread, ok, problem, warning
from penstock.files import is_partial
from penstock.runtime.checkpoints import staging_folder
from penstock.runtime.stores import configured_log

_OLD_NS = 3_600_000_000_000
"""A partial file that is younger may be in use, perhaps by another machine."""
_SHOWN = 3
_SMALL_FILES = (".", "status", "bus", "log")
"""The folders of the data folder that have small files."""


async def check_permissions(subject: Subject) -> Iterable[Finding]:
    """Whether the folders can be written, and whether others can change data or read keys."""
    return await in_thread(lambda: list(_permissions(subject)))


def _permissions(subject: Subject) -> Iterator[Finding]:
    for name, folder in folders_of(subject).items():
        if folder.exists() and not folder.is_dir():
            yield problem("permissions", f"{folder} is not a folder", "Name another folder.")
            continue
        place = existing(folder)
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            words = f"the folder for {name}, {place}, cannot be written by this user"
            remedy = f"Give it to the user that runs penstock: chown -R USER {place}"
            yield problem("permissions", words, remedy)
        elif folder.is_dir():
            yield from _others(name, folder)
        else:
            yield ok("permissions", f"the folder for {name}, {folder}, can be created")
    for path in _keys(subject):
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            words = f"other users can read the secret key in {path}"
            yield problem("permissions", words, f"chmod 600 {path}, and make a new key.")


def _others(name: str, folder: Path) -> Iterator[Finding]:
    refused = [path for path in folder.iterdir() if not os.access(path, os.R_OK | os.W_OK)]
    if refused:
        words = f"this user cannot write {_named(refused)}"
        yield problem("permissions", words, f"chown -R USER {folder}, for the user of penstock.")
    elif folder.stat().st_mode & stat.S_IWOTH:
        words = f"every user can change what is in {folder}"
        yield warning("permissions", words, f"chmod o-w {folder}")
    else:
        yield ok("permissions", f"the folder for {name}, {folder}, can be written")


def _keys(subject: Subject) -> list[Path]:
    key = subject.settings.bus.key_file
    return [Path(key)] if key and Path(key).is_file() else []


async def check_partial_files(subject: Subject) -> Iterable[Finding]:
    """Whether killed processes left files that nobody will finish."""
    return await in_thread(lambda: _partial_files(subject))


def _partial_files(subject: Subject) -> list[Finding]:
    data = Path(subject.settings.collect.data_dir)
    folders = [data / each for each in _SMALL_FILES]
    if subject.settings.backup.folder:
        folders.append(Path(subject.settings.backup.folder))
    before_ns = subject.clock.now_ns() - _OLD_NS
    left = [
        path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if _is_left(path.name) and path.is_file() and path.stat().st_mtime_ns < before_ns
    ]
    log = configured_log(subject.settings).folder
    staged = sorted(staging_folder(log).glob("*")) if log is not None else []
    left += [path for path in staged if path.stat().st_mtime_ns < before_ns]
    if left:
        words = f"{len(left):,} files of killed processes: {_named(left)}"
        return [warning("partial files", words, f"Delete them: rm -r {' '.join(map(str, left))}")]
    return [ok("partial files", "none")]


def _is_left(name: str) -> bool:
    return is_partial(name) or name.startswith(PARTIAL)


def _named(paths: list[Path]) -> str:
    more = len(paths) - _SHOWN
    names = [str(path) for path in paths[:_SHOWN]]
    return ", ".join([*names, *([f"and {more:,} more"] if more > 0 else [])])
