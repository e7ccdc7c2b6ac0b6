"""Readers change nothing: a data folder of another user, which cannot be written, can be read."""

import asyncio
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.events import trade

from penstock.collect.status import CollectorStatus, write_status
from penstock.connectors import ConnectorManager
from penstock.coverage.stored import IdsStatus
from penstock.storage.log import LogWriter, open_log
from penstock.storage.state import StateStore, open_store

NOBODY = 65534
_PR_CAPBSET_DROP = 24
# CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH and FOWNER: what lets root pass over permissions.
_CAPABILITIES = range(4)

READ = """
import sys
from penstock.cli import app
folder = sys.argv[1]
for words in sys.stdin.read().splitlines():
    print("$", words, flush=True)
    app([*words.split(), "--data-dir", folder], standalone_mode=False)
"""
COMMANDS = """\
log scan toy.trades.btc_usdt
log tail toy.trades.btc_usdt -n 1
log stats
status --json
gaps
coverage
jobs list
connectors list --json
connectors show binance --json
"""


def lose_privileges() -> None:
    """From the next program on, root is a user like any other."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in _CAPABILITIES:
            assert libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


async def filled_store(folder: Path) -> StateStore:
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    await ConnectorManager(store).ensure_connector("binance", notes="here")
    return store


def filled_log(folder: Path) -> LogWriter:
    writer = open_log(f"rocksdb:{folder}").writer("collect-toy")
    writer.append([trade(number) for number in (1, 2, 5)])
    ids = IdsStatus(channel="trades", symbol="btc_usdt", seen=[(1, 2), (5, 5)], missing=[(3, 4)])
    status = CollectorStatus(
        exchange="toy", slot="collect-toy", pid=1, started_ms=0, at_ms=0, state="stopped", ids=[ids]
    )
    write_status(folder, status)
    return writer


def files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything there is, but for what is in files that a running owner changes by itself."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        stat = path.stat()
        own = path.name == "LOG" or path.name.endswith("-shm")
        size, changed = (0, 0) if own else (stat.st_size, stat.st_mtime_ns)
        found[str(path.relative_to(folder))] = (stat.st_mode, size, changed)
    return found


def lock(folder: Path, *, locked: bool = True) -> None:
    for path in [folder, *folder.rglob("*")]:
        if os.geteuid() == 0:
            os.chown(path, NOBODY if locked else 0, -1)
        mode = path.stat().st_mode
        path.chmod(mode & ~0o222 if locked else mode | 0o200)


def read(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", READ, str(folder)],
        cwd=folder.parent, env={**os.environ, "COLUMNS": "160"}, input=COMMANDS,
        preexec_fn=lose_privileges, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    lock(folder, locked=False)


def check_that_all_is_read(folder: Path) -> None:
    lock(folder)
    before = files(folder)

    done = read(folder)

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line.startswith("$")] == [
        f"$ {words}" for words in COMMANDS.splitlines()
    ]
    assert '"id":5' in done.stdout
    assert '"slot":"collect-toy"' in done.stdout
    assert '"notes":"here"' in done.stdout
    assert files(folder) == before


def test_a_folder_that_nobody_writes_to_any_more(folder: Path) -> None:
    filled_log(folder).close()
    asyncio.run(_closed(folder))

    check_that_all_is_read(folder)


async def _closed(folder: Path) -> None:
    store = await filled_store(folder)
    await store.close()


@pytest.mark.parametrize("index", [True, False], ids=["whole", "without SQLite's index"])
def test_a_folder_that_is_being_written(folder: Path, index: bool) -> None:
    async def do() -> None:
        store = await filled_store(folder)
        try:
            assert (folder / "state.db-wal").stat().st_size, "what is read is in the log alone"
            if not index:  # as in a copy of the folder
                (folder / "state.db-shm").unlink()
            await asyncio.to_thread(check_that_all_is_read, folder)
        finally:
            lock(folder, locked=False)
            await store.close()

    with closing(filled_log(folder)):
        asyncio.run(do())


def test_reading_where_there_is_nothing_makes_nothing(tmp_path: Path) -> None:
    commands = "status\nlog stats\njobs list\nconnectors list\n"
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "absent")],
        cwd=tmp_path, input=commands, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
    assert "There are no connectors." in done.stdout
    assert list(tmp_path.iterdir()) == []
