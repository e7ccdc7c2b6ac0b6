"""The terminal view of processes by their statuses in the state store: one row each."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import duration
from penstock.runtime.status import SeenProcess

_COLUMNS = (
    Column("process", 0, left=True),
    Column("state", 1, left=True),
    Column("for", 3),
    Column("machine", 5, left=True),
    Column("folder", 4, left=True),
    Column("last data", 6, left=True),
    Column("", 2, left=True),
)
_GAP = 2
_LEAST_WORDS = 20
_TROUBLES = ("gone", "failed", "impaired")
_COLOURS = {"gone": "red", "failed": "red", "impaired": "yellow", "": "green"}


def draw_fleet(seen: Sequence[SeenProcess], viewport: Viewport) -> RenderableType:
    """The rows, and below them the problems of each."""
    problems = [
        line
        for each in seen
        for words in each.status.problems
        for line in wrapped(f"! {each.status.name}: {words}", viewport.width, "red")
    ]
    height = viewport.height
    if height is not None:
        problems = problems[: max(0, height - len(seen) - 1)]
        height -= len(problems)
    rows = [_row(each) for each in seen]
    # What a process does is shown before where it runs, and cut if there is no room for all.
    first = sum(max(len(str(row.cells[number])) for row in rows) + _GAP for number in (0, 1))
    rows = [_cut_last(row, max(_LEAST_WORDS, viewport.width - first)) for row in rows]
    fitting = Viewport(viewport.width, height)
    return Group(*table(_COLUMNS, rows, _TROUBLES, fitting), *problems)


def _cut_last(row: Row, width: int) -> Row:
    *cells, words = row.cells
    shown = str(words)
    return row._replace(cells=[*cells, shown if len(shown) <= width else shown[: width - 1] + "…"])


def _row(seen: SeenProcess) -> Row:
    status = seen.status
    trouble = "gone" if seen.gone else "" if status.health == "healthy" else status.health
    words = ("gone",) if seen.gone else (status.state, "impaired" if trouble == "impaired" else "")
    state = ", ".join(filter(None, words))
    ended = seen.gone or status.state in ("stopped", "failed")
    cells = (
        status.name,
        Text(state, style=_COLOURS[trouble]),
        "" if ended else duration((status.at_ms - status.started_ms) / 1000),
        status.host,
        status.folder,
        "" if status.last_data_ms is None else instant(status.last_data_ms),
        status.doing,
    )
    return Row(cells, trouble)
