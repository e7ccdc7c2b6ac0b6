"""The terminal view of jobs: one row each, on two lines where one is too short."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, columns_that_fit, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import market, progress
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Job

_COLUMNS = (
    Column("id", 0, least=24, left=True),
    Column("state", 1, left=True),
    Column("market", 2, left=True),
    Column("job", 3, left=True),
    Column("progress", 4, left=True),
)
_STYLES = {"failed": "red", "running": "green", "success": "green", "waiting_rate_limit": "yellow"}


def draw_jobs(found: Sequence[Job], kinds: Mapping[str, AnyKind]) -> None:
    """Print jobs; if there are none, how to create one."""
    console = Console()
    if not found:
        console.print("There is no such job. Make one: penstock jobs add --help")
        return
    texts = [_progress(job, kinds.get(job.type)) for job in found]
    rows = [
        Row((job.id, _state(job), market(job), job.type, words))
        for job, words in zip(found, texts, strict=True)
    ]
    is_wide = len(columns_that_fit(_COLUMNS, rows, console.width)) == len(_COLUMNS)
    columns = _COLUMNS if is_wide else _COLUMNS[:3]
    width = max(console.width, 24)
    head, *lines = table(columns, rows, (), Viewport(width))
    console.print(head)
    for job, words, line in zip(found, texts, lines, strict=True):
        console.print(line)
        for detail in [] if is_wide else wrapped(f"{job.type}: {words}", width - 2):
            console.print(Text("  ").append_text(detail))
        if reason := _reason(job):
            for detail in wrapped(reason, width - 2, _STYLES.get(job.state, "yellow")):
                console.print(Text("  ").append_text(detail))


def _reason(job: Job) -> str:
    """Why it has failed, or what it waits for."""
    if job.state == "failed":
        return job.stats.last_error or ""
    if job.status != "active" or job.state not in ("queued", "waiting_rate_limit"):
        return ""
    return next((event.detail for event in job.events[-1:] if event.what == "waiting"), "")


def _state(job: Job) -> Text:
    state = Text(job.state, style=_STYLES.get(job.state, ""))
    if job.status != "active" and job.state != "success":
        return Text(f"{job.status}, ").append_text(state)
    return state


def _progress(job: Job, kind: AnyKind | None) -> str:
    shown = progress(job, kind)
    words = [f"{shown.rows} rows" if job.progress.rows else "", shown.rate, shown.left, shown.notes]
    if job.state == "success":
        words.append(f"done {instant(job.updated_at)}")
    elif job.status == "active" and job.state not in ("running", "failed"):
        words.append(f"next run {instant(job.next_run_at)}")
    return ", ".join(filter(None, words))
