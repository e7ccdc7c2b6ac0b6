"""Tables and lines that fit a terminal: rows with problems first, omitted rows are counted."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.text import Text

from penstock.telemetry.printable import printable

_GAP = 2
"""Spaces between two columns."""


class Viewport(NamedTuple):
    """The space available for a view."""

    width: int
    height: int | None = None
    """Lines; None if unlimited, as in a file."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    rank: int
    """Columns of a higher rank are omitted first if not all fit."""
    least: int = 0
    """Minimum width, so that columns do not move when a number grows."""
    left: bool = False
    """Whether it is left-aligned; numbers are not."""


class Row(NamedTuple):
    """One row of a table."""

    cells: Sequence[str | Text]
    trouble: str = ""
    """The problem in a few words, by which omitted rows are counted; empty: none."""


def table(
    columns: Sequence[Column], rows: Sequence[Row], troubles: Sequence[str], viewport: Viewport
) -> list[Text]:
    """A header and rows, those with problems first, in the order of ``troubles``.

    Columns that are empty or do not fit are omitted. The last line has the number of omitted rows.
    """
    rows = [row._replace(cells=[_printable(cell) for cell in row.cells]) for row in rows]
    ordered = sorted(rows, key=lambda row: _place(row.trouble, troubles))
    shown = columns_that_fit(columns, ordered, viewport.width)
    widths = {each: _width(columns, ordered, each) for each in shown}
    head = _line([columns[each].name for each in shown], columns, shown, widths)
    head.stylize("dim")
    fit = len(ordered)
    if viewport.height is not None and len(ordered) + 1 > viewport.height:
        fit = max(0, viewport.height - 2)
    lines = [
        _line([row.cells[each] for each in shown], columns, shown, widths) for row in ordered[:fit]
    ]
    left_out = [row.trouble for row in ordered[fit:]]
    return [head, *lines, *([_rest(left_out, troubles, fit)] if left_out else [])]


def columns_that_fit(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """The indexes of the columns that fit, in order; always the two of the lowest rank."""
    filled = [n for n in range(len(columns)) if any(str(row.cells[n]) for row in rows)]
    shown: list[int] = []
    left = width + _GAP
    for each in sorted(filled, key=lambda n: columns[n].rank):
        left -= _width(columns, rows, each) + _GAP
        if left < 0 and len(shown) >= 2:
            break
        shown.append(each)
    return sorted(shown)


def wrapped(words: str, width: int, style: str = "") -> list[Text]:
    """Text as lines; those after the first are indented."""
    words = printable(" ".join(words.split()))
    lines = textwrap.wrap(words, max(20, width), subsequent_indent="  ")
    return [Text(line, style=style, no_wrap=True) for line in lines]


def packed(parts: Iterable[Text], width: int) -> list[Text]:
    """Parts side by side on as few lines as possible; only parts longer than a line are broken."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + _GAP + part.cell_len <= width:
            lines[-1].append(" " * _GAP).append_text(part)
        else:
            lines.append(part.copy())
    return [each for line in lines for each in _broken(line, width)]


def _broken(line: Text, width: int) -> list[Text]:
    line.no_wrap = True
    return [line] if line.cell_len <= width else wrapped(line.plain, width, str(line.style))


def _printable(cell: str | Text) -> str | Text:
    return printable(cell) if isinstance(cell, str) else cell


def _place(trouble: str, troubles: Sequence[str]) -> int:
    return troubles.index(trouble) if trouble else len(troubles)


def _width(columns: Sequence[Column], rows: Sequence[Row], each: int) -> int:
    column = columns[each]
    cells = (len(str(row.cells[each])) for row in rows)
    return max(column.least, len(column.name), max(cells, default=0))


def _line(
    cells: Sequence[str | Text],
    columns: Sequence[Column],
    shown: Sequence[int],
    widths: dict[int, int],
) -> Text:
    line = Text(no_wrap=True)
    for each, cell in zip(shown, cells, strict=True):
        blanks = " " * (widths[each] - len(str(cell)))
        if each != shown[0]:
            line.append(" " * _GAP)
        if not columns[each].left:
            line.append(blanks)
        line.append_text(cell if isinstance(cell, Text) else Text(cell))
        if columns[each].left:
            line.append(blanks)
    line.rstrip()
    return line


def _rest(left_out: Sequence[str], troubles: Sequence[str], shown: int) -> Text:
    """The number of omitted rows, and how many of them have each problem."""
    counts = Counter(left_out)
    more = f"… and {len(left_out):,} more" if shown else f"{len(left_out):,} in all"
    wrong = [f"{counts[each]:,} {each}" for each in troubles if counts[each]]
    if not wrong:
        return Text(f"{more}, all fine", style="dim", no_wrap=True)
    fine = [f"{counts['']:,} fine"] if counts[""] else []
    return Text(f"{more}: {', '.join([*wrong, *fine])}", style="red", no_wrap=True)
