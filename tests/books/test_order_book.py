"""The order book against the plainest model there is."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.books import order_book as book_module
from penstock.books.order_book import OrderBook
from penstock.books.top_book import TopBook
from penstock.errors import MalformedLevels
from penstock.market.levels import LevelText, read_levels, write_levels

# Few prices, spelled with more or fewer zeros, so that the same level is met again and again.
prices = st.builds(
    lambda whole, part, zeros: f"{whole}.{part:02d}" + "0" * zeros,
    st.integers(0, 30), st.integers(0, 5), st.integers(0, 12),
)  # fmt: skip
quantities = st.sampled_from(["0", "0.0", "0.00000000", "1", "2.50", "0.00000001", "9" * 40])
changes = st.lists(st.tuples(prices, quantities), max_size=8)


class Model:
    """Two dicts of Decimals."""

    def __init__(self) -> None:
        self.sides: tuple[dict[Decimal, Decimal], dict[Decimal, Decimal]] = ({}, {})

    def apply(self, bids: list[LevelText], asks: list[LevelText]) -> None:
        for side, levels in zip(self.sides, (bids, asks), strict=True):
            for price, quantity in levels:
                side[Decimal(price)] = Decimal(quantity)
                if not side[Decimal(price)]:
                    del side[Decimal(price)]


@pytest.mark.parametrize("spare", [0, 1_000], ids=["swept at once", "swept rarely"])
@given(steps=st.lists(st.tuples(changes, changes), max_size=30), load=st.booleans())
def test_the_book_equals_two_dicts_of_decimals(
    spare: int, steps: list[tuple[list[LevelText], list[LevelText]]], load: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(book_module, "_SPARE", spare)
        book, model = OrderBook(), Model()
        for number, (bids, asks) in enumerate(steps):
            if load and number == 0:
                book.load(bids, asks)
            else:
                book.apply(bids, asks)
            model.apply(bids, asks)

            bid_levels, ask_levels = model.sides
            crossed = bool(bid_levels and ask_levels and max(bid_levels) >= min(ask_levels))
            assert book.crossed() == crossed
            assert list(book.bids()) == sorted(bid_levels.items(), reverse=True)
            assert list(book.asks()) == sorted(ask_levels.items())
            assert book.best_bid == max(bid_levels.items(), default=None)
            assert book.best_ask == min(ask_levels.items(), default=None)
            assert len(book) == len(bid_levels) + len(ask_levels)


def test_the_best_levels_keep_every_digit() -> None:
    book = OrderBook()
    book.load([("1.10", "5"), ("0." + "1" * 40, "0." + "3" * 40)], [("2.00", "7.50")])

    assert book.best_bid == (Decimal("1.10"), Decimal(5))
    assert list(book.bids())[1] == (Decimal("0." + "1" * 40), Decimal("0." + "3" * 40))
    assert str(next(book.asks(1))[1]) == "7.50", "trailing zeros are the wire's and stay"


def test_one_price_spelled_twice_is_one_level() -> None:
    book = OrderBook()
    book.apply([("1.1", "5")], [])
    book.apply([("1.10000000000", "0")], [])

    assert book.best_bid is None


def test_a_price_spelled_twice_in_one_change_is_what_was_said_last() -> None:
    book = OrderBook()
    book.apply([("1.1", "5")], [])
    book.apply([("1.10", "6"), ("1.100", "8"), ("1.1", "7")], [])
    assert book.texts() == ([("1.1", "7")], [])

    book.apply([("1.1", "9"), ("1.10", "0")], [])
    assert book.texts() == ([], [])


def test_removed_levels_do_not_pile_up() -> None:
    book = OrderBook()
    for number in range(20_000):
        book.apply([(f"{number}.5", "1")], [])
        book.apply([(f"{number}.5", "0")], [])
    book.apply([("1.5", "1")], [])

    assert book.texts() == ([("1.5", "1")], [])
    assert len(book._bids.quantities) == len(book._bids.keys) < 2_000


def test_a_level_that_is_gone_crosses_nothing() -> None:
    book = OrderBook()
    book.apply([("2.0", "1"), ("1.0", "1")], [("3.0", "1")])
    book.apply([("2.0", "0")], [("1.5", "1")])

    assert not book.crossed()
    assert book.best_bid == (Decimal(1), Decimal(1))


def test_a_bid_as_high_as_an_ask_crosses() -> None:
    book = OrderBook()
    book.load([("2", "1")], [("3", "1")])

    book.apply([("3.0", "1")], [])

    assert book.crossed()


def test_what_is_known_to_the_last_price_is_kept_with_that_price() -> None:
    book = OrderBook()
    book.load([("3", "1"), ("2", "1"), ("1", "1")], [("4", "1"), ("5", "1"), ("6", "1")])

    book.forget_beyond(Decimal(2), Decimal(5))

    assert book.texts() == ([("3", "1"), ("2", "1")], [("4", "1"), ("5", "1")])


def test_a_finer_price_leaves_the_levels_of_both_sides_where_they_are() -> None:
    book = OrderBook()
    book.load([("2", "1"), ("1", "1")], [("3", "1"), ("4", "1")])

    book.apply([("1.0000000001", "5")], [("3.0000000001", "6")])

    assert book.texts() == (
        [("2", "1"), ("1.0000000001", "5"), ("1", "1")],
        [("3", "1"), ("3.0000000001", "6"), ("4", "1")],
    )


def test_nothing_that_is_no_number_stays_in_the_book() -> None:
    book = OrderBook()
    book.apply([("2.0", "1")], [])
    with pytest.raises(MalformedLevels):
        book.apply([("1.0", "1"), ("x", "1"), ("0.5", "1")], [])

    assert book.texts()[0][0] == ("2.0", "1")
    assert all(price != "x" for price, _ in book.texts()[0])
    book.apply([("0.5", "2")], [])
    assert book.texts()[0][-1] == ("0.5", "2")


def test_loading_forgets_what_was_there() -> None:
    book = OrderBook()
    book.load([("1", "1")], [("2", "1")])
    book.load([("3", "1")], [])

    assert (book.best_bid, book.best_ask) == ((Decimal(3), Decimal(1)), None)


def test_more_prices_than_are_remembered_are_still_right() -> None:
    book = OrderBook()
    book.load([(f"{n}.5", "1") for n in range(45_000)], [])

    assert len(book) == 45_000
    assert book.best_bid == (Decimal("44999.5"), Decimal(1))


ends = st.none() | st.decimals(0, 31, places=2)


@given(changes, changes, changes, changes, ends, ends)
def test_what_is_beyond_some_prices_is_forgotten(
    bids: list[LevelText],
    asks: list[LevelText],
    more_bids: list[LevelText],
    more_asks: list[LevelText],
    lowest: Decimal | None,
    highest: Decimal | None,
) -> None:
    book, model = OrderBook(), Model()
    book.apply(bids, asks)
    model.apply(bids, asks)
    book.forget_beyond(lowest, highest)
    bid_levels, ask_levels = model.sides
    for price in [each for each in bid_levels if lowest is not None and each < lowest]:
        del bid_levels[price]
    for price in [each for each in ask_levels if highest is not None and each > highest]:
        del ask_levels[price]
    for _ in range(2):
        assert list(book.bids()) == sorted(bid_levels.items(), reverse=True)
        assert list(book.asks()) == sorted(ask_levels.items())
        book.apply(more_bids, more_asks)
        model.apply(more_bids, more_asks)


@pytest.mark.parametrize("price", ["", ".", "abc", "1.2.3", "-1", "1e5", "NaN", "١", "9" * 5000])
def test_a_price_that_is_no_number_is_refused(price: str) -> None:
    with pytest.raises(MalformedLevels):
        OrderBook().apply([(price, "1")], [])


@pytest.mark.parametrize("quantity", ["", ".", "abc", "1.2.3", "-1", "1e5", "NaN", "١", "9" * 5000])
def test_a_quantity_that_is_no_number_is_refused(quantity: str) -> None:
    book = OrderBook()
    book.load([("1", "1")], [("3", "1")])
    with pytest.raises(MalformedLevels):
        book.apply([("1", "5")], [("2", quantity)])
    assert list(book.bids()) == [(Decimal(1), Decimal(1))], "nothing was changed"

    with pytest.raises(MalformedLevels):
        book.load([("1", "1")], [("2", quantity)])
    assert len(book) == 0


def test_zero_is_zero_however_it_is_written() -> None:
    book = OrderBook()
    for zero in ("0", "0.", "00.0", "0." + "0" * 60):
        book.apply([("1", "5")], [])
        book.apply([("1", zero)], [])
        assert len(book) == 0


@pytest.mark.parametrize("zero", ["0E-8", "-0", "+0", "0e0", "-0.000", "０", "0,0", "", "."])
def test_what_is_no_plain_number_is_refused_and_not_taken_for_a_quantity(zero: str) -> None:
    book = OrderBook()
    book.load([("1", "5")], [("2", "5")])
    with pytest.raises(MalformedLevels):
        book.apply([("1", zero)], [])
    with pytest.raises(MalformedLevels):
        read_levels(write_levels([("1", zero)]))

    assert book.texts() == ([("1", "5")], [("2", "5")])


@pytest.mark.parametrize("zero", ["0", "0.", "0.000", ".0", "00", "0" * 20 + "." + "0" * 20])
def test_a_level_of_zero_is_gone_for_whoever_looks(zero: str) -> None:
    book = OrderBook()
    book.load([("3", "1"), ("1", "5")], [("4", "1"), ("2.5", zero)])
    book.apply([("3", zero)], [("4", zero), ("5", "2")])

    assert book.texts() == ([("1", "5")], [("5", "2")])
    assert (book.best_bid, book.best_ask) == ((Decimal(1), Decimal(5)), (Decimal(5), Decimal(2)))
    assert (len(book), book.crossed()) == (2, False)

    best = TopBook(10)
    best.load_plain([("3", "1"), ("1", "5")], [("4", "1"), ("2.5", zero)])
    best.apply_plain([("3", zero)], [("4", zero), ("5", "2")])
    assert best.texts() == ([("1", "5")], [("5", "2")])


def test_a_price_that_is_new_and_removed_again_in_another_spelling_is_gone() -> None:
    book = OrderBook()

    book.apply([("1.10", "5"), ("1.1", "7"), ("1.10", "0")], [])

    assert book.texts() == ([], [])
