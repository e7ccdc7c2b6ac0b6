"""Jobs in words: how far one is, how fast, how long it still takes, when it was taken up again."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.cli.instants import instant
from penstock.jobs.model import Job
from penstock.jobs.throughput import throughput_of


class ProgressText(NamedTuple):
    """How a job gets on, for people; empty where nothing can be said."""

    rows: str
    rate: str
    left: str
    notes: str


def progress(job: Job) -> ProgressText:
    """How a job gets on."""
    throughput = throughput_of(job)
    return ProgressText(
        f"{job.progress.rows:,}",
        f"{throughput.rows_per_s:,.0f}/s" if throughput.rows_per_s else "",
        f"{duration(throughput.left_s)} left"
        if throughput.left_s and job.state != "success"
        else "",
        ", ".join(_notes(job)),
    )


def market(job: Job) -> str:
    """Which market a job works on; the exchange alone, if on none."""
    return " ".join(filter(None, (job.exchange_id, job.symbol, job.timeframe)))


def duration(seconds: float) -> str:
    """A time span: hours, minutes and seconds."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def _notes(job: Job) -> Iterator[str]:
    if job.progress.resumptions and job.cursor.last_ts is not None:
        yield f"resumed at {instant(job.progress.resumed_at)}"
