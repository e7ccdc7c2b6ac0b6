"""A backup of a store in use has every record, and its restored copy equals it."""

import asyncio
import errno
import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backup.making.conftest import HOUR_NS, World, trades
from tests.backup.test_archive import tree
from tests.waiting import PATIENCE_S

import penstock
from penstock.backup import restore as restoring
from penstock.backup import snapshot
from penstock.backup.archive import ArchiveWriter, Written
from penstock.backup.facts import RehearsalFailed
from penstock.backup.folder import list_backups, locked_alone, read_rehearsal
from penstock.backup.manifest import File
from penstock.backup.outcome import read_outcomes, write_copied
from penstock.backup.ownership import OWNER
from penstock.backup.reading import check_archive
from penstock.backup.restore import restore
from penstock.backup.snapshot import Snapshot
from penstock.cli.backup import _run
from penstock.clock import SystemClock
from penstock.config import Alerts, Storage
from penstock.errors import BackupRunning, ConfigError, NoDataset, StorageError, StorageFull
from penstock.publish.endpoints import log_id
from penstock.runtime.checkpoints import checkpoint_folder, read_request
from penstock.runtime.status import read_processes
from penstock.runtime.stores import open_state
from penstock.runtime.trimming import Trimmer
from penstock.stats.conditions import Inputs, old_backups
from penstock.storage.lake.documents import read_seals
from penstock.storage.log import open_log


def ids(folder: Path) -> list[int]:
    data = penstock.open(folder)
    return sorted(data.trades(on_gap="ignore").polars()["id"].to_list())


async def test_a_backup_of_a_store_in_use_has_every_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 500, age_ns=3 * HOUR_NS))
    await recorder.sync()
    await world.keep()
    await recorder.record(trades(501, 600))
    copied: dict[str, bytes] = {}
    monkeypatch.setattr(Snapshot, "remove", lambda self: copied.update(tree(self.folder)))

    made = await world.back_up()

    restore(made.written.path, world.data.parent / "restored")
    restored = tree(world.data.parent / "restored")
    assert restored == copied
    assert {path.split("/")[0] for path in restored} == {"bus", "lake", "log", "state.db"}
    assert ids(world.data.parent / "restored") == list(range(1, 601))
    assert made.rehearsal is not None
    assert made.rehearsal.verified, made.rehearsal
    assert made.rehearsal.compared["records"] > 0
    assert read_rehearsal(made.written.path) == made.rehearsal
    [listed] = list_backups(world.backups)
    assert (listed.name, listed.verified) == (made.written.path.name, True)


async def test_a_slot_without_an_owner_is_copied_too(world: World) -> None:
    log = open_log(f"rocksdb:{world.data}")
    with closing(log.writer("collect-gone")) as writer:
        writer.append(trades(1, 20))
    recorder = await world.collector("collect-here")
    await recorder.record(trades(10, 40))

    made = await world.back_up(rehearse=False)

    restore(made.written.path, world.data.parent / "restored")
    assert made.manifest.slots == ["collect-gone", "collect-here"]
    assert ids(world.data.parent / "restored") == list(range(1, 41))


async def test_an_owner_that_does_not_answer_fails_the_backup(world: World) -> None:
    log = open_log(f"rocksdb:{world.data}")
    with closing(log.writer("collect-hangs")) as writer:
        writer.append(trades(1, 20))

        with pytest.raises(StorageError, match=r"did not copy it within 0\.3 s"):
            await world.back_up(checkpoint_timeout=0.3)

    assert [each.name for each in world.backups.iterdir()] == [OWNER]
    assert list((world.data / "checkpoints").iterdir()) == []
    async with open_state(world.settings, SystemClock(), read_only=True) as store:
        [outcome] = await read_outcomes(store)
    assert "did not copy it" in outcome.problem


