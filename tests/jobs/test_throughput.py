"""Pace: rows a second and time left, told from the job alone."""

from typing import Any

import pytest
from tests.jobs_made import made_job

from penstock.ingest.kinds.ohlcv_backfill import OhlcvBackfill
from penstock.jobs.model import Cursor, JobProgress
from penstock.jobs.throughput import Throughput, throughput_of

HOUR_MS = 3_600_000


def throughput(timeframe: str = "1h", **fields: Any) -> Throughput:
    cursor = fields.pop("cursor", None)
    job = made_job(OhlcvBackfill.name, cursor, timeframe=timeframe, **fields)
    return throughput_of(job, OhlcvBackfill)


def test_a_job_that_has_not_begun_has_no_pace() -> None:
    assert throughput(updated_at=5) == Throughput(None, None)
    assert throughput(updated_at=5, progress=JobProgress(started_at=1)) == Throughput(None, None)


def test_what_is_left_takes_as_long_as_it_took_so_far() -> None:
    progress = JobProgress(rows=500, started_at=1_000, target_ts=1_500 * HOUR_MS)

    found = throughput(updated_at=11_000, progress=progress, cursor=Cursor(since_ms=500 * HOUR_MS))

    assert found == Throughput(rows_per_s=50.0, left_s=20.0)


def test_the_time_it_rested_does_not_count() -> None:
    progress = JobProgress(
        rows=700, started_at=1_000, resumed_at=901_000, resumed_rows=500, resumptions=1,
        target_ts=1_000 * HOUR_MS,
    )  # fmt: skip

    found = throughput(updated_at=905_000, progress=progress, cursor=Cursor(since_ms=900 * HOUR_MS))

    assert found == Throughput(rows_per_s=50.0, left_s=2.0)


@pytest.mark.parametrize(("timeframe", "rows"), [("1d", 30), ("1w", 30 / 7), ("1M", 30 / 30.4167)])
def test_every_timeframe_has_a_length(timeframe: str, rows: float) -> None:
    progress = JobProgress(rows=10, started_at=0, resumed_at=1_000, target_ts=30 * 24 * HOUR_MS)

    found = throughput(timeframe, updated_at=2_000, progress=progress, cursor=Cursor(since_ms=0))

    assert found.left_s == pytest.approx(rows / 10, rel=1e-4)


def test_of_a_kind_that_is_not_known_only_the_rate_is_told() -> None:
    progress = JobProgress(rows=500, started_at=1_000, target_ts=1_500 * HOUR_MS)
    job = made_job(OhlcvBackfill.name, updated_at=11_000, progress=progress, is_known=False)

    assert throughput_of(job, None) == Throughput(rows_per_s=50.0, left_s=0.0)
