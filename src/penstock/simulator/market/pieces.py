"""Splits long work into pieces, so that the event loop runs other tasks in between.

An exchange's code is pure and does not use the event loop. A response that takes long is a
generator: it yields after every piece and returns the result. All pieces are as of one time,
because the data is a function of that time alone. The caller yields to the event loop between the
pieces (see ``turns``).
"""

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Work = Generator[None, None, T]
"""Yields where other tasks may run, and returns the result."""

PIECE = 250
"""Items per piece: a few milliseconds for the most expensive items, the orders of a book."""


def listed(items: Iterable[T]) -> Work[list[T]]:
    """The items as a list, yielding after each piece."""
    found: list[T] = []
    rest = iter(items)
    while True:
        before = len(found)
        found += islice(rest, PIECE)
        if len(found) - before < PIECE:
            return found
        yield


def joined(rows: Iterable[str]) -> Work[str]:
    """The rows joined with commas, yielding after each piece.

    Each piece is joined separately: the memory of a hundred thousand short strings would not be
    returned to the system at once, because longer-lived objects are allocated between the pieces.
    """
    pieces: list[str] = []
    rest = iter(rows)
    while piece := [*islice(rest, PIECE)]:
        pieces.append(",".join(piece))
        yield
    return ",".join(pieces)


def finished(work: Work[T]) -> T:
    """Run work to its end without yielding."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
