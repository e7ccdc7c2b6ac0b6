"""A whole book is replaced by every frame of its stream, so that a lost frame does no harm."""

from penstock.books.raw_levels import RawLevels
from penstock.books.rules import BookRules
from penstock.books.unnumbered import UnnumberedBook
from penstock.market.events import BookDelta, BookSnapshot


class WholeBook(UnnumberedBook):
    """One symbol's book that every frame replaces."""

    __slots__ = ("levels",)

    def __init__(self, rules: BookRules, *, keep_levels: bool = True) -> None:
        super().__init__(rules)
        self.levels: RawLevels | None = RawLevels(rules.depth) if keep_levels else None

    def begin(self, snapshot: BookSnapshot) -> bool:
        """Replace the book, whatever the state was before."""
        levels = self.levels
        self._began(snapshot)
        if levels is not None:
            levels.load_raw(snapshot.bids_raw, snapshot.asks_raw)
            if levels.crossed():
                self.invalidate("crossed: somebody bids what is asked")
        return self.state == "synced"

    def receive(self, delta: BookDelta) -> None:
        """Do nothing: it has no changes."""
