"""The catalogue holds what it promises, and operators find markets by any of their names."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnknownSymbol
from penstock.simulator.binance.listings import CATALOGUE
from penstock.simulator.market.listings import Catalogue, Row, slug
from penstock.simulator.market.market import Listing, Market, library_of

DAY_MS = 86_400_000


def ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000


def named(name: str) -> Listing:
    (listing,) = CATALOGUE.find([name])
    return listing


def test_the_catalogue_is_as_mixed_as_a_real_exchange() -> None:
    listings = CATALOGUE.all()
    rates = Counter(listing.trades_per_minute for listing in listings)
    busiest = {slug(listing) for listing in listings if listing.trades_per_minute == 3600}

    assert len(listings) >= 24
    assert busiest == {"btc_usdt", "eth_usdt", "bnb_usdt"}
    assert set(rates) == {3600, 600, 60, 6}
    assert {"USDT", "BTC", "ETH", "EUR", "FDUSD"} <= {listing.quote for listing in listings}
    assert any(listing.base[0].isdigit() for listing in listings)
    assert any(not listing.base.isascii() for listing in listings)
    assert any(listing.start_price < 10 ** (listing.price_decimals - 4) for listing in listings)
    assert min(listing.listed_at_ms for listing in listings) == ms("2017-08-17")
    assert max(listing.listed_at_ms for listing in listings) >= ms("2024-01-01")


def test_no_two_markets_share_a_symbol() -> None:
    symbols = [listing.base + listing.quote for listing in CATALOGUE.all()]

    assert len(set(symbols)) == len(symbols)


def test_every_market_of_the_catalogue_can_be_opened() -> None:

    for listing in [
        *CATALOGUE.all(),
        *CATALOGUE.find(["sim001_usdt", "sim011_usdt", "sim999_usdt", "fast01_usdt"]),
    ]:
        trade = Market(listing, 1, library_of(listing)).trades(1, 1)[0]
        assert trade.at_ms >= listing.listed_at_ms


@pytest.mark.parametrize("name", ["btc_usdt", "BTC/USDT", "BTCUSDT", "btcusdt", " BTC-USDT "])
def test_a_market_is_found_by_any_of_its_spellings(name: str) -> None:
    assert slug(named(name)) == "btc_usdt"


def test_a_name_that_is_not_ascii_has_a_slug_that_is() -> None:
    listing = named("币安人生/USDT")

    assert slug(listing) == "%e5%b8%81%e5%ae%89%e4%ba%ba%e7%94%9f_usdt"
    assert named(slug(listing)) == listing
    assert named("币安人生usdt") == listing


def test_all_is_the_whole_catalogue_and_nothing_is_listed_twice() -> None:
    assert CATALOGUE.find(["btc_usdt", "all", "BTCUSDT", "sim001_usdt"]) == [
        named("btc_usdt"),
        *(listing for listing in CATALOGUE.all() if slug(listing) != "btc_usdt"),
        named("sim001_usdt"),
    ]


@pytest.mark.parametrize(
    "name", ["btc_usd", "sim000_usdt", "sim1000_usdt", "sim01_usdt", "fast00_usdt", ""]
)
def test_an_unknown_name_is_refused_even_after_a_known_one(name: str) -> None:
    with pytest.raises(UnknownSymbol, match="the simulator does not list"):
        CATALOGUE.find(["eth_usdt", name])


def test_a_name_that_is_nearly_right_brings_a_suggestion() -> None:
    with pytest.raises(UnknownSymbol, match="btc_usdt"):
        CATALOGUE.find(["BTC-USD"])


@given(st.integers(1, 999))
def test_a_market_made_by_rule_keeps_the_rules(number: int) -> None:
    listing = named(f"SIM{number:03}USDT")

    assert slug(listing) == f"sim{number:03}_usdt"
    assert listing.price_decimals + listing.quantity_decimals <= 8
    assert listing.listed_at_ms % DAY_MS == 0


def test_most_markets_made_by_rule_are_quiet() -> None:
    rates = Counter(named(f"sim{number:03}_usdt").trades_per_minute for number in range(1, 1000))

    assert rates[6] > 0.85 * 999
    assert rates[60] > 50
    assert rates[600] >= 5


def test_no_names_at_all_are_the_first_few() -> None:
    assert CATALOGUE.find([]) == CATALOGUE.all()[:3]


def test_another_catalogue_has_markets_made_by_rule_in_its_own_quote() -> None:
    other = Catalogue((Row("BTC", "KRW", "90000000", 8, 60, "2020-01-01", 1, 1000),), "KRW")

    (listing,) = other.find(["btc/krw"])
    assert (listing.start_price, listing.price_step) == (90_000, 1000)
    assert [slug(each) for each in other.find(["sim007_krw"])] == ["sim007_krw"]
    with pytest.raises(UnknownSymbol):
        other.find(["sim007_usdt"])
