"""Small files: a power cut at any moment leaves the old one or the new one, and never neither."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests import tracing

from penstock.backup.folder import locked_alone
from penstock.errors import StorageError
from penstock.files import create_file, locked_at_once, make_folder, replace_file
from penstock.supervisor.lock import only_supervisor

WRITES_ALL = """
import sys
from pathlib import Path
from penstock.collect.status import CollectorStatus, write_status
from penstock.publish.keys import make_keys
from penstock.publish.endpoints import log_id
from penstock.storage.log import open_log

folder = Path(sys.argv[1])
for second in range(3):
    write_status(folder, CollectorStatus(
        exchange="toy", slot="a", pid=1, started_ms=0, at_ms=second, state="running"))
log_id(folder)
(folder / "bus" / "log.id").write_text("torn")
log_id(folder)
make_keys(folder / "keys", "own")
open_log(f"rocksdb:{folder}").writer("a").close()
"""
SMALL = ("a.json", "log.id", "own.secret", "own.public", "a.owner")


@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
def test_every_small_file_is_synced_before_it_has_its_name_and_the_name_after(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-c", WRITES_ALL, str(tmp_path / "data")]
    calls = tracing.watched(tmp_path / "trace", words, dict(os.environ))

    opened: dict[int, str] = {}
    unsynced: set[str] = set()
    unnamed: dict[str, str] = {}
    """Files that have a new name which is not synced yet, by folder."""
    named: list[str] = []
    for call in calls:
        match call.name:
            case "openat":
                opened[call.result] = tracing.texts(call)[0].decode()
            case "write" | "pwrite64" | "ftruncate":
                unsynced.add(opened.get(tracing.descriptor(call), ""))
            case "fsync" | "fdatasync":
                path = opened[tracing.descriptor(call)]
                unsynced.discard(path)
                unnamed = {name: folder for name, folder in unnamed.items() if folder != path}
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                source, target = (text.decode() for text in tracing.texts(call))
                if Path(target).name in SMALL:
                    assert source not in unsynced, f"{target} has its name before its data"
                    assert target not in unnamed, f"{target} is replaced before it is durable"
                    named.append(Path(target).name)
                    unnamed[target] = str(Path(target).parent)
            case _:
                pass
    assert unnamed == {}, "a name is not synced"
    assert set(named) == set(SMALL), "all of them were watched"


def test_what_is_replaced_is_as_it_was_if_that_fails(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", b"old")
    (tmp_path / f".a.{os.getpid()}").mkdir()

    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_that_is_there_is_not_created_again(tmp_path: Path) -> None:
    create_file(tmp_path / "a", b"first", 0o600)

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second", 0o600)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [file.name for file in tmp_path.iterdir()] == ["a"], "and nothing is left behind"


def test_two_that_begin_at_once_agree_on_the_name_of_their_log(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus" / "log.id").write_text("")
    asks = "import sys; from pathlib import Path; from penstock.publish.endpoints import log_id;"
    words = [sys.executable, "-c", f"{asks} print(log_id(Path(sys.argv[1])))", str(tmp_path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]

    answers = {process.communicate()[0] for process in both}
    assert len(answers) == 1


def test_folders_are_made_down_to_the_last(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("create", [False, True])
def test_a_lock_has_one_holder(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "lock" if create else tmp_path
    with (
        locked_at_once(path, create=create),
        pytest.raises(BlockingIOError),
        locked_at_once(path, create=create),
    ):
        pytest.fail("two hold it")
    with locked_at_once(path, create=create):
        pass


@pytest.mark.parametrize("lock", [locked_alone, only_supervisor])
def test_a_file_system_without_locks_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lock: Callable[[Path], AbstractContextManager[None]],
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(StorageError, match="No locks available"), lock(tmp_path):
        pytest.fail("it is not locked")
