"""Text for a job's progress: rows, rate, time left, and when it was resumed."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.cli.instants import instant
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Job
from penstock.jobs.throughput import throughput_of


class ProgressText(NamedTuple):
    """A job's progress as text; unknown values are empty."""

    rows: str
    rate: str
    left: str
    notes: str


def progress(job: Job, kind: AnyKind | None) -> ProgressText:
    """A job's progress; its kind may be unknown."""
    throughput = throughput_of(job, kind)
    return ProgressText(
        f"{job.progress.rows:,}",
        f"{throughput.rows_per_s:,.0f}/s" if throughput.rows_per_s else "",
        f"{duration(throughput.left_s)} left"
        if throughput.left_s and job.state != "success"
        else "",
        ", ".join(_notes(job)),
    )


def market(job: Job) -> str:
    """The market of a job; only the exchange if it has none."""
    return " ".join(filter(None, (job.exchange_id, job.symbol, job.timeframe)))


def duration(seconds: float) -> str:
    """A duration as hours, minutes and seconds."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def _notes(job: Job) -> Iterator[str]:
    if not job.is_known:
        yield "of a newer penstock: left alone"
    if job.progress.resumptions and job.progress.rows:
        yield f"resumed at {instant(job.progress.resumed_at)}"
