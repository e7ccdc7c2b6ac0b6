"""What is known about the correctness of a book, for the status."""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple


@dataclass(frozen=True)
class Audited:
    """Audit results of one book."""

    audits: int = 0
    """Audits with a result."""
    drift: int | None = None
    """Levels that differed at the last audit."""
    at_ms: int | None = None
    """Time of the last audit."""


class BookHealth(NamedTuple):
    """Audit results and known depth of a book."""

    audited: Audited = Audited()
    known_bid: Decimal | None = None
    """The last price of each side down to which the book is known; None if completely."""
    known_ask: Decimal | None = None
