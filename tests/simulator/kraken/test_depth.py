"""A book cut off at a depth: a client that follows the changes has the true one, always."""

from collections.abc import Callable

import pytest

from penstock.simulator.kraken.depth import Depth
from penstock.simulator.kraken.instrument import Instrument
from penstock.simulator.market.book import Book, Level

Truncate = Callable[[dict[int, int], int], None]


def _at_the_end(side: dict[int, int], changes: list[Level], depth: int, sign: int) -> None:
    for price, quantity in changes:
        side[price] = quantity
    _cut(side, depth, sign)


def _at_each_step(side: dict[int, int], changes: list[Level], depth: int, sign: int) -> None:
    for price, quantity in changes:
        side[price] = quantity
        _cut(side, depth, sign)


def _cut(side: dict[int, int], depth: int, sign: int) -> None:
    kept = sorted(((p, q) for p, q in side.items() if q), key=lambda level: level[0] * sign)
    side.clear()
    side.update(kept[:depth])


@pytest.mark.parametrize("follow", [_at_the_end, _at_each_step])
@pytest.mark.parametrize(("symbol", "depth"), [("ETH/USD", 10), ("ETH/USD", 100), ("ETH/BTC", 25)])
def test_whoever_applies_the_changes_and_drops_the_rest_has_the_best_levels(
    instruments: dict[str, Instrument],
    as_of_ms: int,
    symbol: str,
    depth: int,
    follow: Callable[[dict[int, int], list[Level], int, int], None],
) -> None:
    book = instruments[symbol].book
    cut, first = Depth(book, depth), as_of_ms // Book.SLOT_MS
    start = cut.after(first)
    bids, asks = dict(start.bids), dict(start.asks)
    told = 0

    for slot in range(first + 1, first + 600):
        changes = cut.changes(slot)
        if changes is not None:
            told += 1
            follow(bids, changes.bids, depth, -1)
            follow(asks, changes.asks, depth, 1)
        if slot % 7 == 0 or changes is not None:
            truth = book.at(book.update_id(slot), depth)
            assert (list(bids.items()), list(asks.items())) == truth

    assert told > 50


def test_levels_that_it_does_not_hold_are_never_taken_for_those_it_shows(
    instruments: dict[str, Instrument], as_of_ms: int
) -> None:
    book = instruments["BTC/USD"].book
    followed, first = Depth(book, 10, margin=3), as_of_ms // Book.SLOT_MS

    for slot in range(first, first + 200):
        followed.changes(slot)
        bids, asks = book.at(book.update_id(slot), 10)
        assert followed.after(slot) == (bids, asks)


def test_nothing_is_told_that_does_not_change_and_nothing_beyond_the_end(
    instruments: dict[str, Instrument], as_of_ms: int
) -> None:
    cut, first = Depth(instruments["ETH/USD"].book, 10), as_of_ms // Book.SLOT_MS

    for slot in range(first, first + 300):
        changes = cut.changes(slot)
        if changes is None:
            continue
        before, now = Depth(instruments["ETH/USD"].book, 10), cut.after(slot)
        old = before.after(slot - 1)
        for told, was, is_now in zip(changes, old, now, strict=True):
            assert not set(told) & set(was)
            assert {level for level in told if level[1]} == set(is_now) - set(was)
            assert {price for price, quantity in told if not quantity} <= dict(was).keys()


def test_slots_may_be_asked_for_in_any_order(
    instruments: dict[str, Instrument], as_of_ms: int
) -> None:
    cut, first = Depth(instruments["ETH/USD"].book, 25), as_of_ms // Book.SLOT_MS
    slots = range(first, first + 50)
    forwards = [(cut.changes(slot), cut.after(slot)) for slot in slots]

    backwards = [(cut.changes(slot), cut.after(slot)) for slot in reversed(slots)]

    assert backwards[::-1] == forwards
