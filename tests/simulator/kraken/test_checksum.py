"""The checksum against the vector that Kraken publishes, and against a spelling of its own."""

from decimal import Decimal
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.kraken.checksum import checksum
from penstock.simulator.kraken.spelling import exact
from penstock.simulator.market.book import Level

ASKS = """45285.2/0.00100000 45286.4/1.54571953 45286.6/1.54571109 45289.6/1.54560911
45290.2/0.15890660 45291.8/1.54553491 45294.7/0.04454749 45296.1/0.35380000
45297.5/0.09945542 45299.5/0.18772827"""
BIDS = """45283.5/0.10000000 45283.4/1.54582015 45282.1/0.10000000 45281.0/0.10000000
45280.3/1.54592586 45279.0/0.07990000 45277.6/0.03310103 45277.5/0.30000000
45277.3/1.54602737 45276.6/0.15445238"""


def _levels(text: str) -> list[Level]:
    pairs = [map(Decimal, level.split("/")) for level in text.split()]
    return [(int(price.scaleb(1)), int(quantity.scaleb(8))) for price, quantity in pairs]


def test_the_published_book_has_the_published_checksum() -> None:
    assert checksum(_levels(BIDS), _levels(ASKS), lot=1) == 3310070434


def test_only_the_ten_best_count() -> None:
    deeper = _levels(BIDS + " 45276.5/1.00000000")

    assert checksum(deeper, _levels(ASKS), lot=1) == 3310070434


LEVELS = st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), max_size=10)


@given(LEVELS, LEVELS, st.integers(0, 8), st.integers(0, 8))
def test_integers_give_what_the_written_numbers_would(
    bids: list[Level], asks: list[Level], price_decimals: int, quantity_decimals: int
) -> None:
    lot = 10 ** (8 - quantity_decimals)
    text = ""
    for price, quantity in (*asks, *bids):
        for number in (exact(price, price_decimals), exact(quantity * lot, 8)):
            text += number.replace(".", "").lstrip("0")

    assert checksum(bids, asks, lot) == crc32(text.encode())
