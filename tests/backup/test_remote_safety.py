"""Whatever fails in a sync, no side loses its last verified backup, and retries complete it."""

import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backup.folders import NOW, add_backup, flip_byte, whole_backups

from penstock.backup.local_folder import hash_file
from penstock.backup.model import digest_name, read_digest
from penstock.backup.rclone import Rclone
from penstock.backup.remote import RemoteSync, SyncReport
from penstock.backup.remote_folder import Listing, RemoteFile, RemoteFolder
from penstock.clock import ManualClock
from penstock.errors import RemoteError


class FolderAsRemote(RemoteFolder):
    """A remote in a folder, without rclone, that fails from the n-th operation on."""

    def __init__(self, files: Path, hash_kind: str | None, works: int) -> None:
        super().__init__(Rclone("none", ManualClock(), 1), str(files))
        self._files, self.hash_kind, self._works = files, hash_kind, works
        files.mkdir(exist_ok=True)

    def _step(self) -> None:
        self._works -= 1
        if self._works < 0:
            raise RemoteError(self.remote, "it broke")

    async def open(self) -> None:
        self._step()

    async def list(self) -> Listing:
        self._step()
        return Listing(
            {p.name: RemoteFile(p.name, p.stat().st_size, NOW) for p in self._files.iterdir()}
        )

    async def digest(self, name: str) -> str | None:
        self._step()
        return read_digest((self._files / digest_name(name)).read_text(), name)

    async def hash(self, kind: str, name: str, size: int, *, download: bool = False) -> str:
        self._step()
        return hash_file(self._files / name, (kind,))[1][0]

    async def upload(self, source: Path, name: str) -> None:
        self._step()
        shutil.copyfile(source, self._files / name)

    async def download(self, name: str, target: Path) -> None:
        self._step()
        shutil.copyfile(self._files / name, target)

    async def set_aside(self, name: str) -> None:
        self._step()
        (self._files / name).rename(self._files / f"{name}.damaged")

    async def delete(self, name: str) -> None:
        self._step()
        (self._files / name).unlink(missing_ok=True)


AGES = st.sets(st.sampled_from([-0.5, 0, 0.1, 0.6, 1, 1.2, 2, 3, 4]), max_size=5)


@settings(max_examples=30, deadline=None)
@given(
    here=AGES,
    there=AGES,
    damaged=st.sets(st.integers(0, 9), max_size=3),
    hash_kind=st.sampled_from(["sha256", "md5", None]),
    keep=st.integers(1, 4),
    works=st.integers(0, 40),
)
async def test_no_side_loses_its_last_verified_backup(
    here: set[float],
    there: set[float],
    damaged: set[int],
    hash_kind: str | None,
    keep: int,
    works: int,
) -> None:
    with TemporaryDirectory() as root_mine, TemporaryDirectory() as root_theirs:
        mine, theirs = Path(root_mine), Path(root_theirs)
        paths = [mine / add_backup(mine, age, 50) for age in here]
        paths += [theirs / add_backup(theirs, age, 50) for age in there]
        for index in damaged & set(range(len(paths))):
            flip_byte(paths[index])
        before = whole_backups(mine), whole_backups(theirs)

        with suppress(RemoteError):
            await _sync(mine, FolderAsRemote(theirs, hash_kind, works), keep)

        after = whole_backups(mine), whole_backups(theirs)
        assert bool(after[0]) >= bool(before[0])
        assert bool(after[1]) >= bool(before[1])

        await _sync(mine, FolderAsRemote(theirs, hash_kind, 10**9), keep)
        report = await _sync(mine, FolderAsRemote(theirs, hash_kind, 10**9), keep)
        newest = max(before[0] | before[1], default=None)
        # Without digests, a remote copy with the right size is only compared before a deletion.
        if newest is not None and (hash_kind is not None or not damaged):
            assert newest in whole_backups(mine) & whole_backups(theirs)
        assert (report.pushed, report.pulled) == ((), ())
        assert (report.deleted, report.deleted_remote) == ((), ())


async def test_without_digests_a_copy_is_read_before_others_are_deleted(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    newest = add_backup(mine, 0)
    add_backup(theirs, 0)
    add_backup(theirs, 1)
    flip_byte(theirs / newest)

    await _sync(mine, FolderAsRemote(theirs, None, 10**9), 1)

    assert whole_backups(mine) == whole_backups(theirs) == {newest}


async def _sync(folder: Path, remote: RemoteFolder, keep: int) -> SyncReport:
    clock = ManualClock(round(NOW.timestamp() * 1000))
    return await RemoteSync(folder, remote, keep, clock).run()
