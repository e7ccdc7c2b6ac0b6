"""Jobs in words: how far one is, how fast, how long it still takes, when it was taken up again."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.cli.instants import instant
from penstock.jobs.model import Job
from penstock.jobs.pace import pace_of


class Progress(NamedTuple):
    """How a job gets on, for people; empty where nothing can be said."""

    rows: str
    rate: str
    left: str
    notes: str


def progress(job: Job) -> Progress:
    """How a job gets on."""
    pace = pace_of(job)
    return Progress(
        f"{job.progress.rows:,}",
        f"{pace.rows_per_s:,.0f}/s" if pace.rows_per_s else "",
        f"{duration(pace.left_s)} left" if pace.left_s and job.state != "success" else "",
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
