"""Computes how fast a job runs, and how long it still takes. Pure, from the job alone."""

from typing import NamedTuple

from penstock.jobs.model import Job
from penstock.market.interval import DAY_MS, Interval

_MONTH_MS = 365 * DAY_MS // 12


class Throughput(NamedTuple):
    """How fast a job runs. None where it is not known yet."""

    rows_per_s: float | None
    left_s: float | None


def throughput_of(job: Job) -> Throughput:
    """The throughput since the job was last started or resumed."""
    progress = job.progress
    began_ms = progress.resumed_at or progress.started_at
    rows = progress.rows - progress.resumed_rows
    if began_ms is None or rows <= 0 or job.updated_at <= began_ms:
        return Throughput(None, None)
    rows_per_s = rows * 1000 / (job.updated_at - began_ms)
    return Throughput(rows_per_s, _rows_left(job) / rows_per_s)


def _rows_left(job: Job) -> float:
    since_ms, target_ms = job.cursor.since_ms, job.progress.target_ts
    if since_ms is None or target_ms is None or job.timeframe is None:
        return 0.0
    interval = Interval.parse(job.timeframe)
    length_ms = interval.fixed_ms or interval.count * _MONTH_MS
    return max(0.0, (target_ms - since_ms) / length_ms)
