"""A streamed book starts from a snapshot in its stream, and is verified as far as possible.

Where updates have no ids, no snapshot fetched by REST can be joined to them. Instead the exchange
sends one at the start of the stream, and another after each resubscription. A wrong book is
detected by a checksum where the exchange sends one, and otherwise by a bid that reaches an ask.
"""

from penstock.books.changing_levels import ChangingLevels, new_levels
from penstock.books.rules import BookRules
from penstock.books.unnumbered import UnnumberedBook
from penstock.errors import MalformedLevels
from penstock.market.events import BookDelta, BookSnapshot


class StreamedBook(UnnumberedBook):
    """One symbol's book that starts with a snapshot and continues with changes."""

    __slots__ = ("_checked", "levels")

    def __init__(self, rules: BookRules, *, keep_levels: bool = True) -> None:
        super().__init__(rules)
        self._checked = rules.checksum is not None
        self.levels: ChangingLevels | None = (
            new_levels(rules.depth, rules.checksum) if keep_levels else None
        )

    def begin(self, snapshot: BookSnapshot) -> bool:
        """Start from a snapshot in the stream, whatever the state was before."""
        levels = self.levels
        self._began(snapshot)
        if levels is not None:
            try:
                levels.load_raw(snapshot.bids_raw, snapshot.asks_raw)
            except MalformedLevels as error:
                self.invalidate(f"snapshot: {error}")
            else:
                self._check(levels, snapshot)
        return self.state == "synced"

    def receive(self, delta: BookDelta) -> None:
        """Handle the next change of the stream; it is ignored unless the book is synced."""
        if self.state != "synced":
            return
        if self.at_ns is not None and delta.at_ns < self.at_ns and not self._checked:
            # It would restore older levels.
            self.invalidate(f"out of order: a change of {delta.at_ns} after one of {self.at_ns}")
            return
        self.at_ns = delta.at_ns
        if self._history is not None:
            self._history.append(delta)
        levels = self.levels
        if levels is None:
            return
        try:
            levels.apply_raw(delta.bids_raw, delta.asks_raw)
        except MalformedLevels as error:
            self.invalidate(f"change: {error}")
        else:
            self._check(levels, delta)

    def _check(self, levels: ChangingLevels, event: BookDelta | BookSnapshot) -> None:
        if self._checked:
            found, theirs = levels.checksum(), event.checksum
            if found != theirs:
                self.invalidate(f"checksum: the exchange's is {theirs}, this book's {found}")
        elif levels.crossed():
            self.invalidate("crossed: somebody bids what is asked")
