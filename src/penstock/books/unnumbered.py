"""What books without update ids have in common: their state, and how they are audited."""

from penstock.books.book import KNOWN_COMPLETELY, BookView, Finding, Levels
from penstock.books.rules import BookRules, BookState
from penstock.books.state_history import StateHistory
from penstock.market.events import BookSnapshot

_AFTERWARDS_S = 1.0
"""How long the stream may take to deliver what an audit's snapshot shows."""


class UnnumberedBook:
    """What books without update ids have in common. See ``Book``."""

    __slots__ = (
        "_drifts",
        "_history",
        "_rules",
        "at_ns",
        "reason",
        "resyncs",
        "state",
        "wants_snapshot",
    )

    update_id = 0
    """There are no update ids."""
    held = ()
    """Always empty: without ids, changes of another connection cannot be placed."""
    side_depths = KNOWN_COMPLETELY
    """The stream delivers all there is to know."""
    levels: Levels | None

    def __init__(self, rules: BookRules) -> None:
        self._rules = rules
        self.state: BookState = "syncing"
        self.reason = "no snapshot yet"
        self.wants_snapshot = False
        self.resyncs = 0
        self.at_ns: int | None = None
        self._history: StateHistory | None = None
        """Of an audit; None without one, or if the book has become stale meanwhile."""
        self._drifts = 0
        """Consecutive audits that found differences."""

    def join_from(self, other: BookView) -> bool:  # noqa: ARG002
        """Return False: without ids, a copy cannot be joined."""
        return False

    def expect_copies(self, *, copies: bool) -> None:
        """Do nothing: without ids, copies do not help."""

    def invalidate(self, reason: str) -> None:
        """Mark the book stale: something contradicts it, or is known to be lost."""
        if self.state == "synced":
            self.state = "stale"
            self.resyncs += 1
        self.reason, self.wants_snapshot, self._history = reason, True, None

    def interrupt(self, reason: str) -> None:
        """Mark the book stale: its stream has ended."""
        self.invalidate(reason)
        self.wants_snapshot = False  # the next subscription brings one

    def carry_resyncs(self, before: int) -> None:
        """Continue the count of the book that this one replaces."""
        self.resyncs = max(self.resyncs, before)

    def forget_beyond(self, depth: int) -> None:
        """Do nothing: it is known completely."""

    def audit(self, depth: int) -> "HistoryAudit":
        """Start an audit of the ``depth`` best levels."""
        return HistoryAudit(self, self._rules, depth)

    def _began(self, snapshot: BookSnapshot) -> None:
        self.state, self.reason, self.at_ns = "synced", "", snapshot.at_ns
        self.wants_snapshot = False
        if self._history is not None:
            self._history.append(snapshot)


class HistoryAudit:
    """Compares a book without update ids with a snapshot. See ``Audit``.

    Which state of the book the snapshot shows is unknown; see ``StateHistory``. A difference may
    be an error of the snapshot, an outdated response for example: only after the second one in a
    row is the book marked stale.
    """

    def __init__(self, book: UnnumberedBook, rules: BookRules, depth: int) -> None:
        assert book.levels is not None, "there is nothing to compare"
        self._book, self._rules = book, rules
        self.history = StateHistory(book.levels.texts(depth), book.at_ns, rules, depth)
        book._history = self.history
        self._snapshot: BookSnapshot | None = None
        self.finding: Finding | None = None

    def receive(self, snapshot: BookSnapshot) -> None:
        """Keep the snapshot until the stream has delivered what it shows."""
        self._snapshot = snapshot

    def pause_s(self, waited_s: float) -> float:
        """Wait for a fixed time: nothing shows that the stream has delivered enough."""
        return max(0.0, _AFTERWARDS_S - waited_s)

    def finish(self, book: BookView) -> None:
        """Compare, if the book was valid all the time."""
        if book is not self._book or self._snapshot is None:
            return
        book = self._book
        if book._history is not self.history:
            return
        seen = self.history.compare(self._snapshot)
        book._drifts = book._drifts + 1 if seen.drift else 0
        if book._drifts > 1:
            book.invalidate(f"audit: {seen.drift} levels differ from the exchange's")
            book._drifts = 0
        proves = not (seen.drift or seen.moving or self._rules.shows_loss)
        confirmed = self.history.state(seen.changes) if proves else None
        self.finding = Finding(seen.drift, confirmed=confirmed)

    def close(self) -> None:
        """Stop recording changes."""
        if self._book._history is self.history:
            self._book._history = None
