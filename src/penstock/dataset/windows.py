"""Divides a range of time into windows that each hold about so many rows.

Rows of a window are merged and sorted in memory, and windows follow each other in time: so a result
of any size is in order, in bounded memory.
"""

from collections.abc import Iterable
from typing import NamedTuple

HOUR_NS = 3_600_000_000_000


class Piece(NamedTuple):
    """Rows that lie somewhere in a range of time, both ends included."""

    first_ns: int
    last_ns: int
    rows: float


class Window(NamedTuple):
    """A part of a range: [since, until)."""

    since_ns: int
    until_ns: int


def windows(pieces: Iterable[Piece], most_rows: int) -> list[Window]:
    """Windows in order that together contain all pieces.

    The rows of a piece are taken to be spread evenly. Windows end at full hours, or within one
    hour that has too many rows.
    """
    hours: dict[int, float] = {}
    for piece in pieces:
        first, last = piece.first_ns // HOUR_NS, piece.last_ns // HOUR_NS
        for hour in range(first, last + 1):
            hours[hour] = hours.get(hour, 0.0) + piece.rows / (last - first + 1)
    found: list[Window] = []
    rows = 0.0
    for hour in sorted(hours):
        start = hour * HOUR_NS
        if found and rows + hours[hour] <= most_rows:
            found[-1] = Window(found[-1].since_ns, start + HOUR_NS)
            rows += hours[hour]
            continue
        parts = max(1, -int(-hours[hour] // most_rows))
        edges = [start + HOUR_NS * part // parts for part in range(parts + 1)]
        found += [Window(*ends) for ends in zip(edges, edges[1:], strict=False)]
        rows = hours[hour] / parts
    return found
