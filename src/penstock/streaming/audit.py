"""Audits: is a kept book the exchange's book? Compare it with a snapshot that was asked for apart.

A numbered book is compared at one and the same update: a shadow of it is begun from the snapshot
and given the same deltas, until both stand at one number. Without numbers nothing tells which state
of the book a snapshot shows, so it is compared with every state the book passed through meanwhile.
A snapshot may even have been made in the middle of a change that was told as one; then it is like
the book before the change in all levels that the change does not touch. What is counted are the
levels that differ, and the state that differs least is taken for the one that was meant.
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
"""Whether it is bid, and the price."""
_Levels = dict[_Price, Decimal]
_NOTHING = Decimal()


class Ends(NamedTuple):
    """The last prices down to which a book is known; None where it is to its end."""

    bid: Decimal | None = None
    ask: Decimal | None = None

    def within(self, other: "Ends") -> "Ends":
        """What both know."""
        return Ends(
            max((each for each in (self.bid, other.bid) if each is not None), default=None),
            min((each for each in (self.ask, other.ask) if each is not None), default=None),
        )

    def known(self, sides: Sides) -> Sides:
        """Of a book's levels, those that lie before the ends."""
        bids, asks = sides
        return (
            [level for level in bids if self.bid is None or Decimal(level[0]) >= self.bid],
            [level for level in asks if self.ask is None or Decimal(level[0]) <= self.ask],
        )


def ends_of(sides: Sides, depth: int | None) -> Ends:
    """How far levels are known of which ``depth`` were asked for; fewer are all there are."""
    if depth is None:
        return Ends()
    bids, asks = sides
    return Ends(
        Decimal(bids[depth - 1][0]) if len(bids) >= depth else None,
        Decimal(asks[depth - 1][0]) if len(asks) >= depth else None,
    )


def sides_of(snapshot: BookSnapshot) -> Sides:
    """A snapshot's levels, best first.

    Raises:
        MalformedLevels: they are not pairs of texts.
    """
    bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
    return sorted(bids, key=_price, reverse=True), sorted(asks, key=_price)


def differing(ours: Sides, theirs: Sides, ends: Ends) -> int:
    """How many levels differ between two books, as far as they are known."""
    return len(_wrong(_levels(ours, ends), _levels(theirs, ends), _NOTHING))


class Shadow:
    """A second book of a numbered one, begun from a snapshot of its own. Close it in the end."""

    def __init__(self, sync: BookSync) -> None:
        self._sync, self._own = sync, BookSync(keep_levels=sync.book is not None)
        sync.shadow = self._own

    def join(self, snapshot: BookSnapshot) -> bool:
        """Begin the second book; False if the snapshot is older than what was heard since."""
        return self._own.join(snapshot)

    def meets(self) -> bool | None:
        """Whether both stand at one update; None if only what comes next can tell."""
        sync, own = self._sync, self._own
        if sync.state != "synced" or own.state != "synced" or own.update_id < sync.update_id:
            return False
        return True if own.update_id == sync.update_id else None

    def drift(self, ends: Ends) -> int:
        """How many levels differ. Only where both meet."""
        if self._sync.book is None or self._own.book is None:
            return 0
        return differing(self._sync.book.texts(), self._own.book.texts(), ends)

    def take_over(self, reason: str = "") -> None:
        """Let the book go on with the second one's levels; with a reason, it was wrong before."""
        if reason:
            self._sync.distrust(reason)
        self._sync.continue_from(self._own)

    def close(self) -> None:
        """Stop listening."""
        if self._sync.shadow is self._own:
            self._sync.shadow = None


class Comparison(NamedTuple):
    """What a comparison without numbers found."""

    drift: int
    """Levels that differ."""
    moving: int
    """Levels that changed just then, and are neither as they were before nor as they were after."""
    changes: int
    """After how many changes since the beginning the book was in the state that was meant; if that
    was in the middle of a change, after it."""


class StateHistory:
    """The states an unnumbered book passes through from now on. Close it in the end."""

    def __init__(self, sync: StreamedBook, rules: BookRules, depth: int) -> None:
        """``depth`` is how many levels a side are looked at."""
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
        """Whether the book could be believed all the time."""
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
        """The book after so many changes, as far as it is known, and the exchange's time of it."""
        *_, sides = self._states(self._told[:changes])
        at_ns = self._told[changes - 1].at_ns if changes else self._at_ns
        return (sides if self._rules.depth else self._ends().known(sides)), at_ns

    def close(self) -> None:
        """Stop listening."""
        if self._sync.told is self._told:
            self._sync.told = None

    def _ends(self) -> Ends:
        return ends_of(self._start, self._depth)

    def _walk(self, theirs: Sides, ends: Ends) -> Iterator[Comparison]:
        """Through the states of a whole book, looking only at what changes."""
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
        """Through the states of a short book, which does not say what it no longer shows."""
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
        """What a snapshot is that shows the book before a change, or in the middle of it."""
        moving = wrong & changed.keys()
        unlike = [
            price
            for price in moving
            if not _alike(changed[price], truth.get(price, _NOTHING), self._step)
        ]
        return Comparison(len(wrong) - len(moving), len(unlike), changes + bool(moving))

    def _states(self, told: Sequence[BookChange]) -> Iterator[Sides]:
        """The book as it was in the beginning, and after each change."""
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
    """Where two differ; a level that is not there is one of nothing."""
    return {
        each
        for each in ours.keys() | theirs.keys()
        if not _alike(ours.get(each, _NOTHING), theirs.get(each, _NOTHING), step)
    }


def _alike(ours: Decimal, theirs: Decimal, step: Decimal) -> bool:
    """Whether one may be the other, rounded to a multiple of the step, whichever way."""
    return ours == theirs or abs(ours - theirs) < step


def _price(level: LevelText) -> Decimal:
    return Decimal(level[0])
