"""Backups and their remote copies, with a real rclone, a folder and an object store."""

import asyncio
import errno
import os
import shutil
import signal
import stat
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
from tests import servers
from tests.backup.folders import NOW, add_backup, backups, flip_byte, whole_backups
from tests.waiting import PATIENCE_S

from penstock.backup import local_folder
from penstock.backup.folder import Rehearsal, write_rehearsal
from penstock.backup.model import digest_name
from penstock.backup.ownership import claim_folder
from penstock.backup.rclone import Rclone
from penstock.backup.remote import RemoteSync, SyncReport
from penstock.backup.remote_facts import BackupPushed, CopyDeleted, SyncFailed
from penstock.backup.remote_folder import Listing, RemoteFolder, check_remote
from penstock.clock import ManualClock, SystemClock
from penstock.errors import (
    ConfigError,
    PenstockError,
    RcloneMissing,
    RemoteError,
    RemoteStalled,
    SyncRunning,
)
from penstock.telemetry import Fact

_numbers = count()


@dataclass
class Place:
    """A folder of backups, its remote, and the folder in which that remote's files are."""

    folder: Path
    remote: str
    files: Path
    facts: list[Fact]

    async def sync(
        self, keep: int = 7, program: str = "", dry_run: bool = False, stall_s: float = 60
    ) -> SyncReport:
        rclone = Rclone(program or servers.rclone_program(), SystemClock(), stall_s)
        remote = RemoteFolder(rclone, self.remote)
        clock = ManualClock(round(NOW.timestamp() * 1000))
        sync = RemoteSync(self.folder, remote, keep, clock, self.facts.append)
        return await sync.run(dry_run=dry_run)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "backups", str(tmp_path / "copies"), tmp_path / "copies", [])


@pytest.fixture(params=["folder", "s3"])
def each_place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    if request.param == "folder":
        found: Place = request.getfixturevalue("place")
        return found
    root, variables = request.getfixturevalue("rclone_store")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = f"bucket/{os.getpid()}-{next(_numbers)}"
    return Place(tmp_path / "backups", f"store:{path}", root / path, [])


async def test_push_pull_and_reconcile(each_place: Place) -> None:
    names = [add_backup(each_place.folder, days) for days in (0, 1, 2, 2.1, 3)]

    first = await each_place.sync(keep=3)

    assert first.problems == ()
    assert set(first.pushed) == set(first.verified) == set(names[:3])
    assert set(first.deleted) == set(names[3:])
    assert whole_backups(each_place.folder) == whole_backups(each_place.files) == set(names[:3])

    again = await each_place.sync(keep=3)
    assert (again.pushed, again.pulled, again.deleted, again.deleted_remote) == ((), (), (), ())
    assert set(again.verified) == set(names[:3])

    shutil.rmtree(each_place.folder)
    lost = await each_place.sync(keep=2)
    assert set(lost.pulled) == set(names[:2])
    assert set(lost.deleted_remote) == {names[2]}
    assert whole_backups(each_place.folder) == whole_backups(each_place.files) == set(names[:2])
    assert not list((each_place.folder / local_folder.STAGING).iterdir())


async def test_a_flipped_byte_on_either_side_is_replaced_by_the_other_copy(place: Place) -> None:
    names = [add_backup(place.folder, days) for days in (0, 1, 2)]
    await place.sync()
    flip_byte(place.folder / names[0])
    flip_byte(place.files / names[1])

    report = await place.sync()

    assert report.problems == ()
    assert (report.pulled, report.pushed) == ((names[0],), (names[1],))
    assert whole_backups(place.folder) == whole_backups(place.files) == set(names)


async def test_a_damaged_backup_is_neither_pushed_nor_counted(place: Place) -> None:
    names = [add_backup(place.folder, days) for days in (0, 0.2, 1)]
    flip_byte(place.folder / names[0])

    report = await place.sync(keep=2)

    assert "does not have its digest" in report.problems[0]
    assert backups(place.files) == set(names[1:])
    assert backups(place.folder) == set(names)


async def test_a_damaged_remote_copy_is_not_taken_but_the_one_before_it(place: Place) -> None:
    names = [add_backup(place.files, days) for days in (0, 0.2, 1)]
    flip_byte(place.files / names[0])

    report = await place.sync()

    assert set(report.pulled) == set(names[1:])
    assert names[0] in report.problems[0]
    assert backups(place.folder) == backups(place.files) == set(names[1:])
    assert (place.files / f"{names[0]}.damaged").exists()
    assert (await place.sync()).problems == ()


async def test_an_archive_of_the_same_name_and_other_content_is_not_replaced(place: Place) -> None:
    name = add_backup(place.folder, 0)
    add_backup(place.files, 0, size=100)

    report = await place.sync()

    assert "another archive" in report.problems[0]
    assert (place.folder / name).stat().st_size == 3000
    assert (place.files / name).stat().st_size == 100


