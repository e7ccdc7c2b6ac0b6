"""Audits compare a maintained book with a snapshot that is fetched separately.

A numbered book is compared at the same update id: a shadow book is started from the snapshot and
receives the same deltas, until both are at one id. Without ids it is unknown which state of the
book a snapshot shows, so it is compared with every state the book passed through meanwhile. A
snapshot may even have been taken in the middle of a change that was sent as one; then it equals the
book before the change in all levels that the change does not touch. The levels that differ are
counted, and the state that differs least is assumed to be the one in the snapshot.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import LevelText, split_levels
from penstock.market.whole_book import WholeBook
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook, empty_book

Sides = tuple[list[LevelText], list[LevelText]]
"""Bids and asks, best first."""
BookChange = BookDelta | BookSnapshot
_Price = tuple[bool, Decimal]
"""Whether it is a bid, and the price."""
_Levels = dict[_Price, Decimal]
_NOTHING = Decimal()


class Ends(NamedTuple):
    """The last prices up to which a book is known; None where it is known completely."""

    bid: Decimal | None = None
    ask: Decimal | None = None

    def within(self, other: "Ends") -> "Ends":
        """Return the range that is known in both."""
        return Ends(
            max((each for each in (self.bid, other.bid) if each is not None), default=None),
            min((each for each in (self.ask, other.ask) if each is not None), default=None),
        )

    def known(self, sides: Sides) -> Sides:
        """Return the levels of a book within the ends."""
        bids, asks = sides
        return (
            [level for level in bids if self.bid is None or Decimal(level[0]) >= self.bid],
            [level for level in asks if self.ask is None or Decimal(level[0]) <= self.ask],
        )


def ends_of(sides: Sides, depth: int | None) -> Ends:
    """Return the ends of levels of which ``depth`` were requested; fewer are the whole side."""
    if depth is None:
        return Ends()
    bids, asks = sides
    return Ends(
        Decimal(bids[depth - 1][0]) if len(bids) >= depth else None,
        Decimal(asks[depth - 1][0]) if len(asks) >= depth else None,
    )


def sides_of(snapshot: BookSnapshot) -> Sides:
    """Return a snapshot's levels, best first.

    Raises:
        MalformedLevels: they are not pairs of texts.
    """
    bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
    return sorted(bids, key=_price, reverse=True), sorted(asks, key=_price)


def differing(ours: Sides, theirs: Sides, ends: Ends) -> int:
    """Return the number of levels that differ between two books, as far as they are known."""
    return len(_wrong(_levels(ours, ends), _levels(theirs, ends), _NOTHING))


class Shadow:
    """A second copy of a numbered book, started from its own snapshot. Close it after use."""

    def __init__(self, sync: BookSync) -> None:
        self._sync, self._own = sync, BookSync(keep_levels=sync.book is not None)
        sync.shadow = self._own

    def join(self, snapshot: BookSnapshot) -> bool:
        """Start the second book; return False if the snapshot does not reach its deltas."""
        return self._own.join(snapshot)

    def meets(self) -> bool | None:
        """Whether both are at the same update; None if that depends on the next deltas."""
        sync, own = self._sync, self._own
        if sync.state != "synced" or own.state != "synced" or own.update_id < sync.update_id:
            return False
        return True if own.update_id == sync.update_id else None

    def drift(self, ends: Ends) -> int:
        """Return the number of levels that differ. Only when both are at the same update."""
        if self._sync.book is None or self._own.book is None:
            return 0
        return differing(self._sync.book.texts(), self._own.book.texts(), ends)

    def take_over(self, reason: str = "") -> None:
        """Replace the book's levels by the second one's; with a reason, it was wrong before."""
        if reason:
            self._sync.distrust(reason)
        self._sync.continue_from(self._own)

    def close(self) -> None:
        """Stop receiving deltas."""
        if self._sync.shadow is self._own:
            self._sync.shadow = None


class Comparison(NamedTuple):
    """The result of a comparison without update ids."""

    drift: int
    """Levels that differ."""
    moving: int
    """Levels that changed at that time, and equal neither their state before nor after."""
    changes: int
    """The number of changes since the start after which the book was in the snapshot's state; if
    that was in the middle of a change, including it."""


class StateHistory:
    """The states of a book without update ids from now on. Close it after use."""

    def __init__(self, sync: StreamedBook, rules: BookRules, depth: int) -> None:
        """``depth`` is the number of levels per side that are compared."""
        assert sync.book is not None, "there is nothing to compare"
        self._sync, self._rules, self._depth = sync, rules, depth
        self._at_ns = sync.at_ns
        decimals = rules.fetched_decimals
        self._step = _NOTHING if decimals is None else Decimal(1).scaleb(-decimals)
        self._start: Sides = sync.book.texts(depth)
        self._told: list[BookChange] = []
        sync.told = self._told

    @property
    def whole(self) -> bool:
        """Whether the book was valid all the time."""
        return self._sync.told is self._told

    def compare(self, snapshot: BookSnapshot) -> Comparison:
        """Find the state that differs least from a snapshot.

        Raises:
            MalformedLevels: its levels are not pairs of texts.
        """
        bids, asks = sides_of(snapshot)
        theirs = bids[: self._depth], asks[: self._depth]
        walk = self._walk if self._rules.depth is None else self._walk_top
        return min(walk(theirs, ends_of(theirs, self._depth)))

    def state(self, changes: int) -> tuple[Sides, int | None]:
        """Return the book after so many changes, as far as it is known, and its exchange time."""
        *_, sides = self._states(self._told[:changes])
        at_ns = self._told[changes - 1].at_ns if changes else self._at_ns
        return (sides if self._rules.depth else self._ends().known(sides)), at_ns

    def close(self) -> None:
        """Stop recording changes."""
        if self._sync.told is self._told:
            self._sync.told = None

    def _ends(self) -> Ends:
        return ends_of(self._start, self._depth)

    def _walk(self, theirs: Sides, ends: Ends) -> Iterator[Comparison]:
        """Compare each state of a whole book, evaluating only the levels that change."""
        ends = ends.within(self._ends())
        ours, truth = _levels(self._start, ends), _levels(theirs, ends)
        wrong = _wrong(ours, truth, self._step)
        for changes, told in enumerate(self._told):
            changed = _levels(_sides_of_change(told), ends)
            if isinstance(told, BookSnapshot):
                changed = dict.fromkeys(ours, _NOTHING) | changed
            yield self._comparison(wrong, changed, truth, changes)
            for price, quantity in changed.items():
                ours[price] = quantity
                if _alike(quantity, truth.get(price, _NOTHING), self._step):
                    wrong.discard(price)
                else:
                    wrong.add(price)
        yield Comparison(len(wrong), 0, len(self._told))

    def _walk_top(self, theirs: Sides, ends: Ends) -> Iterator[Comparison]:
        """Compare each state of a book with a depth, which does not report levels that drop out."""
        states = self._states(self._told)
        now = next(states)
        for changes, (told, after) in enumerate(zip(self._told, states, strict=True)):
            both = ends.within(ends_of(now, self._rules.depth))
            both = both.within(ends_of(after, self._rules.depth))
            ours, then, truth = (_levels(each, both) for each in (now, after, theirs))
            touched = _wrong(ours, then, _NOTHING)
            if isinstance(told, BookDelta):
                touched |= _levels(_sides_of_change(told), both).keys()
            changed = {price: then.get(price, _NOTHING) for price in touched}
            yield self._comparison(_wrong(ours, truth, self._step), changed, truth, changes)
            now = after
        ends = ends.within(ends_of(now, self._rules.depth))
        wrong = _wrong(_levels(now, ends), _levels(theirs, ends), self._step)
        yield Comparison(len(wrong), 0, len(self._told))

    def _comparison(
        self, wrong: set[_Price], changed: _Levels, truth: _Levels, changes: int
    ) -> Comparison:
        """Compare a snapshot with the book before a change, or in the middle of it."""
        moving = wrong & changed.keys()
        unlike = [
            price
            for price in moving
            if not _alike(changed[price], truth.get(price, _NOTHING), self._step)
        ]
        return Comparison(len(wrong) - len(moving), len(unlike), changes + bool(moving))

    def _states(self, told: Sequence[BookChange]) -> Iterator[Sides]:
        """Yield the book at the start, and after each change."""
        book = empty_book(self._rules)
        yield self._start
        if not isinstance(book, WholeBook):
            book.load_plain(*self._start)
        for each in told:
            if isinstance(book, WholeBook):
                book.load_raw(each.bids_raw, each.asks_raw)
            elif isinstance(each, BookSnapshot):
                book.load_plain(*_sides_of_change(each))
            else:
                book.apply_plain(*_sides_of_change(each))
            yield book.texts()


def _sides_of_change(told: BookChange) -> Sides:
    return split_levels(told.bids_raw), split_levels(told.asks_raw)


def _levels(sides: Sides, ends: Ends) -> _Levels:
    bids, asks = ends.known(sides)
    found = {(True, Decimal(price)): Decimal(quantity) for price, quantity in bids}
    found |= {(False, Decimal(price)): Decimal(quantity) for price, quantity in asks}
    return found


def _wrong(ours: _Levels, theirs: _Levels, step: Decimal) -> set[_Price]:
    """Return the prices at which two differ; a missing level has the quantity zero."""
    return {
        each
        for each in ours.keys() | theirs.keys()
        if not _alike(ours.get(each, _NOTHING), theirs.get(each, _NOTHING), step)
    }


def _alike(ours: Decimal, theirs: Decimal, step: Decimal) -> bool:
    """Whether two may be equal, with one rounded up or down to a multiple of the step."""
    return ours == theirs or abs(ours - theirs) < step


def _price(level: LevelText) -> Decimal:
    return Decimal(level[0])
