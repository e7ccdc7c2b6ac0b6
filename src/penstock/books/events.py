"""Events of a book that do not come from its stream."""

from typing import NamedTuple

from penstock.books.book import Audit


class PriceLeft(NamedTuple):
    """The best price is beyond all levels that the book's snapshot showed."""


class TrimLevels(NamedTuple):
    """Drop levels beyond those known from a snapshot of ``depth`` levels."""

    depth: int


class AuditDone(NamedTuple):
    """An audit of this book has its snapshot, and may be finished."""

    audit: Audit


BookEvent = PriceLeft | TrimLevels | AuditDone
