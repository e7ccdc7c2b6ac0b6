"""Applies deltas to books, in the compiled extension where there is one.

It applies a delta that follows the one before it in a synced book. Everything else is handed to the
code in Python, which is the specification, each delta in its turn.
"""

from typing import TYPE_CHECKING

from msgspec import Raw

from penstock import compiled
from penstock.books.changing_levels import CompiledLevels
from penstock.books.sequenced import SequencedBook
from penstock.market.events import BookDelta
from penstock.market.symbol import Symbol

if TYPE_CHECKING:
    from penstock.compiled._hot import Updater

_DELTA_FIELDS = ("symbol", "first_update_id", "final_update_id", "bids_raw", "asks_raw")
_BOOK_FIELDS = ("state", "update_id", "levels", "_shadow", "held", "_recent")
_LEVELS_FIELDS = ("_book", "_python")


def new_updater() -> "Updater | None":
    """What applies deltas to sequenced books; None if they have to do it themselves."""
    if compiled.Updater is None:
        return None
    no_levels = Raw(b"[]")
    delta = BookDelta(
        exchange="any", symbol=Symbol("ANY", "ANY"), received_at_ns=0, at_ns=0,
        bids_raw=no_levels, asks_raw=no_levels,
    )  # fmt: skip
    return compiled.Updater(
        delta,
        _of(BookDelta, _DELTA_FIELDS),
        SequencedBook.__new__(SequencedBook),
        _of(SequencedBook, _BOOK_FIELDS),
        CompiledLevels.__new__(CompiledLevels),
        _of(CompiledLevels, _LEVELS_FIELDS),
        "synced",
        SequencedBook.found_crossed.__name__,
    )


def _of(kind: type, names: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(getattr(kind, name) for name in names)
