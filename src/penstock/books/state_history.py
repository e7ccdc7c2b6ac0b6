"""The states of a book without update ids, to find the one that a fetched snapshot shows.

Without ids it is unknown which state of the book a snapshot shows, so it is compared with every
state the book passed through meanwhile. A snapshot may even have been taken in the middle of a
change that was sent as one; then it equals the book before the change in all levels that the change
does not touch. The levels that differ are counted, and the state that differs least is assumed to
be the one in the snapshot.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from penstock.books.book import Sides
from penstock.books.known_depth import Ends, ends_of
from penstock.books.level_diff import (
    NOTHING,
    LevelKey,
    Quantities,
    alike,
    differing,
    quantities,
    sides_of,
)
from penstock.books.order_book import OrderBook
from penstock.books.rules import BookRules
from penstock.books.top_book import TopBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import split_levels

BookChange = BookDelta | BookSnapshot


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
    """A book's levels at the start, and its changes since."""

    def __init__(self, start: Sides, at_ns: int | None, rules: BookRules, depth: int) -> None:
        """``at_ns`` is the start's time, ``depth`` the levels per side that are compared."""
        self._start, self._at_ns, self._rules, self._depth = start, at_ns, rules, depth
        decimals = rules.fetched_decimals
        self._step = NOTHING if decimals is None else Decimal(1).scaleb(-decimals)
        self._changes: list[BookChange] = []

    def append(self, change: BookChange) -> None:
        """Add the book's next change."""
        self._changes.append(change)

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
        *_, sides = self._states(self._changes[:changes])
        at_ns = self._changes[changes - 1].at_ns if changes else self._at_ns
        return (sides if self._rules.depth else self._ends().known(sides)), at_ns

    def _ends(self) -> Ends:
        return ends_of(self._start, self._depth)

    def _walk(self, theirs: Sides, ends: Ends) -> Iterator[Comparison]:
        """Compare each state of a whole book, evaluating only the levels that change."""
        ends = ends.within(self._ends())
        ours, truth = quantities(self._start, ends), quantities(theirs, ends)
        wrong = differing(ours, truth, self._step)
        for changes, change in enumerate(self._changes):
            changed = quantities(_sides_of_change(change), ends)
            if isinstance(change, BookSnapshot):
                changed = dict.fromkeys(ours, NOTHING) | changed
            yield self._comparison(wrong, changed, truth, changes)
            for price, quantity in changed.items():
                ours[price] = quantity
                if alike(quantity, truth.get(price, NOTHING), self._step):
                    wrong.discard(price)
                else:
                    wrong.add(price)
        yield Comparison(len(wrong), 0, len(self._changes))

    def _walk_top(self, theirs: Sides, ends: Ends) -> Iterator[Comparison]:
        """Compare each state of a book with a depth, which does not report levels that drop out."""
        states = self._states(self._changes)
        now = next(states)
        for changes, (change, after) in enumerate(zip(self._changes, states, strict=True)):
            both = ends.within(ends_of(now, self._rules.depth))
            both = both.within(ends_of(after, self._rules.depth))
            ours, then, truth = (quantities(each, both) for each in (now, after, theirs))
            touched = differing(ours, then, NOTHING)
            if isinstance(change, BookDelta):
                touched |= quantities(_sides_of_change(change), both).keys()
            changed = {price: then.get(price, NOTHING) for price in touched}
            yield self._comparison(differing(ours, truth, self._step), changed, truth, changes)
            now = after
        ends = ends.within(ends_of(now, self._rules.depth))
        wrong = differing(quantities(now, ends), quantities(theirs, ends), self._step)
        yield Comparison(len(wrong), 0, len(self._changes))

    def _comparison(
        self, wrong: set[LevelKey], changed: Quantities, truth: Quantities, changes: int
    ) -> Comparison:
        """Compare a snapshot with the book before a change, or in the middle of it."""
        moving = wrong & changed.keys()
        unlike = [
            price
            for price in moving
            if not alike(changed[price], truth.get(price, NOTHING), self._step)
        ]
        return Comparison(len(wrong) - len(moving), len(unlike), changes + bool(moving))

    def _states(self, changes: Sequence[BookChange]) -> Iterator[Sides]:
        """Yield the book at the start, and after each change."""
        depth = self._rules.depth
        levels = OrderBook() if depth is None else TopBook(depth)
        yield self._start
        levels.load_plain(*self._start)
        for each in changes:
            if isinstance(each, BookSnapshot):
                levels.load_plain(*_sides_of_change(each))
            else:
                levels.apply_plain(*_sides_of_change(each))
            yield levels.texts()


def _sides_of_change(change: BookChange) -> Sides:
    return split_levels(change.bids_raw), split_levels(change.asks_raw)
