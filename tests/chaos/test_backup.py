"""Backups of a store that is written at 5,000 messages a second.

The rate stays within 5 % while backups are made one after the other, and a keeper seals. Each copy
equals what was copied byte for byte and passes ``penstock verify``. A backup that is killed at any
moment leaves nothing that looks like a backup, and the writer does not notice. A flipped byte and a
truncated archive are found. ``make chaos-backup`` takes longer and kills more; ``SEED=…`` repeats.
"""

import asyncio
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.backup.archives import sign
from tests.backup.test_archive import tree
from tests.chaos import backup_writer
from tests.forked import command, python
from tests.waiting import PATIENCE_S

import penstock
from penstock.backup.folder import list_backups
from penstock.backup.reading import check_archive
from penstock.backup.restore import restore
from penstock.backup.run import make_backup
from penstock.backup.snapshot import Snapshot
from penstock.clock import SystemClock
from penstock.config import Backup, Collect, Settings
from penstock.errors import BadBackup

RATE = 5_000
SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 8)
ROUNDS = 2
LONGEST_S = 5 * PATIENCE_S
"""Of a backup: it gives way to all other processes of a busy machine."""
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS") or 2)
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or 1)


class Writer:
    """A process that records, and how much it has recorded."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._told: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._told.append((time.monotonic(), int(line)))

    def close(self) -> None:
        """Wait until all is read, once the process has ended."""
        self._thread.join(PATIENCE_S)

    @property
    def count(self) -> int:
        return self._told[-1][1] if self._told else 0

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.count < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def rate(self, since: float, until: float) -> float:
        """Messages a second between two moments."""
        told = [each for each in self._told if since <= each[0] <= until]
        (first_s, first), (last_s, last) = told[0], told[-1]
        return (last - first) / (last_s - first_s)


@contextmanager
def running(folder: Path) -> Iterator[Writer]:
    """A writer and a keeper, which are killed at the end."""
    environment = {**os.environ, "PENSTOCK_KEEP_SEAL_EVERY": "3", "PENSTOCK_KEEP_SETTLE": "2"}
    keep = ["keep", "--data-dir", str(folder)]
    script = str(Path(backup_writer.__file__))
    pipe = subprocess.PIPE
    writer = python(script, str(folder), str(RATE), forked=False, stdout=pipe)
    keeper = command(keep, forked=False, env=environment, stdout=-3, stderr=-3)
    told = Writer(writer)
    try:
        yield told
        assert writer.poll() is None, "the writer ended"
        assert keeper.poll() is None, "the keeper ended"
    finally:
        for process in (writer, keeper):
            process.kill()
            process.wait(PATIENCE_S)
        told.close()


def backup(data: Path, backups: Path, *words: str) -> "subprocess.Popen[str]":
    words = ("backup", "run", "--data-dir", str(data), "--folder", str(backups), *words)
    return command(words, forked=False, stdout=-3, stderr=-3)


async def ended(process: "subprocess.Popen[str]") -> int:
    return await asyncio.to_thread(process.wait, LONGEST_S)


def assert_complete(folder: Path) -> None:
    """Everything that looks like a backup is one."""
    for each in list_backups(folder):
        check_archive(folder / each.name)


def assert_no_leftovers(data: Path, backups: Path) -> None:
    assert list((data / "checkpoints").iterdir()) == []
    assert not [path for path in backups.iterdir() if path.name.startswith(".")]


async def test_backups_of_a_store_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, backups = tmp_path / "data", tmp_path / "backups"
    with running(data) as writer:
        await writer.until(4 * RATE)
        await _measure(writer, data, backups)
        await _compare(data, backups, tmp_path / "restored", monkeypatch)
    _damage(backups, random.Random(SEED))


async def _measure(writer: Writer, data: Path, backups: Path) -> None:
    rates: dict[str, list[float]] = {"without": [], "during": []}
    made = 0
    for _ in range(ROUNDS):
        for what, found in rates.items():
            began = time.monotonic()
            while time.monotonic() < began + SECONDS / ROUNDS:
                if what == "without":
                    await asyncio.sleep(0.5)
                else:
                    assert await ended(backup(data, backups, "--no-rehearse")) == 0
                    made += 1
            found.append(writer.rate(began, time.monotonic()))
    without, during = (sum(found) / ROUNDS for found in rates.values())
    print(f"\n{without:,.0f} messages/s, during {made} backups {during:,.0f}/s")
    assert during >= 0.95 * without
    assert_complete(backups)


async def _compare(
    data: Path, backups: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restored copy is what was copied, and it is complete."""
    copied: list[dict[str, bytes]] = []
    remove = Snapshot.remove

    def keep_and_remove(taken: Snapshot) -> None:
        copied.append(tree(taken.folder))
        remove(taken)

    monkeypatch.setattr(Snapshot, "remove", keep_and_remove)
    settings = Settings(collect=Collect(data_dir=str(data)), backup=Backup(folder=str(backups)))
    made = await make_backup(settings, SystemClock())
    await asyncio.to_thread(restore, made.written.path, restored)

    assert [tree(restored)] == copied
    assert made.rehearsal is not None
    assert made.rehearsal.verified, made.rehearsal.findings
    found = await asyncio.to_thread(penstock.open(restored).verify)
    assert found.clean, found.findings
    assert found.compared["ids"] > 0
    print(f"verified: {dict(found.compared)}")


def _damage(backups: Path, chance: random.Random) -> None:
    archive = backups / list_backups(backups)[-1].name
    good = archive.read_bytes()
    for _ in range(5):
        place = chance.randrange(len(good))
        archive.write_bytes(good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :])
        with pytest.raises(BadBackup):
            check_archive(archive)
        archive.write_bytes(good[:place])
        sign(archive)  # a digest of the part alone does not make it a backup
        with pytest.raises(BadBackup):
            check_archive(archive)


async def test_killed_backups(tmp_path: Path) -> None:
    data, backups, chance = tmp_path / "data", tmp_path / "backups", random.Random(SEED)
    with running(data) as writer:
        await writer.until(4 * RATE)
        began = time.monotonic()
        assert await ended(backup(data, backups)) == 0
        longest = time.monotonic() - began
        for _ in range(KILLS):
            before, process = writer.count, backup(data, backups)
            await asyncio.sleep(chance.uniform(0.2, 1) * longest)
            process.send_signal(signal.SIGKILL)
            await ended(process)
            assert_complete(backups)
            await writer.until(before + 1)
        # Not restored: by now the store may hold millions of records.
        assert await ended(backup(data, backups, "--no-rehearse")) == 0
        assert_no_leftovers(data, backups)
    print(f"{KILLS} backups killed within {longest:.1f} s each")
