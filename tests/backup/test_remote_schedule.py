"""The keeper synchronizes after each backup, and retries what failed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tests.backup.folders import add_backup

from penstock.backup import local_folder
from penstock.backup.folder import locked_alone
from penstock.backup.remote import RemoteSync, SyncReport
from penstock.backup.remote_schedule import SyncSchedule
from penstock.clock import ManualClock
from penstock.errors import RemoteError, StoreUnreachable


class CountedSync:
    def __init__(self) -> None:
        self.runs = 0
        self.result: Callable[[], SyncReport] = lambda: SyncReport(remote="s3:x")

    async def run(self) -> SyncReport:
        self.runs += 1
        return self.result()


def failing() -> SyncReport:
    raise RemoteError("s3:x", "no answer")


def unexpected() -> SyncReport:
    raise OSError("too many files")


async def test_a_sync_follows_each_backup(tmp_path: Path) -> None:
    clock, sync, problems = ManualClock(), CountedSync(), dict[str, str]()
    reported = list[str]()

    async def report(problem: str) -> None:
        reported.append(problem)
        raise StoreUnreachable("store", "away")

    schedule = SyncSchedule(cast("RemoteSync", sync), tmp_path / "backups", clock, problems, report)
    running = asyncio.create_task(schedule.run())
    runs = list[int]()

    async def after(seconds: float) -> None:
        await clock.advance(seconds)
        runs.append(sync.runs)

    await after(0)  # the folder does not exist: it may have been lost
    await after(3600)
    add_backup(tmp_path / "backups", 0)
    with locked_alone(tmp_path / "backups"):
        await after(600)  # it is being checked
    await after(60)
    sync.result = failing
    add_backup(tmp_path / "backups", 1)
    await after(60)
    assert "no answer" in problems["remote copies"]
    await after(500)
    sync.result = unexpected
    await after(60)
    assert "too many files" in problems["remote copies"]
    await after(550)
    sync.result = lambda: SyncReport(remote="s3:x", problems=("damaged",))
    await after(60)
    assert problems == {"remote copies": "damaged"}
    sync.result = lambda: SyncReport(remote="s3:x")
    await after(620)
    assert problems == {}
    await after(6 * 3600 + 20)  # without a new one
    running.cancel()

    assert runs == [1, 1, 1, 2, 3, 3, 4, 4, 5, 6, 7]
    assert [bool(each) for each in reported] == [False, False, True, True, True, False, False]


async def test_a_backup_that_is_made_during_a_sync_is_synchronized_too(tmp_path: Path) -> None:
    clock, sync, folder = ManualClock(), CountedSync(), tmp_path / "backups"
    schedule = SyncSchedule(cast("RemoteSync", sync), folder, clock, {})
    old = add_backup(folder, 9)

    def pulling() -> SyncReport:
        """One is pulled and an old one deleted; meanwhile another one is made."""
        sync.result = lambda: SyncReport(remote="s3:x")
        local_folder.delete(folder, old)
        add_backup(folder, 0)
        return SyncReport(remote="s3:x", pulled=(add_backup(folder, 1),), deleted=(old,))

    sync.result = pulling
    running = asyncio.create_task(schedule.run())
    await clock.advance(0)
    await clock.advance(3600)
    running.cancel()

    assert sync.runs == 2
