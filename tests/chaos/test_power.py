"""After a power cut nothing claims data that is gone: no cursor, no status; and everything starts.

Everything that a worker and a collector ask of the disk is recorded, and what a cut would leave is
made from the beginning of that record. ``make chaos-power`` cuts the power of a real file system.
"""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from tests import tracing
from tests.chaos import power, replay
from tests.chaos.children import PENSTOCK
from tests.waiting import PATIENCE_S

from penstock.collect.status import read_status
from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, JobService, NewJob
from penstock.publish.endpoints import log_id
from penstock.storage.log import LogReader, Span, open_log
from penstock.storage.log.keys import Stream, key_of_id
from penstock.storage.state import open_store

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.randrange(1_000_000))
REPLAYED = 15
HOURS = 100
MINUTE_MS = power.MINUTE_MS


@contextmanager
def traced(folder: Path, address: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose every write is recorded; it is stopped in order."""
    data = folder / "data"
    environment = {
        **os.environ,
        "PENSTOCK_EXCHANGES_REST_URLS": f"{power.EXCHANGE}={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"{power.EXCHANGE}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(data),
    }
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            tracing.command(folder / "trace", [*PENSTOCK, *words]),
            env=environment, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (folder / "errors").read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline, "it never came so far"
        time.sleep(0.05)


async def create_job(database: Path) -> tuple[str, int]:
    """A backfill of some hours; its id, and where it begins."""
    store = await open_store(f"sqlite:{database}")
    until_ms = await store.now_ms() // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS
    since_ms = until_ms - HOURS * 60 * MINUTE_MS
    new = NewJob(
        exchange_id=power.EXCHANGE, type="ohlcv_backfill", symbol="BTC/USDT", timeframe="1m",
        cursor=Cursor(since_ms=since_ms, until_ms=until_ms),
    )  # fmt: skip
    job = await JobService(store, kinds()).create(new)
    await store.close()
    return job.id, since_ms


async def job_of(database: Path, job_id: str) -> tuple[str, int]:
    """A job's state and where its cursor stands; the database is left as it is."""
    store = await open_store(f"sqlite:{database}", read_only=True)
    try:
        job = await JobService(store, kinds()).get(job_id)
    finally:
        await store.close()
    return job.state, job.cursor.since_ms or 0


async def open_and_close(database: Path) -> None:
    await (await open_store(f"sqlite:{database}")).close()


def restart(folder: Path, slot: str) -> None:
    """Take the slot and the name of the log, as every start does."""
    with closing(open_log(f"rocksdb:{folder}").writer(slot)) as writer:
        writer.last_numbers()
    log_id(folder)


def candles(log: LogReader, since_ms: int, until_ms: int) -> int:
    span = Span(key_of_id(since_ms), key_of_id(until_ms))
    return len(set(log.keys_in(Stream(power.EXCHANGE, "candles_1m", "btc_usdt"), [span])))


@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
def test_whatever_a_cut_leaves_of_a_worker_no_cursor_is_ahead_of_its_candles(
    tmp_path: Path,
) -> None:
    data, chance = tmp_path / "data", Random(SEED)
    data.mkdir()
    job_id, since_ms = asyncio.run(create_job(data / "state.db"))
    before = replay.ReplayedDisk(data)
    with (
        power.simulator(SEED, tmp_path / "sim") as address,
        traced(tmp_path, address, "work") as process,
    ):
        wait_for(lambda: asyncio.run(job_of(data / "state.db", job_id))[0] == "success", process)

    calls, stood = tracing.read(tmp_path / "trace"), set[int]()
    for what, folder in replay.cuts(before, calls, tmp_path, REPLAYED, chance):
        state, cursor_ms = asyncio.run(job_of(folder / "state.db", job_id))
        restart(folder, "work-0")
        asyncio.run(open_and_close(folder / "state.db"))
        with closing(open_log(f"rocksdb:{folder}").reader()) as log:
            held = candles(log, since_ms, cursor_ms)
        assert held == (cursor_ms - since_ms) // MINUTE_MS, f"{what}: seed {SEED}"
        assert state != "success" or held == HOURS * 60, f"{what}: seed {SEED}"
        stood.add(cursor_ms)
    assert len(stood) > 1, "no cut fell into the work"


@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
def test_whatever_a_cut_leaves_of_a_collector_its_status_calls_seen_only_what_is_there(
    tmp_path: Path,
) -> None:
    data, chance = tmp_path / "data", Random(SEED)
    data.mkdir()
    before = replay.ReplayedDisk(data)

    def has_reported() -> bool:
        status = read_status(data, power.SLOT)
        return status is not None and any(ids.seen[-1][1] > ids.seen[0][0] for ids in status.ids)

    with (
        power.simulator(SEED, tmp_path / "sim") as address,
        traced(tmp_path, address, "collect", power.EXCHANGE, "btc_usdt", "eth_usdt") as process,
    ):
        wait_for(has_reported, process)
        time.sleep(3)  # some more seconds to cut into

    calls, claimed = tracing.read(tmp_path / "trace"), 0
    for what, folder in replay.cuts(before, calls, tmp_path, REPLAYED, chance):
        restart(folder, power.SLOT)
        status = read_status(folder, power.SLOT)
        with closing(open_log(f"rocksdb:{folder}").reader()) as log:
            for ids in status.ids if status else []:
                held = power.recorded(log, Stream(power.EXCHANGE, ids.channel, ids.symbol))
                seen = {number for first, last in ids.seen for number in range(first, last + 1)}
                assert seen <= held, f"{what}: {ids.symbol}: seed {SEED}"
                claimed += len(seen)
    assert claimed, "no cut fell into the work"
