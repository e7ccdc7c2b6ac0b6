"""A worker's terminal view: the jobs in hand, how they get on, and how others ended."""

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.jobs.model import Job
from penstock.jobs.pace import pace_of
from penstock.jobs.worker import Worker


def draw_worker(worker: Worker) -> RenderableType:
    """The whole view."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("job", "market"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "per s", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for turn in list(worker.turns.values()):
        table.add_row(*_cells(turn.job, turn.stopping))
    title = Text.assemble((worker.name, "bold"), f"  {len(worker.turns)} jobs in hand")
    parts: list[RenderableType] = [table, "", Text(_ended(worker), style="dim")]
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan", width=100)


def describe_worker(worker: Worker) -> str:
    """The same in one line."""
    jobs = [turn.job for turn in list(worker.turns.values())]
    shown = "; ".join(" ".join(filter(None, _cells(job, ""))) for job in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"{worker.name}: {len(jobs)} jobs in hand{': ' if shown else ''}{shown}{more}. " + (
        _ended(worker)
    )


def _cells(job: Job, stopping: str) -> list[str]:
    pace = pace_of(job)
    market = " ".join(filter(None, (job.exchange_id, job.symbol, job.timeframe)))
    notes = []
    if job.progress.resumptions and job.cursor.last_ts is not None:
        notes.append(f"resumed at {_instant(job.progress.resumed_at)}")
    if stopping:
        notes.append(f"stops: {stopping}")
    return [
        job.type,
        market,
        f"{job.progress.rows:,}",
        f"{pace.rows_per_s:,.0f}/s" if pace.rows_per_s else "",
        f"{_duration(pace.left_s)} left" if pace.left_s else "",
        ", ".join(notes),
    ]


def _ended(worker: Worker) -> str:
    words = [f"{count:,} {how}" for how, count in sorted(worker.ended.items())]
    return f"turns: {', '.join(words) or 'none yet'}"


def _instant(at_ms: int | None) -> str:
    at = datetime.fromtimestamp((at_ms or 0) // 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
