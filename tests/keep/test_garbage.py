"""What killed processes left is removed, and nothing that anything uses."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.backup.folders import add_backup
from tests.cli.conftest import invoke
from tests.keep.conftest import SLOT, World, trades

from penstock.app.garbage import Removal, collect_garbage
from penstock.backup.folder import locked_alone
from penstock.backup.local_folder import staging
from penstock.clock import SystemClock
from penstock.config import Backup, Collect, Settings
from penstock.market.channels import TRADES
from penstock.storage.log import open_log

NOBODY = 2**22 + 1
"""More than any process id may be."""


HOLDER = """
import sys
from pathlib import Path
from penstock.backup.folder import locked_alone
from penstock.storage.log.rocksdb import held
data = Path(sys.argv[1])
with held(data / "log", sys.argv[2]), locked_alone(data / "checkpoints"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "log" / SLOT).mkdir(parents=True)
    return tmp_path / "data"


def left(path: Path, size: int = 10_000, hours: float = 2) -> Path:
    """A file that was written some hours ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = path.stat().st_mtime - hours * 3600
    os.utime(path, (at, at))
    os.utime(path.parent, (at, at))
    return path


def collect(data: Path, *, dry_run: bool = False, damaged: bool = False) -> list[Removal]:
    settings = Settings(
        collect=Collect(data_dir=str(data)), backup=Backup(folder=str(data.parent / "backups"))
    )
    return list(collect_garbage(settings, SystemClock(), dry_run=dry_run, damaged=damaged))


@contextmanager
def _holding(data: Path) -> Iterator[None]:
    """Another process uses the slot and the checkpoints: locks of slots are per process."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data), SLOT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()


def test_leftovers_are_listed_and_then_removed(data: Path, temporary_folder: Path) -> None:
    backups = data.parent / "backups"
    kept = add_backup(backups, 1)
    garbage = [
        left(data / f".log-id.{NOBODY}"),
        left(data / "log" / f".{SLOT}.owner.{NOBODY}"),
        left(data / "log" / f"{SLOT}.repairing" / "000001.sst"),
        left(data / "checkpoints" / "20250101T000000" / "log" / SLOT / "000001.sst"),
        left(backups / f".partial-{NOBODY}-{kept}"),
        left(backups / ".rehearsal" / "state.db"),
        left(backups / ".restoring-.rehearsal-1" / "state.db"),
        left(backups / f".{kept}.sha256.{NOBODY}"),
        left(backups / ".sync" / "tmpabc" / kept),
        left(backups / "storage-2020-01-01T00-00-00-000.tar.gz.sha256"),
        left(temporary_folder / "penstock-reader-abc" / SLOT),
    ]
    used = [
        left(data / f"log/{SLOT}/000002.sst"),
        left(data / "state.db"),
        left(backups / "notes.rehearsal" / "mine"),
        backups / kept,
    ]

    listed = collect(data, dry_run=True)

    assert len(listed) == len(garbage)
    assert all(each.size_bytes >= 10_000 and not each.problem for each in listed)
    assert all(path.exists() for path in garbage)
    assert collect(data) == listed
    assert not any(path.exists() for path in garbage)
    assert all(path.exists() for path in used)
    assert collect(data) == []


def test_what_a_running_process_uses_is_left_alone(data: Path, temporary_folder: Path) -> None:
    backups = data.parent / "backups"
    young = left(data / f".young.{NOBODY}", hours=0.1)
    own = left(data / f".mine.{os.getpid()}")
    repair = left(data / "log" / f"{SLOT}.repairing" / "000001.sst")
    checkpoint = left(data / "checkpoints" / "now" / "000001.sst")
    partial = left(backups / f".partial-{NOBODY}-x")
    reader = left(temporary_folder / "penstock-reader-abc" / SLOT)
    with _holding(data), locked_alone(backups), staging(backups) as copying, reader.open():
        staged = left(copying / "x")
        assert collect(data) == []

    for path in (young, own, repair, checkpoint, partial, reader):
        assert path.exists(), path
    assert not staged.exists(), "the sync removes its own"


def test_damaged_slots_are_removed_only_if_asked_for(data: Path) -> None:
    aside = left(data / "log" / f"{SLOT}.damaged-20250101T000000Z" / "000001.sst")

    assert collect(data) == []
    assert aside.exists()
    assert [each.kind for each in collect(data, damaged=True)] == ["damaged slot"]
    assert not aside.exists()


def test_the_space_of_files_with_another_name_is_not_counted(data: Path) -> None:
    table = left(data / "log" / SLOT / "000001.sst")
    link = data / "checkpoints" / "old" / "000001.sst"
    link.parent.mkdir(parents=True)
    os.link(table, link)

    [found] = collect(data)

    assert (found.size_bytes, found.files) == (0, 1)
    assert table.exists()


async def test_unused_files_of_the_lake_are_removed(world: World) -> None:
    world.append(trades(1, 50))
    await world.keeper().run_once()
    unused = left(world.folder / "lake" / "trades" / "left.parquet", hours=24 * 8)
    left(world.folder / "lake" / "trades" / "young.parquet")

    listed = collect(world.folder, dry_run=True)
    assert [(each.kind, each.files) for each in listed] == [("lake", 1)]
    assert listed[0].size_bytes >= 10_000
    assert collect(world.folder) == listed

    assert not unused.exists()
    assert len(world.in_lake(TRADES)) == 50
    assert collect(world.folder) == []


def test_the_command_prints_sizes(data: Path) -> None:
    left(data / f".log-id.{NOBODY}", size=2_000_000)

    listed = invoke("gc", "--dry-run", "--data-dir", str(data))
    assert listed.returncode == 0
    assert "2.0 MB can be removed." in listed.stdout

    [line] = invoke("gc", "--json", "--data-dir", str(data)).stdout.splitlines()
    assert json.loads(line)["kind"] == "temporary file"
    assert "0.0 MB were removed." in invoke("gc", "--data-dir", str(data)).stdout


def test_a_reader_without_a_slot_yet_survives(data: Path, temporary_folder: Path) -> None:
    log = open_log(f"rocksdb:{data}")
    with closing(log.reader()) as reader:
        assert reader.stats() == []
        [folder] = temporary_folder.iterdir()
        os.utime(folder, (0, 0))
        assert [each.kind for each in collect(data)] == ["reader"]
        with closing(log.writer("collect-first")) as writer:
            writer.append(trades(1, 2))

        assert [slot.slot for slot in reader.stats()] == ["collect-first"]

    assert list(temporary_folder.iterdir()) == []


def test_log_lines_are_removed_when_their_process_has_not_written_for_long(data: Path) -> None:
    days = 24.0
    old = [
        left(data / "logs" / "a.jsonl", hours=15 * days),
        left(data / "logs" / "a.jsonl.1", hours=16 * days),
    ]
    kept = [
        left(data / "logs" / "b.jsonl", hours=13 * days),
        left(data / "logs" / "notes", hours=90 * days),
    ]
    settings = Settings(collect=Collect(data_dir=str(data)))

    found = [each for each in collect_garbage(settings, SystemClock()) if each.kind == "log"]
    assert [Path(each.path) for each in found] == old
    assert [path for path in (*old, *kept) if path.exists()] == kept
