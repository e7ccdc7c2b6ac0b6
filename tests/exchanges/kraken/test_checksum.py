"""Kraken's checksum: the exchange's own example, and every digit counts."""

import pytest

from penstock.books.top_book import TopBook
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.market.levels import LevelText

ASKS = """45285.2/0.00100000 45286.4/1.54571953 45286.6/1.54571109 45289.6/1.54560911
45290.2/0.15890660 45291.8/1.54553491 45294.7/0.04454749 45296.1/0.35380000 45297.5/0.09945542
45299.5/0.18772827"""
BIDS = """45283.5/0.10000000 45283.4/1.54582015 45282.1/0.10000000 45281.0/0.10000000
45280.3/1.54592586 45279.0/0.07990000 45277.6/0.03310103 45277.5/0.30000000 45277.3/1.54602737
45276.6/0.15445238"""
PROOF = 3_310_070_434


def levels(text: str) -> list[LevelText]:
    pairs = [pair.split("/") for pair in text.split()]
    return [(price, quantity) for price, quantity in pairs]


def book(bids: list[LevelText], asks: list[LevelText], depth: int = 10) -> TopBook:
    made = TopBook(depth, CHECKSUM)
    made.load_plain(bids, asks)
    return made


def test_the_documented_example_has_the_documented_checksum() -> None:
    assert book(levels(BIDS), levels(ASKS)).checksum() == PROOF


def test_ten_levels_count_however_deep_the_book_is_and_in_whatever_order_it_came() -> None:
    deeper = book([*levels(BIDS), ("1.0", "1.0")][::-1], [*levels(ASKS), ("99999.9", "1.0")], 25)

    assert deeper.checksum() == PROOF


@pytest.mark.parametrize(
    ("change", "to"),
    [("0.10000000", "0.1000000"), ("45283.5", "45283.50"), ("0.03310103", "0.03310104")],
)
def test_every_digit_counts_trailing_zeros_too(change: str, to: str) -> None:
    assert book(levels(BIDS.replace(change, to, 1)), levels(ASKS)).checksum() != PROOF


def test_a_thin_book_has_a_checksum_too() -> None:
    assert book([], []).checksum() == 0
    # zlib's own example: "123456789" made of one ask and one bid
    assert book([("56", "789")], [("0.012", "34")]).checksum() == 0xCBF4_3926
