"""``penstock work`` as a process: what it does, how it stops, what it says when things go wrong."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, Job, JobService, NewJob
from penstock.storage.state import open_store

from .conftest import run, started, stopped, urls, wait_until

MINUTE_MS, DAY_MS = 60_000, 86_400_000
WORK = ("work", "--data-dir", ".")


def add(folder: Path, **fields: object) -> Job:
    """A job in the folder's own store."""

    async def create() -> Job:
        store = await open_store(f"sqlite:{folder / 'state.db'}")
        now_ms = await store.now_ms()
        said = {"type": "ohlcv_backfill", "symbol": "btc_usdt", "timeframe": "1m"}
        cursor = Cursor(since_ms=now_ms - 300 * DAY_MS)
        new = NewJob(**{"exchange_id": "binance", "cursor": cursor, **said, **fields})  # type: ignore[arg-type]
        job = await JobService(store, kinds()).create(new)
        await store.close()
        return job

    return asyncio.run(create())


def job_in(folder: Path, job: Job) -> Job:
    async def get() -> Job:
        store = await open_store(f"sqlite:{folder / 'state.db'}")
        found = await JobService(store, kinds()).get(job.id)
        await store.close()
        return found

    return asyncio.run(get())


def test_it_stops_when_told_and_the_next_goes_on_from_there(tmp_path: Path, exchange: str) -> None:
    job = add(tmp_path)
    for _ in range(2):
        before = job_in(tmp_path, job).cursor.page

        def far_enough(before: int = before) -> bool:
            return bool(job_in(tmp_path, job).cursor.page > before + 1)

        with started(*WORK, "--json", folder=tmp_path, environment=urls(exchange)) as process:
            wait_until(far_enough, process)
            second = run(*WORK, "--seconds", "0.1", folder=tmp_path, **urls(exchange))
            code, out, errors = stopped(process)
        parked = job_in(tmp_path, job)

    assert (code, second.returncode) == (0, 0), errors + second.stderr
    facts = json.loads(out)
    assert facts["turns"] == {"parked": 1}
    assert "/work-0/" in facts["worker"]
    assert (parked.state, parked.lock.locked_by) == ("queued", None)
    assert parked.progress.resumptions == 1
    assert parked.progress.rows * MINUTE_MS == parked.cursor.since_ms - (
        parked.progress.first_ts or 0
    )
    assert "Traceback" not in errors
    assert sorted(path.name for path in (tmp_path / "log").glob("work-?")) == ["work-0", "work-1"]


def test_an_exchange_that_cannot_be_reached_is_tried_again_and_nothing_else_suffers(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    job = add(tmp_path)
    environment = {
        **urls(f"http://127.0.0.1:{unused_tcp_port}"),
        "PENSTOCK_REQUESTS_ATTEMPTS": "1",
        "PENSTOCK_JOBS_FIRST_DELAY": "0.1",
        "PENSTOCK_JOBS_ATTEMPTS": "3",
    }
    with started(*WORK, folder=tmp_path, environment=environment) as process:
        wait_until(lambda: job_in(tmp_path, job).state == "failed", process)
        code, _, errors = stopped(process)

    failed = job_in(tmp_path, job)
    assert (failed.attempts, failed.stats.fail) == (3, 3)
    assert str(unused_tcp_port) in (failed.stats.last_error or "")
    assert code == 0
    assert errors.count("JobFailed") == 3
    assert "Traceback" not in errors


def test_a_store_of_a_newer_penstock_is_left_alone(tmp_path: Path, exchange: str) -> None:
    add(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("UPDATE version SET version = 99")
        connection.commit()

    done = run(*WORK, folder=tmp_path, **urls(exchange))

    assert done.returncode == 2
    assert "Upgrade penstock" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_nobody_answers_for_is_said_at_start(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    url = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none"
    began = time.monotonic()

    done = run(*WORK, folder=tmp_path, PENSTOCK_STATE_URL=url, PENSTOCK_STATE_PATIENCE="3")

    assert done.returncode == 75
    assert "Check that it is running" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("concurrency", ["0", "-1"])
def test_no_jobs_at_once_is_no_number(tmp_path: Path, concurrency: str) -> None:
    done = run(*WORK, "--concurrency", concurrency, folder=tmp_path)

    assert done.returncode == 2
    assert "jobs.concurrency" in done.stderr
