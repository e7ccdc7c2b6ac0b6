"""A sequenced book has numbered updates, by which it detects when it is no longer correct.

A book is built from a snapshot and the deltas that follow it. The stream must run first: deltas are
buffered while a snapshot is fetched, those it already contains are dropped, and the first one kept
must reach back to it. From then on every delta must follow the one before. Otherwise the book is
stale, with a reason, until the next snapshot joins.

Where another connection delivers the same deltas, it may deliver a missing one. Then the book is
not marked stale at once: deltas after the gap are held for a moment, and the book stays as it was
before the gap.
"""

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from penstock.books.book import KNOWN_COMPLETELY, BookView, Finding
from penstock.books.changing_levels import new_levels
from penstock.books.known_depth import Ends, KnownDepth, ends_of, side_depth
from penstock.books.level_diff import count_differing, sides_of
from penstock.books.rules import BookState
from penstock.errors import MalformedLevels
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import split_levels

BUFFERED_DELTAS = 4_096
"""Deltas kept while a snapshot is fetched: seven minutes at ten a second."""


RECENT_NS = 5_000_000_000
_RECENT_DELTAS = 256
"""Recent deltas, up to this age and number, are kept for connections that lack them."""
_MEET_S = 5.0
"""How long the stream may take to deliver the updates that an audit's snapshot contains."""
_MEET_CHECK_S = 0.02


class _Numbered(NamedTuple):
    first_id: int
    final_id: int
    delta: BookDelta


class SequencedBook:
    """One symbol's book, and whether it is valid. See ``Book``."""

    at_ns: int | None = None
    """Not kept: the update id identifies the state."""

    __slots__ = (
        "_buffer",
        "_recent",
        "_shadow",
        "held",
        "levels",
        "reason",
        "resyncs",
        "side_depths",
        "state",
        "update_id",
        "wants_snapshot",
    )

    def __init__(self, *, keep_levels: bool = True) -> None:
        self.state: BookState = "syncing"
        self.reason = "no delta yet"
        self.update_id = 0
        self.wants_snapshot = False
        self.resyncs = 0
        self.levels = new_levels() if keep_levels else None
        self.side_depths = KNOWN_COMPLETELY
        self._shadow: SequencedBook | None = None
        """Another book that receives the same deltas; see ``SequencedAudit``."""
        self._buffer: deque[_Numbered] = deque(maxlen=BUFFERED_DELTAS)
        self.held: deque[_Numbered] = deque()
        self._recent: deque[_Numbered] | None = None
        """Recent deltas; None while no other connection delivers the same."""

    def expect_copies(self, *, copies: bool) -> None:
        """Set whether other connections deliver the same deltas; then ``fill`` has to be called."""
        self._recent = (self._recent or deque(maxlen=_RECENT_DELTAS)) if copies else None

    def receive(self, delta: BookDelta) -> None:
        """Handle the next delta of the stream."""
        if self._recent is None:
            self._take(delta)
            return
        first_id, final_id = delta.first_update_id, delta.final_update_id
        if first_id is None or final_id is None:
            self._take(delta)
            return
        numbered = _Numbered(first_id, final_id, delta)
        self._recent.append(numbered)
        while self._recent[0].delta.received_at_ns < delta.received_at_ns - RECENT_NS:
            self._recent.popleft()
        if self.held or (self.state == "synced" and first_id > self.update_id + 1):
            self.held.append(numbered)
        else:
            self._take(delta)

    def fill(self, others: Sequence["SequencedBook"], until_ns: int) -> bool:
        """Fill the gap from copies on other connections; return whether a gap is left.

        It is given up, and the book marked stale, if it was found before ``until_ns``, or if none
        of the others can deliver the missing deltas any more.
        """
        for other in others:
            both = sorted([*(other._recent or ()), *self.held], key=itemgetter(0, 1))
            for first_id, final_id, delta in both:
                if self.state == "synced" and first_id <= self.update_id + 1 <= final_id:
                    self._take(delta)
        while self.held and self.held[0].final_id <= self.update_id:
            self.held.popleft()
        if not self.held:
            return False
        wanted = self.update_id + 1
        if self.held[0].delta.received_at_ns > until_ns and any(
            other.may_deliver(wanted) for other in others
        ):
            return True
        held, self.held = self.held, deque()
        for _, _, delta in held:
            self._take(delta)
        return False

    def may_deliver(self, update_id: int) -> bool:
        """Whether this connection has not reached an update yet: it delivers them in order."""
        return not self._recent or self._recent[-1].final_id < update_id

    def _take(self, delta: BookDelta) -> None:
        if self._shadow is not None:
            self._shadow.receive(delta)
        first_id, final_id = delta.first_update_id, delta.final_update_id
        if first_id is None or final_id is None:
            self.invalidate("a delta without a number: nothing tells what it follows")
        elif self.state != "synced":
            self._keep(_Numbered(first_id, final_id, delta))
        # Not `first_id != expected`: a delta may overlap what a snapshot already contains. Only
        # one that begins after the expected id proves that something was lost.
        elif first_id > self.update_id + 1:
            lost = first_id - self.update_id - 1
            self.invalidate(f"gap: {lost} updates after {self.update_id} were lost")
            self._keep(_Numbered(first_id, final_id, delta))
        elif final_id > self.update_id:
            self.update_id = final_id
            self._apply(delta)

    def begin(self, snapshot: BookSnapshot) -> bool:
        """Start from a snapshot; return False if it does not reach or fit the deltas.

        A synced book stays as it is.
        """
        if self.state == "synced":
            return True
        if not self._reached_by(snapshot.update_id):
            return False
        try:
            if self.levels is not None:
                bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
                self.levels.load_raw(snapshot.bids_raw, snapshot.asks_raw)
                self.side_depths = side_depth(bids), side_depth(asks)
        except MalformedLevels as error:
            self.reason = f"snapshot: {error}"
            return False
        return self._follow(snapshot.update_id)

    def join_from(self, other: BookView) -> bool:
        """Start from another connection's copy of the book, instead of a fetched snapshot.

        False if that one is not synced, does not reach or fit the deltas, or before there are any.
        """
        if self.state == "synced":
            return True
        if other.state != "synced" or not self._buffer or not self._reached_by(other.update_id):
            return False
        if self.levels is not None and other.levels is not None:
            self.levels.load_plain(*other.levels.texts())
            self.side_depths = other.side_depths
        return self._follow(other.update_id)

    def _reached_by(self, update_id: int) -> bool:
        """Drop deltas that a book at that update contains; return whether it reaches the rest."""
        while self._buffer and self._buffer[0].final_id <= update_id:
            self._buffer.popleft()
        return not self._buffer or self._buffer[0].first_id <= update_id + 1

    def _follow(self, update_id: int) -> bool:
        """Mark the book synced as of that update, and apply the buffered deltas.

        Returns whether it is synced after them.
        """
        self.state, self.reason, self.wants_snapshot = "synced", "", False
        self.update_id = update_id
        buffered, self._buffer = self._buffer, deque(maxlen=BUFFERED_DELTAS)
        shadow, self._shadow = self._shadow, None  # it has received all of these
        for _, _, delta in buffered:
            self._take(delta)
        self._shadow = shadow
        return self.state == "synced"

    def invalidate(self, reason: str) -> None:
        """Mark the book stale: something was lost, or may have been."""
        if self.state == "synced":
            self.state = "stale"
            self.resyncs += 1
        self.reason = reason
        self.wants_snapshot = False  # until a delta shows that the stream runs again
        self._buffer.clear()
        self.held.clear()

    def interrupt(self, reason: str) -> None:
        """Mark the book stale: its stream has ended."""
        self.invalidate(reason)

    def carry_resyncs(self, before: int) -> None:
        """Continue the count of the book that this one replaces."""
        self.resyncs = max(self.resyncs, before)

    def forget_beyond(self, depth: int) -> None:
        """Drop levels beyond the known depth: they are never shown, and would accumulate."""
        if self.levels is not None:
            self.levels.forget_beyond(*KnownDepth(depth).ends(self))

    def audit(self, depth: int) -> "SequencedAudit":
        """Start an audit with a snapshot of ``depth`` levels."""
        return SequencedAudit(self, depth)

    def _keep(self, numbered: _Numbered) -> None:
        # Only consecutive deltas can follow a snapshot: those before a gap are useless.
        if self._buffer and numbered.first_id > self._buffer[-1].final_id + 1:
            self._buffer.clear()
        self._buffer.append(numbered)
        if not self.wants_snapshot:
            self.wants_snapshot = True
            if self.state == "syncing":
                self.reason = "waiting for a snapshot"

    def _apply(self, delta: BookDelta) -> None:
        levels = self.levels
        if levels is None:
            return
        try:
            levels.apply_raw(delta.bids_raw, delta.asks_raw)
        except MalformedLevels as error:
            self.invalidate(f"delta {self.update_id}: {error}")
            return
        if levels.crossed():
            self.found_crossed()

    def found_crossed(self) -> None:
        """Mark the book stale: something in it is wrong."""
        self.invalidate(f"crossed at {self.update_id}: somebody bids what is asked")