async def test_a_copy_whose_owner_ended_before_it_said_so_is_used(world: World) -> None:
    slot = "collect-killed"
    writer = open_log(f"rocksdb:{world.data}").writer(slot)
    writer.append(trades(1, 20))

    async def own() -> None:
        async with open_state(world.settings, SystemClock()) as store:
            while (asked := await read_request(store, log_id(world.data), slot)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        writer.checkpoint(checkpoint_folder(world.data, str(asked["backup"]), slot))
        writer.close()

    owning = asyncio.create_task(own())
    made = await world.back_up(rehearse=False, checkpoint_timeout=0.5)
    await owning

    restore(made.written.path, world.data.parent / "restored")
    assert ids(world.data.parent / "restored") == list(range(1, 21))


@pytest.mark.parametrize("late", [[], [0]], ids=["", "a late record"])
async def test_records_that_are_deleted_meanwhile_are_not_missing(
    world: World, monkeypatch: pytest.MonkeyPatch, late: list[int]
) -> None:
    """The lake is copied, then a keeper seals and the owner deletes, then the log is copied.

    The first key does not rise if a late record with a low key is recorded in between.
    """
    recorder = await world.collector()
    await recorder.record(trades(1, 500, age_ns=3 * HOUR_NS))
    await recorder.sync()
    copies = snapshot._copy_log_id
    trimmed: list[Path] = []

    def trim_then_copy(store: snapshot.Store, folder: Path) -> None:
        if not trimmed:
            trimmed.append(folder)
            asyncio.run_coroutine_threadsafe(world.keep(), loop).result(PATIENCE_S)
            writer = recorder._log  # the owner trims every 20 seconds; here it does so now
            states = asyncio.run_coroutine_threadsafe(
                read_seals(store.state, store.log_id, "collect-toy"), loop
            ).result(PATIENCE_S)
            trimmer = Trimmer(writer, store.log_id, store.clock, world.facts.append)
            assert asyncio.run_coroutine_threadsafe(trimmer.trim(states), loop).result(PATIENCE_S)
            for each in late:
                recorder._log.append(trades(each, each))
        copies(store, folder)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(snapshot, "_copy_log_id", trim_then_copy)

    made = await world.back_up()

    restore(made.written.path, world.data.parent / "restored")
    assert ids(world.data.parent / "restored") == [*late, *range(1, 501)]
    assert made.rehearsal is not None
    assert made.rehearsal.verified


async def test_the_outcome_of_copies_stays(world: World) -> None:
    await world.collector()
    async with open_state(world.settings, SystemClock()) as store:
        await write_copied(store, log_id(world.data), 1, "no backup yet")
        await world.back_up(rehearse=False)
        await write_copied(store, log_id(world.data), 5, "")
        await write_copied(store, log_id(world.data), 6, "The remote is full.")
        await world.back_up(rehearse=False)
        [outcome] = await read_outcomes(store)

    assert (outcome.copied_ms, outcome.copy_problem) == (5, "The remote is full.")
    assert outcome.name


async def test_the_outcome_names_the_data_folder_wherever_the_log_is(world: World) -> None:
    elsewhere = world.data.parent / "log"
    world.settings = replace(world.settings, storage=Storage(log_url=f"rocksdb:{elsewhere}"))
    await world.collector()
    await world.back_up(rehearse=False)
    async with open_state(world.settings, SystemClock()) as store:
        [outcome], [seen] = await read_outcomes(store), await read_processes(store)
        now_ms = outcome.at_ms + 2 * 86_400_000

    assert outcome.folder == str(world.data)
    inputs = Inputs(now_ms, Alerts(), processes=[seen], backups=[outcome])
    assert [each.rule for each in old_backups(inputs)] == ["backup_old"]


async def test_two_backups_at_once_are_refused(world: World) -> None:
    await world.collector()
    for folder in (world.backups, world.data / "checkpoints"):
        with locked_alone(folder), pytest.raises(BackupRunning):
            await world.back_up()


async def test_the_folder_of_another_logs_backups_is_refused(world: World) -> None:
    await world.collector()
    made = await world.back_up(rehearse=False)
    other = World(world.data.parent / "other", world.stack)
    await other.collector()

    with pytest.raises(ConfigError, match="backups of another log"):
        await other.back_up(folder=str(world.backups), keep=1, rehearse=False)
    async with open_state(other.settings, SystemClock()) as store:
        [outcome] = await read_outcomes(store)

    assert "another log" in outcome.problem, "there is an alert"
    assert [each.name for each in list_backups(world.backups)] == [made.written.path.name]


async def test_what_a_killed_backup_left_is_removed(world: World) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 20))
    world.backups.mkdir()
    (world.backups / ".partial-1-storage-2026-01-01T00-00-00-000.tar.gz").write_bytes(b"half")
    (world.backups / "storage-2026-01-01T00-00-00-000.tar.gz.sha256").write_text("no archive")
    (world.backups / ".rehearsal" / "log").mkdir(parents=True)
    (world.backups / ".restoring-.rehearsal-7").mkdir()
    (world.backups / "notes.txt").write_text("of the user")
    (world.data / "checkpoints" / "old" / "log").mkdir(parents=True)

    made = await world.back_up(rehearse=False)

    name = made.written.path.name
    kept = {name, f"{name}.sha256", "notes.txt", OWNER}
    assert {path.name for path in world.backups.iterdir()} == kept
    assert list((world.data / "checkpoints").iterdir()) == []


