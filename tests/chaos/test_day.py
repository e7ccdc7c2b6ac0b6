"""A day of 20 markets goes through log and lake in little memory, and the log stays small.

One process records the day much faster than it passed, another seals it and has it deleted from the
log above its maximum size. Meanwhile the size of the log and the memory of both are read. At the
end the dataset has every record. ``make chaos-day`` does it for 24 hours; the sample is shorter.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import polars as pl
from tests.chaos import day_writer
from tests.forked import command, python
from tests.waiting import PATIENCE_S

import penstock

HOURS = float(os.environ.get("PENSTOCK_TEST_HOURS") or 2)
RATE = 10_000
LOG_MAX_BYTES = 50_000_000
SEAL_S = 5
# A process deletes every 20 seconds, and what the keeper had found by then: meanwhile records of
# about 250 bytes each arrive, hundreds of times faster than an exchange sends them.
OVERSHOOT_BYTES = (20 + 2 * SEAL_S + 10) * RATE * 250
PAGE = os.sysconf("SC_PAGE_SIZE")


class Samples:
    """Bytes of the log and of two processes, read again and again."""

    def __init__(self, folder: Path, writer: int, keeper: int) -> None:
        self._folder, self._pids = folder / "log", (writer, keeper)
        self.log: list[int] = []
        self.resident: list[tuple[int, int]] = []

    def read(self) -> None:
        self.log.append(_size(self._folder))
        writer, keeper = (
            int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in self._pids
        )
        self.resident.append((writer, keeper))

    def grown(self, which: int) -> float:
        """The memory of the last quarter relative to that of the second quarter."""
        values = [each[which] for each in self.resident]
        quarter = max(1, len(values) // 4)
        return median(values[-quarter:]) / median(values[quarter : 2 * quarter])


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return total


@contextmanager
def processes(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", Samples]]:
    words = [str(folder), str(HOURS), str(RATE)]
    environment = {
        **os.environ,
        "PENSTOCK_STORAGE_LOG_MAX_BYTES": str(LOG_MAX_BYTES),
        "PENSTOCK_KEEP_SEAL_EVERY": str(SEAL_S),
        "PENSTOCK_KEEP_SETTLE": "2",
    }
    writer = python(str(Path(day_writer.__file__)), *words, forked=False, stdout=subprocess.PIPE)
    keep = ["keep", "--data-dir", str(folder)]
    keeper = command(keep, forked=False, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield writer, Samples(folder, writer.pid, keeper.pid)
    finally:
        for process in (writer, keeper):
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


async def test_a_day_of_twenty_markets_stays_within_its_bounds(tmp_path: Path) -> None:
    with processes(tmp_path) as (writer, samples):
        assert writer.stdout is not None
        counted = asyncio.create_task(asyncio.to_thread(writer.stdout.readline))
        while not counted.done():
            samples.read()
            await asyncio.sleep(0.5)
        records = int(counted.result())
        async with asyncio.timeout(PATIENCE_S):
            while _size(tmp_path / "log") > LOG_MAX_BYTES:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    data = penstock.open(tmp_path)
    # Books have no ledger of ids, so for them it is unknown whether any are missing.
    views = (data.trades(on_gap="raise"), data.books(on_gap="ignore"))
    trades, deltas = (view.lazy().select(pl.len()).collect().item() for view in views)
    writer_grown, keeper_grown = samples.grown(0), samples.grown(1)
    writer_mb, keeper_mb = (max(each[n] for each in samples.resident) / 1e6 for n in (0, 1))
    print(
        f"\n{records:,} records; log at most {max(samples.log) / 1e6:.0f} MB of"
        f" {LOG_MAX_BYTES / 1e6:.0f}; memory {writer_mb:.0f} MB (× {writer_grown:.2f}) and"
        f" {keeper_mb:.0f} MB (× {keeper_grown:.2f})"
    )

    assert (trades, deltas) == (records // 3, records - records // 3)
    assert max(samples.log) <= LOG_MAX_BYTES + OVERSHOOT_BYTES
    assert max(writer_grown, keeper_grown) <= 1.25
