"""The keeper makes a backup when the newest one is too old, in a process that cannot harm it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.backup.making.conftest import World, trades
from tests.waiting import PATIENCE_S

from penstock.app.keeper import open_keeper
from penstock.backup.facts import BackupFailed, BackupMade
from penstock.backup.folder import list_backups, locked_alone
from penstock.backup.model import name_of
from penstock.backup.outcome import read_outcomes
from penstock.backup.schedule import BackupSchedule
from penstock.clock import ManualClock, SystemClock
from penstock.config import Backup, Collect, Settings
from penstock.runtime.status import read_processes
from penstock.runtime.stores import open_state
from penstock.telemetry import Fact, quiet

NOW = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)


def schedule(folder: Path) -> BackupSchedule:
    settings = Settings(
        collect=Collect(data_dir=str(folder / "nothing")), backup=Backup(folder=str(folder))
    )
    return BackupSchedule(settings, ManualClock(int(NOW.timestamp() * 1000)), quiet, {})


def test_a_backup_is_due_three_hours_after_the_last(tmp_path: Path) -> None:
    due = schedule(tmp_path)
    assert due.is_due()

    (tmp_path / name_of(NOW - timedelta(hours=3))).touch()
    assert due.is_due()
    (tmp_path / name_of(NOW - timedelta(hours=2, minutes=59))).touch()
    assert not due.is_due()


def test_a_backup_from_the_future_does_not_count(tmp_path: Path) -> None:
    (tmp_path / name_of(NOW + timedelta(days=1))).touch()

    assert schedule(tmp_path).is_due()


async def test_an_unexpected_error_is_a_problem_and_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, problems, facts = ManualClock(), dict[str, str](), list[Fact]()
    due = BackupSchedule(schedule(tmp_path)._settings, clock, facts.append, problems)
    tried = []

    async def fail() -> None:
        tried.append(clock.monotonic_ns())
        raise OSError("no memory for a process")

    monkeypatch.setattr(due, "_make", fail)
    running = asyncio.create_task(due.run())
    await clock.advance(700)
    running.cancel()

    assert "no memory" in problems["backup"]
    assert len(tried) == 2, "it is retried after ten minutes"
    assert {type(fact) for fact in facts} == {BackupFailed}


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_keeper_makes_backups(world: World) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 50))

    keeping = open_keeper(world.settings, SystemClock(), world.facts.append, backups=True)
    async with keeping, open_state(world.settings, SystemClock()) as store:
        async with asyncio.timeout(PATIENCE_S):
            while not (outcomes := await read_outcomes(store)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    [made] = [fact for fact in world.facts if isinstance(fact, BackupMade)]
    [listed] = list_backups(world.backups)
    assert (listed.name, listed.verified) == (made.name, True)
    [outcome] = outcomes
    assert (outcome.name, outcome.verified, outcome.problem) == (made.name, made.name, "")


async def test_a_failed_backup_is_a_problem_of_the_keeper(world: World, tmp_path: Path) -> None:
    await world.collector()
    (tmp_path / "file").touch()
    settings = replace(world.settings, backup=Backup(folder=str(tmp_path / "file" / "backups")))

    async with (
        open_keeper(settings, SystemClock(), world.facts.append, backups=True),
        open_state(settings, SystemClock()) as store,
    ):
        await _until(lambda: any(isinstance(fact, BackupFailed) for fact in world.facts))
        async with asyncio.timeout(PATIENCE_S):
            problems = ""
            while "backup:" not in problems:
                await asyncio.sleep(0.02)
                problems = str([e.status.problems for e in await read_processes(store)])


def test_none_is_due_while_another_keeper_makes_one(tmp_path: Path) -> None:
    due = schedule(tmp_path)

    with locked_alone(tmp_path):
        assert not due.is_due()

    assert due.is_due()