async def test_a_full_disk_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 2_000))
    write, written = os.write, []

    def fill(descriptor: int, data: bytes) -> int:
        if "/backups/" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            written.append(len(data))
            if sum(written) > 2_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(StorageFull, match="the backup cannot be written: No space left"):
        await world.back_up()
    monkeypatch.undo()

    assert [each.name for each in world.backups.iterdir()] == [OWNER]
    assert list((world.data / "checkpoints").iterdir()) == []
    await recorder.record(trades(2_001, 2_002))
    assert (await world.back_up(rehearse=False)).written.path.is_file()


async def test_what_the_retention_does_not_keep_is_deleted(world: World) -> None:
    await world.collector()
    world.backups.mkdir()
    for day in range(1, 10):
        name = f"storage-2026-01-0{day}T00-00-00-000.tar.gz"
        (world.backups / name).touch()
        (world.backups / f"{name}.sha256").touch()

    made = await world.back_up(keep=3)

    names = [each.name for each in list_backups(world.backups)]
    assert names == [
        "storage-2026-01-08T00-00-00-000.tar.gz",
        "storage-2026-01-09T00-00-00-000.tar.gz",
        made.written.path.name,
    ]
    assert len(made.deleted) == 7
    assert len(list(world.backups.glob("*.sha256"))) == 3


async def test_a_rehearsal_finds_what_is_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 20))
    finish = ArchiveWriter.finish

    def damage(writer: ArchiveWriter, listed: bytes, mtime: int) -> Written:
        written = finish(writer, listed, mtime)
        with written.path.open("r+b") as file:
            file.seek(written.size // 2)
            byte = file.read(1)
            file.seek(written.size // 2)
            file.write(bytes([byte[0] ^ 1]))
        return written

    monkeypatch.setattr(ArchiveWriter, "finish", damage)

    made = await world.back_up()

    assert made.rehearsal is not None
    assert not made.rehearsal.verified
    assert made.rehearsal.findings
    assert [each.verified for each in list_backups(world.backups)] == [False]
    assert any(isinstance(fact, RehearsalFailed) for fact in world.facts)


async def test_no_secret_and_nothing_else_of_the_folder_is_in_a_backup(world: World) -> None:
    await world.collector()
    for name in ("penstock.toml", "bus/broker.key", "live.db", "api/tokens.json", "log/token"):
        path = world.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary-7f3a")

    made = await world.back_up()

    restore(made.written.path, world.data.parent / "restored")
    assert not any(b"canary-7f3a" in data for data in tree(world.data.parent / "restored").values())


async def test_a_store_without_data_has_no_backup(world: World) -> None:
    with pytest.raises(NoDataset):
        await world.back_up()
    assert not world.data.exists()


async def test_a_restored_store_is_continued(world: World) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 300, age_ns=3 * HOUR_NS))
    await recorder.sync()
    await world.keep()
    await recorder.record(trades(301, 400, age_ns=2 * HOUR_NS))
    made = await world.back_up(rehearse=False)
    await recorder.record(trades(401, 450))  # lost with the original
    restored = World(world.data.parent / "other", world.stack)
    restore(made.written.path, restored.data)

    again = await restored.collector()
    await again.record(trades(395, 500, age_ns=HOUR_NS))
    await again.sync()
    await restored.keep()

    assert ids(restored.data) == list(range(1, 501))
    assert (await restored.back_up()).rehearsal.verified  # type: ignore[union-attr]


