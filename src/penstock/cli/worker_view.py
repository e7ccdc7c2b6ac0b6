"""A worker's terminal view: the jobs in hand, how they get on, and how others ended."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli.job_words import market, progress
from penstock.jobs.model import Job
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
    shown = progress(job)
    notes = ", ".join(filter(None, (shown.notes, f"stops: {stopping}" if stopping else "")))
    return [job.type, market(job), shown.rows, shown.rate, shown.left, notes]


def _ended(worker: Worker) -> str:
    words = [f"{count:,} {how}" for how, count in sorted(worker.ended.items())]
    return f"turns: {', '.join(words) or 'none yet'}"
