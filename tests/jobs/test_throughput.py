"""Pace: rows a second and time left, told from the job alone."""

from typing import Any

import pytest

from penstock.jobs.model import Cursor, Job, JobProgress
from penstock.jobs.throughput import Throughput, throughput_of

HOUR_MS = 3_600_000


def job(timeframe: str = "1h", **fields: Any) -> Job:
    return Job(
        id="j", exchange_id="sim", type="ohlcv_backfill", symbol="BTC/USDT", timeframe=timeframe,
        next_run_at=0, priority=1, created_at=0, **fields,
    )  # fmt: skip


def test_a_job_that_has_not_begun_has_no_pace() -> None:
    assert throughput_of(job(updated_at=5)) == Throughput(None, None)
    assert throughput_of(job(updated_at=5, progress=JobProgress(started_at=1))) == Throughput(
        None, None
    )


def test_what_is_left_takes_as_long_as_it_took_so_far() -> None:
    progress = JobProgress(rows=500, started_at=1_000, target_ts=1_500 * HOUR_MS)

    throughput = throughput_of(
        job(updated_at=11_000, progress=progress, cursor=Cursor(since_ms=500 * HOUR_MS))
    )

    assert throughput == Throughput(rows_per_s=50.0, left_s=20.0)


def test_the_time_it_rested_does_not_count() -> None:
    progress = JobProgress(
        rows=700, started_at=1_000, resumed_at=901_000, resumed_rows=500, resumptions=1,
        target_ts=1_000 * HOUR_MS,
    )  # fmt: skip

    throughput = throughput_of(
        job(updated_at=905_000, progress=progress, cursor=Cursor(since_ms=900 * HOUR_MS))
    )

    assert throughput == Throughput(rows_per_s=50.0, left_s=2.0)


@pytest.mark.parametrize(("timeframe", "rows"), [("1d", 30), ("1w", 30 / 7), ("1M", 30 / 30.4167)])
def test_every_timeframe_has_a_length(timeframe: str, rows: float) -> None:
    progress = JobProgress(rows=10, started_at=0, resumed_at=1_000, target_ts=30 * 24 * HOUR_MS)

    throughput = throughput_of(
        job(timeframe, updated_at=2_000, progress=progress, cursor=Cursor(since_ms=0))
    )

    assert throughput.left_s == pytest.approx(rows / 10, rel=1e-4)