async def test_a_lake_on_another_disk_is_copied_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 100, age_ns=3 * HOUR_NS))
    await recorder.sync()
    await world.keep()

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)

    made = await world.back_up()

    assert made.rehearsal is not None
    assert made.rehearsal.verified
    assert made.rehearsal.compared["files"] > 0


async def test_what_is_on_a_server_is_named_without_its_password(world: World) -> None:
    await world.collector()
    settings = replace(world.settings, storage=Storage(lake_url="s3://bucket/lake"))
    async with open_state(world.settings, SystemClock()) as state:
        store = snapshot.Store(
            log=open_log(f"rocksdb:{world.data}"),
            log_id=log_id(world.data),
            state=state,
            state_url="postgresql://user:canary@host/db",
            lake_url=settings.storage.lake_url,
            lake_folder=None,
            clock=SystemClock(),
            checkpoint_timeout_s=10,
        )
        taken = await snapshot.take_snapshot(store, "here")
    taken.remove()

    assert not taken.parts["state"].included
    assert "pg_dump" in taken.parts["state"].note
    assert (taken.parts["lake"].kind, taken.parts["lake"].included) == ("s3", False)
    assert "canary" not in str(taken.parts)


async def test_a_backup_without_space_to_rehearse_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 20))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))

    made = await world.back_up()

    assert made.rehearsal is not None
    assert "are needed" in made.rehearsal.findings[0]
    assert [each.verified for each in list_backups(world.backups)] == [False]
    check_archive(made.written.path)


async def test_a_backup_that_is_cancelled_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 2_000))
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    add = ArchiveWriter._add

    def slow(writer: ArchiveWriter, *given: Any) -> File:
        loop.call_soon_threadsafe(reached.set)
        cancelled.wait(PATIENCE_S)
        return add(writer, *given)

    cancelled = threading.Event()
    monkeypatch.setattr(ArchiveWriter, "_add", slow)
    task = asyncio.create_task(world.back_up())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    async with asyncio.timeout(PATIENCE_S):
        while [each.name for each in world.backups.iterdir()] != [OWNER]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert tree(world.data / "checkpoints") == {}


async def test_a_backup_whose_rehearsal_is_cancelled_is_there_and_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 200))
    loop, reached, cancelled = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    writes = restoring._write

    def slow(*given: Any) -> None:
        loop.call_soon_threadsafe(reached.set)
        cancelled.wait(PATIENCE_S)
        writes(*given)

    monkeypatch.setattr(restoring, "_write", slow)
    complete: list[str] = []
    task = asyncio.create_task(_run(world.settings, complete))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    async with asyncio.timeout(PATIENCE_S):
        while any(each.name.startswith(".") for each in world.backups.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert [(each.name, each.verified) for each in list_backups(world.backups)] == [
        (complete[0], False)
    ]
    check_archive(world.backups / complete[0])


async def test_a_folder_with_a_space_behind_a_link_is_copied(world: World) -> None:
    real = world.data.parent / "real data"
    real.mkdir()
    world.data.symlink_to(real)
    recorder = await world.collector()
    await recorder.record(trades(1, 20, age_ns=3 * HOUR_NS))
    await recorder.sync()
    await world.keep()

    made = await world.back_up()

    assert any(file.path.startswith("lake/trades/exchange=") for file in made.manifest.files)
    assert made.rehearsal is not None
    assert made.rehearsal.verified, made.rehearsal


async def test_a_copy_of_an_owner_that_ended_without_an_answer_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(f"rocksdb:{world.data}")
    with closing(log.writer("collect-ended")) as writer:
        writer.append(trades(1, 20))

    async def ask(_: Any, __: Any, slot: str, backup: str, ___: float) -> None:
        with closing(log.writer(slot)) as owner:
            owner.checkpoint(checkpoint_folder(world.data, backup, slot))

    monkeypatch.setattr(snapshot, "ask_checkpoint", ask)
    monkeypatch.setattr(snapshot, "slot_status_id", lambda *_: "seen")
    monkeypatch.setattr(snapshot, "read_processes", _seen)

    made = await world.back_up(checkpoint_timeout=0.3)

    assert made.manifest.slots == ["collect-ended"]


async def _seen(_: Any) -> list[Any]:
    return [SimpleNamespace(id="seen", gone=False)]
