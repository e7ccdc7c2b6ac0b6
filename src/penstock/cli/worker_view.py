"""The terminal view of a worker: its running jobs, their progress, and how others ended."""

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, table, wrapped
from penstock.cli.job_words import market, progress
from penstock.jobs.model import Job
from penstock.jobs.worker import Worker

_COLUMNS = (
    Column("market", 0, least=20, left=True),
    Column("rows", 1, least=9),
    Column("per s", 2, least=7),
    Column("left", 3, least=12),
    Column("job", 4, least=14, left=True),
    Column("", 5, left=True),
)


def draw_worker(worker: Worker, viewport: Viewport) -> RenderableType:
    """The whole view."""
    job_runs = list(worker.job_runs.values())
    title = Text.assemble((worker.name, "bold"), f"  {len(job_runs)} jobs in hand")
    ended = wrapped(_ended(worker), viewport.width, "dim")
    height = None if viewport.height is None else viewport.height - 1 - len(ended)
    rows = [Row(_cells(worker, job_run.job, job_run.stopping)) for job_run in job_runs]
    body = table(_COLUMNS, rows, (), Viewport(viewport.width, height)) if rows else []
    return Group(title, *body, *ended)


def describe_worker(worker: Worker) -> str:
    """The same in one line."""
    jobs = [job_run.job for job_run in list(worker.job_runs.values())]
    shown = "; ".join(" ".join(filter(None, _cells(worker, job, ""))) for job in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"{worker.name}: {len(jobs)} jobs in hand{': ' if shown else ''}{shown}{more}. " + (
        _ended(worker)
    )


def _cells(worker: Worker, job: Job, stopping: str) -> list[str]:
    shown = progress(job, type(worker.kinds[job.type]))
    notes = ", ".join(filter(None, (shown.notes, f"stops: {stopping}" if stopping else "")))
    return [market(job), shown.rows, shown.rate, shown.left, job.type, notes]


def _ended(worker: Worker) -> str:
    words = [f"{count:,} {how}" for how, count in sorted(worker.ended.items())]
    runs = f"runs: {', '.join(words) or 'none yet'}"
    suspended = worker.suspended()
    return f"no job runs: {suspended}; {runs}" if suspended else runs
