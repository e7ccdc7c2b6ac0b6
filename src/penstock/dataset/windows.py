"""Divides a range of time into windows that each hold about so many bytes of rows.

Rows of a window are merged and sorted in memory, and windows follow each other in time: so a result
of any size is in order, in bounded memory.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

HOUR_NS = 3_600_000_000_000


class Piece(NamedTuple):
    """Rows that lie somewhere in a range of time, both ends included."""

    first_ns: int
    last_ns: int
    size: float
    """In bytes, in memory."""


class Window(NamedTuple):
    """A part of a range: [since, until)."""

    since_ns: int
    until_ns: int


def windows(pieces: Iterable[Piece], most_bytes: int) -> list[Window]:
    """Windows in order that together contain all pieces.

    The rows of a piece are taken to be spread evenly. Windows end at full hours, or within one
    hour that has too many.
    """
    # Many files of a month have the same bounds.
    sizes: dict[tuple[int, int], float] = {}
    for piece in pieces:
        bounds = piece.first_ns // HOUR_NS, piece.last_ns // HOUR_NS
        sizes[bounds] = sizes.get(bounds, 0.0) + piece.size
    hours: dict[int, float] = {}
    for (first, last), size_of_all in sizes.items():
        for hour in range(first, last + 1):
            hours[hour] = hours.get(hour, 0.0) + size_of_all / (last - first + 1)
    found: list[Window] = []
    size = 0.0
    for hour in sorted(hours):
        start = hour * HOUR_NS
        if found and size + hours[hour] <= most_bytes:
            found[-1] = Window(found[-1].since_ns, start + HOUR_NS)
            size += hours[hour]
            continue
        parts = max(1, -int(-hours[hour] // most_bytes))
        edges = [start + HOUR_NS * part // parts for part in range(parts + 1)]
        found += [Window(*ends) for ends in pairwise(edges)]
        size = hours[hour] / parts
    return found
