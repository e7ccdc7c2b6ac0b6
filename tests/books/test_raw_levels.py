"""A book that is told whole: as it was told, in order, whatever the order it was told in."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.books.raw_levels import RawLevels
from penstock.market.levels import LevelText, write_levels

prices = st.integers(1, 99).map(lambda number: f"{number}.50")
sides = st.lists(st.tuples(prices, st.sampled_from(["1.0", "2", "0.5"])), unique_by=lambda p: p[0])


def book_of(bids: list[LevelText], asks: list[LevelText], depth: int | None = None) -> RawLevels:
    book = RawLevels(depth)
    book.load_raw(write_levels(bids), write_levels(asks))
    return book


@given(sides, sides, st.integers(1, 5))
def test_it_is_read_best_first(bids: list[LevelText], asks: list[LevelText], depth: int) -> None:
    book = book_of(bids, asks, depth)
    best_bids = sorted(bids, key=lambda level: -Decimal(level[0]))[:depth]
    best_asks = sorted(asks, key=lambda level: Decimal(level[0]))[:depth]

    assert book.texts() == (best_bids, best_asks)
    assert book.texts(2) == (best_bids[:2], best_asks[:2])
    assert len(book) == len(best_bids) + len(best_asks)
    for best, levels in ((book.best_bid, best_bids), (book.best_ask, best_asks)):
        assert best == (tuple(map(Decimal, levels[0])) if levels else None)


@given(sides, sides)
def test_it_is_crossed_if_its_best_prices_are(bids: list[LevelText], asks: list[LevelText]) -> None:
    bids.sort(key=lambda level: -Decimal(level[0]))
    asks.sort(key=lambda level: Decimal(level[0]))
    crossed = bool(bids and asks) and Decimal(bids[0][0]) >= Decimal(asks[0][0])

    assert book_of(bids, asks).crossed() == crossed


def test_a_new_book_replaces_the_old_one() -> None:
    book = book_of([("1.0", "1.0")], [("2.0", "1.0")])
    book.load_raw(write_levels([]), write_levels([("3.0", "1.0")]))

    assert book.texts() == ([], [("3.0", "1.0")])
    assert RawLevels(15).texts() == ([], [])