@pytest.mark.parametrize("dry_run", [False, True])
async def test_two_data_folders_in_one_remote_harm_each_other_not(
    each_place: Place, tmp_path: Path, dry_run: bool
) -> None:
    mine = {add_backup(each_place.folder, days) for days in (0, 1)}
    claim_folder(each_place.folder, 1)
    await each_place.sync(keep=2)
    other = replace(each_place, folder=tmp_path / "other")
    theirs = {add_backup(other.folder, days) for days in (0.5, 2, 3)}
    claim_folder(other.folder, 2)

    with pytest.raises(RemoteError, match=r"another log \(1, that of .*/other is 2\).* of its own"):
        await other.sync(keep=2, dry_run=dry_run)

    assert backups(other.folder) == theirs
    assert backups(each_place.files) == backups(each_place.folder) == mine


async def test_a_folder_that_was_lost_belongs_to_the_log_of_its_remote(place: Place) -> None:
    add_backup(place.folder, 0)
    claim_folder(place.folder, 0xC0FFEE)
    await place.sync()
    shutil.rmtree(place.folder)

    await place.sync()

    claim_folder(place.folder, 0xC0FFEE)
    with pytest.raises(ConfigError, match=r"another log .c0ffee, this is 1"):
        claim_folder(place.folder, 1)


async def test_a_dry_run_changes_nothing(place: Place) -> None:
    names = [add_backup(place.folder, days) for days in (0, 0.2, 1)]
    other = add_backup(place.files, 2)

    report = await place.sync(keep=3, dry_run=True)

    assert set(report.pushed) == {names[0], names[2]}
    assert report.pulled == (other,)
    assert report.deleted == (names[1],)
    assert backups(place.folder) == set(names)
    assert backups(place.files) == {other}
    assert not (place.folder / local_folder.STAGING).exists()


