"""Book sync maintains a book with numbered updates, and detects when it is no longer correct.

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

from penstock.errors import MalformedLevels
from penstock.market.book import OrderBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import LevelText, split_levels
from penstock.streaming.dialect import BookState

BUFFERED_DELTAS = 4_096
"""Deltas kept while a snapshot is fetched: seven minutes at ten a second."""


RECENT_NS = 5_000_000_000
_RECENT_DELTAS = 256
"""Recent deltas, up to this age and number, are kept for connections that lack them."""
_LAST_PART = 0.2
"""The last share of a snapshot's levels: a price among these is near the known depth's end."""


class SideDepth(NamedTuple):
    """The depth of one side of a snapshot. Levels beyond it are known only once they change."""

    levels: int = 0
    last: str = ""
    """The price of its last level."""
    late: str = ""
    """The price at which the last share of its levels begins."""


class _Numbered(NamedTuple):
    first_id: int
    final_id: int
    delta: BookDelta


class BookSync:
    """One symbol's book, and whether it is valid.

    ``syncing`` until a snapshot first joins the deltas, ``synced`` while they follow each other,
    ``stale`` from the moment they do not until a snapshot joins again.
    """

    at_ns: int | None = None
    """Not kept: the update id identifies the state."""

    __slots__ = (
        "_buffer",
        "_recent",
        "book",
        "held",
        "reason",
        "resyncs",
        "shadow",
        "side_depths",
        "state",
        "update_id",
        "wants_snapshot",
    )

    def __init__(self, *, keep_levels: bool = True) -> None:
        self.state: BookState = "syncing"
        self.reason = "no delta yet"
        self.update_id = 0
        """Of the latest state, while synced."""
        self.wants_snapshot = False
        self.resyncs = 0
        """How often a synced book had to start again."""
        self.book = OrderBook() if keep_levels else None
        self.side_depths = SideDepth(), SideDepth()
        """Of the bids and asks of the snapshot from which it started."""
        self.shadow: BookSync | None = None
        """Another book that receives the same deltas; see ``audit``."""
        self._buffer: deque[_Numbered] = deque(maxlen=BUFFERED_DELTAS)
        self.held: deque[_Numbered] = deque()
        """Deltas after a gap that another connection may fill."""
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

    def fill(self, others: Sequence["BookSync"], until_ns: int) -> bool:
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
            other.may_bring(wanted) for other in others
        ):
            return True
        held, self.held = self.held, deque()
        for _, _, delta in held:
            self._take(delta)
        return False

    def may_bring(self, update_id: int) -> bool:
        """Whether this connection has not reached an update yet: it delivers them in order."""
        return not self._recent or self._recent[-1].final_id < update_id

    def _take(self, delta: BookDelta) -> None:
        if self.shadow is not None:
            self.shadow.receive(delta)
        first_id, final_id = delta.first_update_id, delta.final_update_id
        if first_id is None or final_id is None:
            self.distrust("a delta without a number: nothing tells what it follows")
        elif self.state != "synced":
            self._keep(_Numbered(first_id, final_id, delta))
        # Not `first_id != expected`: a delta may overlap what a snapshot already contains. Only
        # one that begins after the expected id proves that something was lost.
        elif first_id > self.update_id + 1:
            lost = first_id - self.update_id - 1
            self.distrust(f"gap: {lost} updates after {self.update_id} were lost")
            self._keep(_Numbered(first_id, final_id, delta))
        elif final_id > self.update_id:
            self.update_id = final_id
            self._apply(delta)

    def join(self, snapshot: BookSnapshot) -> bool:
        """Start from a snapshot; return False if it does not reach the deltas: fetch another."""
        if self.state == "synced":
            return True
        if not self._reached_by(snapshot.update_id):
            return False
        try:
            if self.book is not None:
                bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
                self.book.load_plain(bids, asks)
                self.side_depths = _side_depth(bids), _side_depth(asks)
        except MalformedLevels as error:
            self.reason = f"snapshot: {error}"
            return False
        self._follow(snapshot.update_id)
        return True

    def join_from(self, other: "BookSync") -> bool:
        """Start from another connection's copy of the book, instead of a fetched snapshot.

        False if that one is not synced or does not reach the deltas, or before there are any.
        """
        if self.state == "synced":
            return True
        if other.state != "synced" or not self._buffer or not self._reached_by(other.update_id):
            return False
        if self.book is not None and other.book is not None:
            self.book.load_plain(*other.book.texts())
            self.side_depths = other.side_depths
        self._follow(other.update_id)
        return True

    def continue_from(self, other: "BookSync") -> None:
        """Take over the levels of another book at the same update, which is not used any more."""
        self.state, self.reason, self.wants_snapshot = "synced", "", False
        self.book, self.side_depths, self.update_id = other.book, other.side_depths, other.update_id
        self._buffer.clear()

    def _reached_by(self, update_id: int) -> bool:
        """Drop deltas that a book at that update contains; return whether it reaches the rest."""
        while self._buffer and self._buffer[0].final_id <= update_id:
            self._buffer.popleft()
        return not self._buffer or self._buffer[0].first_id <= update_id + 1

    def _follow(self, update_id: int) -> None:
        """Mark the book synced as of that update, and apply the buffered deltas."""
        self.state, self.reason, self.wants_snapshot = "synced", "", False
        self.update_id = update_id
        buffered, self._buffer = self._buffer, deque(maxlen=BUFFERED_DELTAS)
        shadow, self.shadow = self.shadow, None  # it has received all of these
        for _, _, delta in buffered:
            self._take(delta)
        self.shadow = shadow

    def distrust(self, reason: str) -> None:
        """Mark the book stale: something was lost, or may have been."""
        if self.state == "synced":
            self.state = "stale"
            self.resyncs += 1
        self.reason = reason
        self.wants_snapshot = False  # until a delta shows that the stream runs again
        self._buffer.clear()
        self.held.clear()

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
        book = self.book
        if book is None:
            return
        try:
            book.apply_plain(split_levels(delta.bids_raw), split_levels(delta.asks_raw))
        except MalformedLevels as error:
            self.distrust(f"delta {self.update_id}: {error}")
            return
        if book.crossed():
            self.distrust(f"crossed at {self.update_id}: somebody bids what is asked")


def _side_depth(levels: list[LevelText]) -> SideDepth:
    if not levels:
        return SideDepth()
    late = min(len(levels) - 1, round(len(levels) * (1 - _LAST_PART)))
    return SideDepth(len(levels), levels[-1][0], levels[late][0])
