"""The top of a book: the best levels and no others, whatever comes in whatever order."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.books.rules import Checksum
from penstock.books.top_book import TopBook
from penstock.errors import MalformedLevels
from penstock.market.levels import LevelText

prices = st.integers(1, 30).flatmap(
    lambda number: st.sampled_from(
        [f"{number}", f"{number}.0", f"{number}.50", f"0.0{number}", f"{number}.0000000001"]
    )
)
quantities = st.sampled_from(["0", "0.00000000", "1.5", "2.50000000", "3"])
changes = st.lists(st.tuples(prices, quantities), max_size=12)


def sides(book: TopBook) -> tuple[list[LevelText], list[LevelText]]:
    return book.texts()


@given(st.integers(1, 5), st.integers(1, 5), st.lists(st.tuples(changes, changes), max_size=12))
def test_it_holds_what_a_dict_cut_to_the_best_would_hold(
    depth: int, counted: int, updates: list[tuple[list[LevelText], list[LevelText]]]
) -> None:
    book = TopBook(depth, Checksum(counted, "/{}".format, lambda *sides: hash(sides)))
    plain: tuple[dict[Decimal, LevelText], dict[Decimal, LevelText]] = ({}, {})
    for update in updates:
        book.apply_plain(*update)
        for held, levels, best_is_highest in zip(plain, update, (True, False), strict=True):
            for level in levels:
                held[Decimal(level[0])] = level
                if not Decimal(level[1]):
                    del held[Decimal(level[0])]
            for price in sorted(held, reverse=best_is_highest)[depth:]:
                del held[price]
        bids, asks = plain
        assert book.texts() == (
            [bids[price] for price in sorted(bids, reverse=True)],
            [asks[price] for price in sorted(asks)],
        )
        assert book.texts(2) == (book.texts()[0][:2], book.texts()[1][:2])
        spelled = ["".join(f"/{p}/{q}" for p, q in side) for side in book.texts(counted)]
        assert book.checksum() == hash((*spelled,)), "also when most of it was remembered"
        assert len(book) == len(bids) + len(asks)
        assert book.crossed() == bool(bids and asks and max(bids) >= min(asks))
        loaded = TopBook(depth)
        loaded.load_plain(*book.texts())
        assert loaded.texts() == book.texts()
        assert book.best_bid == (_exact(bids[max(bids)]) if bids else None)
        assert book.best_ask == (_exact(asks[min(asks)]) if asks else None)


def _exact(level: LevelText) -> tuple[Decimal, Decimal]:
    return Decimal(level[0]), Decimal(level[1])


def test_without_a_rule_there_is_no_checksum() -> None:
    assert TopBook(3).checksum() is None


def test_a_changed_quantity_enters_the_checksum() -> None:
    book = TopBook(2, Checksum(2, "/{}".format, lambda *sides: hash(sides)))
    book.load_plain([("1.0", "1")], [("2.0", "1")])

    book.apply_plain([("1.0", "5")], [])

    assert book.checksum() == hash(("/1.0/5", "/2.0/1"))


def test_a_level_that_was_pushed_out_does_not_come_back_by_itself() -> None:
    book = TopBook(2)
    book.load_plain([], [("1.0", "1"), ("2.0", "1"), ("3.0", "1")])
    book.apply_plain([], [("1.0", "0")])

    assert sides(book) == ([], [("2.0", "1")]), "what became of 3.0 nobody was told"


@given(st.integers(1, 5), changes, changes)
def test_loading_is_applying_to_an_empty_book(
    depth: int, bids: list[LevelText], asks: list[LevelText]
) -> None:
    loaded, applied = TopBook(depth), TopBook(depth)
    loaded.apply_plain([("0.123456789", "1")], [("7", "1")])
    loaded.load_plain(bids, asks)
    applied.apply_plain(bids, asks)

    assert loaded.texts() == applied.texts()
    loaded.apply_plain(asks, bids)
    applied.apply_plain(asks, bids)
    assert loaded.texts() == applied.texts()


def test_what_was_loaded_before_is_forgotten() -> None:
    book = TopBook(5)
    book.load_plain([("1.0", "1")], [("2.0", "1")])
    book.load_plain([("0.5", "1")], [])

    assert sides(book) == ([("0.5", "1")], [])


@pytest.mark.parametrize("price", ["", ".", "-1", "1e5", "NaN", "１", "1" * 101, "1.2.3"])
def test_a_price_that_is_no_number_is_refused(price: str) -> None:
    book = TopBook(5)
    with pytest.raises(MalformedLevels):
        book.load_plain([("1.0", "1")], [(price, "1")])
    assert len(book) == 0


def test_remembered_prices_are_bounded_and_stay_right() -> None:
    book = TopBook(3)
    for number in range(1, 25_000):
        book.apply_plain([(f"{number}.00", "1.0")], [])

    assert [price for price, _ in book.texts()[0]] == ["24999.00", "24998.00", "24997.00"]