async def test_a_killed_rclone_leaves_nothing_that_looks_like_a_backup(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RCLONE_BWLIMIT", "1M")
    name = add_backup(place.folder, 0, size=8_000_000)
    task = asyncio.create_task(place.sync())
    await _begun(place, task)
    [child] = _children()

    os.kill(child, signal.SIGKILL)
    report = await task

    assert "Nothing more was copied" in report.problems[0]
    assert any(isinstance(fact, SyncFailed) for fact in place.facts)
    assert backups(place.files) == set()
    monkeypatch.delenv("RCLONE_BWLIMIT")
    assert (await place.sync()).pushed == (name,)
    assert whole_backups(place.files) == {name}


async def test_a_cancelled_sync_ends_rclone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RCLONE_BWLIMIT", "1M")
    add_backup(place.folder, 0, size=8_000_000)
    task = asyncio.create_task(place.sync())
    await _begun(place, task)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not _children()


async def test_an_rclone_without_progress_is_killed(place: Place, tmp_path: Path) -> None:
    program = _program(tmp_path, 'case "$1" in copyto) sleep 1000;; *) exec "$REAL" "$@";; esac')
    name = add_backup(place.folder, 0)

    # The real rclone has its time: on a busy machine it takes a second to tell its version.
    report = await place.sync(program=program, stall_s=6.0)

    assert "no progress for 6 s" in report.problems[0]
    assert not _children()
    assert (await place.sync()).pushed == (name,)


async def test_an_rclone_that_repeats_itself_makes_no_progress(tmp_path: Path) -> None:
    line = '{"level":"notice","msg":"0 B/s","stats":{"bytes":7,"transfers":0}}'
    said = _program(tmp_path, f"while echo '{line}' >&2; do sleep 0.05; done")
    clock = SystemClock()

    with pytest.raises(RemoteStalled):
        await asyncio.wait_for(Rclone(said, clock, 0.5).run("copyto"), PATIENCE_S)


async def test_a_slow_rclone_is_waited_for(tmp_path: Path) -> None:
    line = '{"level":"notice","msg":"","stats":{"bytes":\'$n\'}}'
    slow = _program(
        tmp_path, f"for n in 1 2 3 4 5 6 7; do echo '{line}' >&2; sleep 0.2; done; echo done"
    )

    assert await Rclone(slow, SystemClock(), 0.7).run("copyto") == b"done\n"


async def test_an_upload_that_differs_is_no_backup(place: Place, tmp_path: Path) -> None:
    lose = '*.gz) shift $(($# - 1)); head -c 2999 /dev/zero > "$1";;'
    program = _program(
        tmp_path,
        f'case "$1 $*" in copyto*) mkdir -p {place.files}; case "$*" in {lose} esac;;'
        ' *) exec "$REAL" "$@";; esac',
    )
    add_backup(place.folder, 0)

    report = await place.sync(program=program)

    assert "differs from its original" in report.problems[0]
    assert backups(place.files) == set()


async def test_one_sync_at_a_time(place: Place) -> None:
    add_backup(place.folder, 0)

    with local_folder.staging(place.folder), pytest.raises(SyncRunning):
        await place.sync()


async def test_clear_words_for_what_cannot_work(place: Place, tmp_path: Path) -> None:
    add_backup(place.folder, 0)
    old = _program(tmp_path, "echo rclone v1.53.3")
    for program, words in (("no-such-rclone", "no such program"), (old, "v1.53.3 is too old")):
        with pytest.raises(RcloneMissing, match=words):
            await place.sync(program=program)
    with pytest.raises(RcloneMissing, match="does not answer like rclone"):
        await place.sync(program="true")
    place.remote = "nowhere:penstock"
    with pytest.raises(RemoteError, match=r"nowhere.*Check backup\.remote"):
        await place.sync()
    assert isinstance(place.facts[-1], SyncFailed)


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        ("", "is empty"),
        ("-Pv:x", "begins with '-'"),
        ("--config=/tmp/x", "begins with '-'"),
        ("penstock", "neither NAME:FOLDER"),
        ("s3:bucket\n", "spaces"),
        ("s3,secret_access_key=canary:bucket", "parameters"),
        (":s3,secret_access_key=canary:bucket", "parameters"),
        ("/data/backups", "overlaps"),
        ("/data", "overlaps"),
        ("/data/backups/remote", "overlaps"),
        ("/data/x/../backups", "overlaps"),
    ],
)
def test_a_remote_that_is_none_is_refused(remote: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        check_remote(remote, Path("/data/backups"))
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("remote", ["s3:bucket/a,b", "/data/copies", ":sftp:x", "crypt:"])
def test_remotes_are_named_as_rclone_does(remote: str) -> None:
    assert check_remote(remote, Path("/data/backups")) == remote


async def test_secrets_of_rclone_appear_in_no_error(tmp_path: Path) -> None:
    said = "bad key canary-1 at https://me:canary-2@host/x?X-Amz-Signature=canary-3 now"
    program = _program(tmp_path, f"echo '{said}' >&2; exit 1")
    rclone = Rclone(program, SystemClock(), 60, secrets=["canary-1", ""])

    with pytest.raises(PenstockError) as failed:
        await rclone.run("lsjson", "--", "s3:x")

    assert "canary" not in str(failed.value)
    assert "bad key ***" in str(failed.value)


async def test_the_only_rehearsed_backup_stays(place: Place) -> None:
    names = [add_backup(place.folder, days) for days in (0, 1, 2)]
    digest = (place.folder / digest_name(names[2])).read_text().split()[0]
    write_rehearsal(place.folder / names[2], Rehearsal(at="", digest=digest, verified=True))

    report = await place.sync(keep=2)

    assert report.pushed == (names[0], names[2])
    assert backups(place.files) == backups(place.folder) == {names[0], names[2]}


async def test_facts_name_what_was_copied_and_deleted(place: Place) -> None:
    names = [add_backup(place.folder, days) for days in (0, 1)]

    await place.sync(keep=1)

    pushed = [fact.name for fact in place.facts if isinstance(fact, BackupPushed)]
    deleted = [(f.name, f.where) for f in place.facts if isinstance(f, CopyDeleted)]
    assert (pushed, deleted) == ([names[0]], [(names[1], "local")])


async def _begun(place: Place, task: "asyncio.Task[SyncReport]") -> None:
    """Wait until rclone has begun to write."""
    while not list(place.files.glob("*")):
        assert not task.done()
        await asyncio.sleep(0.02)


def _program(folder: Path, script: str) -> str:
    path = folder / "rclone-stand-in"
    path.write_text(f"#!/bin/sh\nREAL={servers.rclone_program()}\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _children() -> list[int]:
    """The copying rclones of this process; there may be one that serves an object store too."""
    pid = os.getpid()
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [
        int(child)
        for child in text.split()
        if b"copyto" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_a_file_system_without_links_is_staged_by_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", link)
    (tmp_path / "a").write_bytes(b"archive")

    local_folder.stage(tmp_path / "a", tmp_path / "b")

    assert (tmp_path / "b").read_bytes() == b"archive"


async def test_a_backup_that_is_deleted_here_meanwhile_is_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [add_backup(place.folder, days) for days in (0, 1)]
    listed = RemoteFolder.list

    async def delete_then_list(folder: RemoteFolder) -> Listing:
        local_folder.delete(place.folder, names[1])
        return await listed(folder)

    monkeypatch.setattr(RemoteFolder, "list", delete_then_list)

    report = await place.sync()

    assert (report.pushed, report.problems) == ((names[0],), ())
    assert backups(place.files) == {names[0]}
