"""The terminal view of the processes that a supervisor runs: one row each."""

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, table
from penstock.cli.job_words import duration
from penstock.runtime.status import ChildStatus, SeenProcess
from penstock.telemetry.printable import printable

_COLUMNS = (
    Column("supervised", 0, left=True),
    Column("state", 1, left=True),
    Column("for", 3),
    Column("pid", 4),
    Column("restarts", 2),
    Column("", 5, left=True),
)
_TROUBLES = ("given up", "waiting")
_LEAST_REASON, _OTHER_COLUMNS = 20, 60
_COLOURS = {"given up": "red", "waiting": "yellow", "": "green"}


def draw_supervised(supervisor: SeenProcess, viewport: Viewport) -> RenderableType:
    """The rows of a supervisor's processes; those with problems first."""
    at_ms = supervisor.status.at_ms
    reason = max(_LEAST_REASON, viewport.width - _OTHER_COLUMNS)
    rows = [_row(each, at_ms, reason) for each in supervisor.status.children]
    return Group(*table(_COLUMNS, rows, _TROUBLES, viewport))


def _row(child: ChildStatus, at_ms: int, longest: int) -> Row:
    trouble = child.state if child.state in _TROUBLES else ""
    words = printable(child.reason)
    cells = (
        printable(child.name),
        Text(child.state, style=_COLOURS[trouble]),
        duration(max(0, at_ms - child.since_ms) / 1000),
        str(child.pid or ""),
        f"{child.restarts:,}",
        words if len(words) <= longest else words[: longest - 1] + "…",
    )
    return Row(cells, trouble)
