"""Divides a range of time into windows that each hold about so many bytes of rows.

Rows of a window are merged and sorted in memory, and windows follow each other in time: so a result
of any size is in order, in bounded memory.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

HOUR_NS = 3_600_000_000_000
_SECOND_NS = 1_000_000_000


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

    The rows of a piece are taken to be spread evenly. A window ends where a piece begins or ends,
    so that few files are read for two windows; within a piece only if that is too large. It ends
    at a full second, since copies of one record may have times of different precision.
    """
    # At each second, how many pieces begin or end, and the change in bytes per second.
    counts: dict[int, int] = {}
    densities: dict[int, float] = {}
    for first_ns, last_ns, size in pieces:
        first, end = first_ns // _SECOND_NS, last_ns // _SECOND_NS + 1
        for at, sign in ((first, 1), (end, -1)):
            counts[at] = counts.get(at, 0) + sign
            densities[at] = densities.get(at, 0.0) + sign * size / (end - first)
    found: list[Window] = []
    count, density, filled = 0, 0.0, 0.0
    for start, end in pairwise(sorted(counts)):
        count += counts[start]
        density = max(density + densities[start], 0.0) if count else 0.0
        if not count:
            continue
        size = density * (end - start)
        if found and filled + size <= most_bytes:
            found[-1] = Window(found[-1].since_ns, end * _SECOND_NS)
            filled += size
            continue
        parts = min(max(1, -int(-size // most_bytes)), end - start)
        edges = [start + (end - start) * part // parts for part in range(parts + 1)]
        found += [Window(a * _SECOND_NS, b * _SECOND_NS) for a, b in pairwise(edges)]
        filled = size / parts
    return found