class SequencedAudit:
    """Compares a book with a snapshot at the same update id. See ``Audit``.

    A second book, the shadow, is started from the snapshot and receives the same deltas until both
    are at one id. The book then continues with the shadow's levels.
    """

    def __init__(self, book: SequencedBook, depth: int) -> None:
        self._book, self._depth = book, depth
        self._shadow = SequencedBook(keep_levels=book.levels is not None)
        self._ends: Ends | None = None
        """Of the snapshot, once the shadow has begun."""
        book._shadow = self._shadow
        self.finding: Finding | None = None

    def receive(self, snapshot: BookSnapshot) -> None:
        """Start the shadow from the snapshot, if that reaches its deltas."""
        if self._shadow.begin(snapshot):
            self._ends = ends_of(sides_of(snapshot), self._depth)

    def pause_s(self, waited_s: float) -> float:
        """Wait while the snapshot is ahead of the stream."""
        is_ahead = self._ends is not None and self._meets() is None
        return _MEET_CHECK_S if is_ahead and waited_s < _MEET_S else 0.0

    def finish(self, book: BookView) -> None:
        """Compare, if both are at the same update, and continue with the shadow's levels."""
        if book is not self._book or self._ends is None or not self._meets():
            return
        book, shadow = self._book, self._shadow
        assert book.levels is not None, "there is nothing to compare"
        assert shadow.levels is not None
        ends = self._ends.within(KnownDepth(self._depth).ends(book))
        drift = count_differing(book.levels.texts(), shadow.levels.texts(), ends)
        if drift:
            book.invalidate(f"audit: {drift} levels differ from the exchange's")
        book.levels, book.side_depths = shadow.levels, shadow.side_depths
        book._buffer.clear()
        book._follow(shadow.update_id)
        self.finding = Finding(drift, replaced=True)

    def close(self) -> None:
        """Stop receiving deltas."""
        if self._book._shadow is self._shadow:
            self._book._shadow = None

    def _meets(self) -> bool | None:
        """Whether both are at the same update; None if that depends on the next deltas."""
        book, shadow = self._book, self._shadow
        if book.state != "synced" or shadow.state != "synced":
            return False
        if shadow.update_id < book.update_id:
            return False
        return True if shadow.update_id == book.update_id else None
