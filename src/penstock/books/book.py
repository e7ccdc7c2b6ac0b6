"""What every kind of book offers: a view of its state to readers, and the events that change it.

sequenced   updates have ids; a snapshot fetched by REST is joined to them
streamed    the stream starts with a snapshot; checked by a checksum where there is one
whole       every frame is the whole book
"""

from collections.abc import Collection
from decimal import Decimal
from typing import NamedTuple, Protocol

from penstock.books.rules import BookState
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import Level, LevelText

Sides = tuple[list[LevelText], list[LevelText]]
"""Bids and asks, best first."""


class SideDepth(NamedTuple):
    """The depth of one side of a snapshot. Levels beyond it are known only once they change."""

    levels: int = 0
    last: Decimal | None = None
    """The price of its last level."""
    late: Decimal | None = None
    """The price at which the last share of its levels begins."""


KNOWN_COMPLETELY = SideDepth(), SideDepth()


class Levels(Protocol):
    """The levels of a book."""

    @property
    def best_bid(self) -> Level | None:
        """The highest bid, if there is one."""
        ...

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask, if there is one."""
        ...

    def crossed(self) -> bool:
        """Whether the best bid reaches the best ask: never true of a correct book."""
        ...

    def texts(self, depth: int | None = None) -> Sides:
        """Bids and asks, best first, in the wire's digits."""
        ...

    def __len__(self) -> int: ...


class Finding(NamedTuple):
    """The result of an audit."""

    drift: int
    """Levels that differed."""
    replaced: bool = False
    """Whether the book continues from the audit's snapshot."""
    confirmed: tuple[Sides, int | None] | None = None
    """Where lost changes do not show: the state of the book, and its exchange time, that the
    snapshot equals in every level."""


class Audit(Protocol):
    """The comparison of a book with a snapshot that is fetched separately. Close it after use."""

    finding: Finding | None
    """None until it is finished, and if the two cannot be compared."""

    def receive(self, snapshot: BookSnapshot) -> None:
        """Handle the snapshot.

        Raises:
            MalformedLevels: its levels are not pairs of texts.
        """
        ...

    def pause_s(self, waited_s: float) -> float:
        """How long to wait before the next check, or 0.0: the stream has delivered enough.

        ``waited_s`` is the time since the snapshot was received.
        """
        ...

    def finish(self, book: "BookView") -> None:
        """Compare, and correct the book if it is wrong.

        ``book`` is the market's book now; nothing is found if another was audited.
        """
        ...

    def close(self) -> None:
        """Stop receiving what the book receives."""
        ...


class BookView(Protocol):
    """One market's book, to read.

    ``syncing`` until it is first started, ``synced`` while nothing contradicts it, ``stale`` from
    the moment something does until it is started again.
    """

    @property
    def state(self) -> BookState: ...

    @property
    def reason(self) -> str:
        """Why it is not synced."""
        ...

    @property
    def update_id(self) -> int:
        """Of the latest state, while synced; 0 where there are no update ids."""
        ...

    @property
    def at_ns(self) -> int | None:
        """The exchange's time of the latest state; None where the update id identifies it."""
        ...

    @property
    def resyncs(self) -> int:
        """How often a synced book had to start again."""
        ...

    @property
    def levels(self) -> Levels | None:
        """None if only the ids or times are checked."""
        ...

    @property
    def side_depths(self) -> tuple[SideDepth, SideDepth]:
        """Of the bids and asks of the snapshot from which it started."""
        ...

    def audit(self, depth: int) -> Audit:
        """Start an audit with a snapshot of ``depth`` levels; only of a synced book with levels."""
        ...


class Book(BookView, Protocol):
    """One market's book, and the events that change it."""

    @property
    def wants_snapshot(self) -> bool:
        """Whether it cannot continue without a snapshot."""
        ...

    @property
    def held(self) -> Collection[object]:
        """Deltas after a gap that another connection may fill."""
        ...

    def receive(self, delta: BookDelta) -> None:
        """Handle the next delta of the stream."""
        ...

    def begin(self, snapshot: BookSnapshot) -> bool:
        """Start from a snapshot; return whether the book is synced."""
        ...

    def join_from(self, other: BookView) -> bool:
        """Start from another connection's copy of the book; return whether that was possible."""
        ...

    def expect_copies(self, *, copies: bool) -> None:
        """Set whether other connections deliver the same."""
        ...

    def invalidate(self, reason: str) -> None:
        """Mark the book stale: something contradicts it, or is known to be lost."""
        ...

    def interrupt(self, reason: str) -> None:
        """Mark the book stale: its stream has ended, so nothing is wanted until it runs again."""
        ...

    def forget_beyond(self, depth: int) -> None:
        """Drop levels beyond those known from a snapshot of ``depth`` levels."""
        ...

    def carry_resyncs(self, before: int) -> None:
        """Continue the count of the book that this one replaces."""
        ...
