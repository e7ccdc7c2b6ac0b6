"""Eight decimals, always, and the value is exactly the market's."""

from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.binance.spelling import Kline, Spelling, exact
from penstock.simulator.market.market import AggTrade, Listing, Sums, Trade

decimals = st.integers(0, 8)
units = st.integers(0, 10**15)


@st.composite
def listings(draw: st.DrawFn) -> Listing:
    price_decimals = draw(decimals)
    return Listing(
        base="A",
        quote="B",
        price_decimals=price_decimals,
        quantity_decimals=draw(st.integers(0, 8 - price_decimals)),
        start_price=1,
        trades_per_minute=6,
        listed_at_ms=0,
    )


def has_eight_decimals(text: str) -> bool:
    whole, _, part = text.partition(".")
    return whole.lstrip("-").isdigit() and part.isdigit() and len(part) == 8


@given(st.integers(-(10**15), 10**15), decimals)
def test_a_spelled_number_is_the_number(value: int, places: int) -> None:
    text = exact(value, places)

    assert has_eight_decimals(text)
    assert Decimal(text) == Decimal(value).scaleb(-places)


def test_decimals_beyond_eight_are_cut_off() -> None:
    assert exact(19_999_999_999, 10) == "1.99999999"
    assert exact(-19_999_999_999, 10) == "-1.99999999"


@given(listings(), units, units, st.booleans())
def test_a_trade_is_spelled_exactly(
    listing: Listing, price: int, quantity: int, taker_buys: bool
) -> None:
    trade = Trade(17, 1_700_000_000_000, price, quantity, taker_buys)

    (row,) = msgspec.json.decode(Spelling(listing).trades([trade]))

    assert list(row) == ["id", "price", "qty", "quoteQty", "time", "isBuyerMaker", "isBestMatch"]
    assert all(has_eight_decimals(row[name]) for name in ("price", "qty", "quoteQty"))
    price_units, quantity_units, quote_units = (
        int(row[name].replace(".", "")) for name in ("price", "qty", "quoteQty")
    )
    assert price_units == price * 10 ** (8 - listing.price_decimals)
    assert quantity_units == quantity * 10 ** (8 - listing.quantity_decimals)
    assert quote_units * 10**8 == price_units * quantity_units
    assert (row["id"], row["time"]) == (17, 1_700_000_000_000)
    assert row["isBuyerMaker"] is not taker_buys


@given(listings(), units, units)
def test_pages_and_single_numbers_are_spelled_alike(
    listing: Listing, price: int, quantity: int
) -> None:
    spelling = Spelling(listing)
    sums = Sums(price, price + 3, price + 1, price + 2, quantity, quantity * price, 5, 7, 9, 1, 9)
    group = AggTrade(4, 12, price, quantity, 5, 6, True)

    (kline,) = msgspec.json.decode(spelling.klines([Kline(0, 59_999, sums)]))
    (row,) = msgspec.json.decode(spelling.agg_trades([group]))
    frame = msgspec.json.decode(spelling.agg_trade_frame(group))
    level = msgspec.json.decode(spelling.levels([(price, quantity)]))

    assert kline == [
        0,
        spelling.price(price),
        spelling.price(price + 3),
        spelling.price(price + 1),
        spelling.price(price + 2),
        spelling.quantity(quantity),
        59_999,
        spelling.amount(quantity * price),
        9,
        spelling.quantity(5),
        spelling.amount(7),
        "0",
    ]
    assert row == {
        "a": 4,
        "p": spelling.price(price),
        "q": spelling.quantity(quantity),
        "f": 5,
        "l": 6,
        "T": 12,
        "m": False,
        "M": True,
    }
    assert frame == {"e": "aggTrade", "E": 12, "s": "AB", **row}
    assert level == [[spelling.price(price), spelling.quantity(quantity)]]


@given(listings(), st.integers(1, 10**9), st.integers(1, 10**9))
def test_an_average_lies_at_most_a_last_digit_below_the_true_one(
    listing: Listing, amount: int, lots: int
) -> None:
    spelled = Decimal(Spelling(listing).average(amount, lots))

    true = (Decimal(amount) / Decimal(lots)).scaleb(-listing.price_decimals)
    assert true - Decimal("0.00000002") <= spelled <= true + Decimal("0.00000001")


def test_the_average_of_nothing_is_zero() -> None:
    listing = Listing("A", "B", 2, 2, 1, 6, 0)

    assert Spelling(listing).average(0, 0) == "0.00000000"
