"""Pieces: long work in short ones, so that the loop serves others meanwhile.

An exchange's file is pure and knows no loop. Where an answer takes long it is a generator: it
yields after every piece, and returns the answer. All of it is of one instant, because what it reads
is a function of the instant alone. Whoever holds the loop gives others a turn between the pieces
(see ``turns``).
"""

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Work = Generator[None, None, T]
"""Yields where others may have a turn, and returns what it was for."""

PIECE = 250
"""Items in a piece: a few milliseconds for the dearest there are, the orders of a book."""


def listed(items: Iterable[T]) -> Work[list[T]]:
    """The items as a list, with a turn for others after each piece."""
    found: list[T] = []
    rest = iter(items)
    while True:
        before = len(found)
        found += islice(rest, PIECE)
        if len(found) - before < PIECE:
            return found
        yield


def joined(rows: Iterable[str]) -> Work[str]:
    """The rows with commas between them, with a turn for others after each piece.

    Each piece is joined by itself: a hundred thousand short strings would not be given back to the
    system in one go, because others that stay are made between the pieces.
    """
    pieces: list[str] = []
    rest = iter(rows)
    while piece := [*islice(rest, PIECE)]:
        pieces.append(",".join(piece))
        yield
    return ",".join(pieces)


def finished(work: Work[T]) -> T:
    """Do work at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
