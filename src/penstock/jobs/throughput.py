"""Computes how fast a job runs, and how long it still takes. Pure, from the job alone."""

from typing import NamedTuple

from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Job


class Throughput(NamedTuple):
    """How fast a job runs. None where it is not known yet."""

    rows_per_s: float | None
    left_s: float | None


def throughput_of(job: Job, kind: AnyKind | None) -> Throughput:
    """The throughput since a job was last started or resumed; its kind may be unknown."""
    progress = job.progress
    began_ms = progress.resumed_at or progress.started_at
    rows = progress.rows - progress.resumed_rows
    if began_ms is None or rows <= 0 or job.updated_at <= began_ms:
        return Throughput(None, None)
    rows_per_s = rows * 1000 / (job.updated_at - began_ms)
    rows_left = kind.rows_left(job) if kind and job.is_known else 0.0
    return Throughput(rows_per_s, rows_left / rows_per_s)
