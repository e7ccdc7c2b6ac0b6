"""Symbols: two spellings that always lead to each other."""

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedSymbol
from penstock.market.symbol import Symbol

assets = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/"), min_size=1, max_size=20
)


@given(assets, assets)
def test_both_spellings_lead_back_to_the_symbol(base: str, quote: str) -> None:
    symbol = Symbol(base, quote)

    assert Symbol.parse(symbol.slug) == symbol
    assert Symbol.parse(symbol.unified) == symbol


@given(assets, assets)
def test_a_slug_is_safe_in_file_names_and_topics(base: str, quote: str) -> None:
    slug = Symbol(base, quote).slug

    assert re.fullmatch(r"([a-z0-9]|%[0-9a-f]{2})+_([a-z0-9]|%[0-9a-f]{2})+", slug)


@given(assets, assets, assets, assets)
def test_different_markets_have_different_slugs(a: str, b: str, c: str, d: str) -> None:
    left, right = Symbol(a, b), Symbol(c, d)

    assert (left == right) == (left.slug == right.slug) == (left.unified == right.unified)


@given(st.text(max_size=30))
def test_any_text_is_a_symbol_or_a_clear_refusal(text: str) -> None:
    try:
        symbol = Symbol.parse(text)
    except MalformedSymbol as error:
        assert "btc_usdt" in str(error), "the message shows how to write one"
    else:
        assert Symbol.parse(symbol.slug) == symbol


@given(assets, assets)
def test_equal_symbols_are_one_object(base: str, quote: str) -> None:
    symbol = Symbol(base, quote)

    assert Symbol.parse(symbol.slug) is symbol
    assert copy.deepcopy(symbol) is symbol
    assert pickle.loads(pickle.dumps(symbol)) is symbol


def test_case_does_not_matter_when_typed() -> None:
    assert Symbol.parse("Btc/usdt") == Symbol.parse("BTC_USDT") == Symbol("BTC", "USDT")


def test_letters_outside_ascii_keep_their_case() -> None:
    assert Symbol("ß", "USDT").unified == "ß/USDT"
    assert Symbol("ß", "USDT") != Symbol("SS", "USDT")


@pytest.mark.parametrize("text", ["BTC-USDT", "btc-usdt", "Btc-Usdt"])
def test_a_hyphen_separates_like_a_slash(text: str) -> None:
    assert Symbol.parse(text) is Symbol("BTC", "USDT")


def test_an_asset_outside_ascii_is_percent_encoded() -> None:
    assert Symbol("币", "USDT").slug == "%e5%b8%81_usdt"


def test_a_separator_inside_an_asset_is_percent_encoded() -> None:
    assert Symbol("ETH2.S", "A_B").slug == "eth2%2es_a%5fb"


@pytest.mark.parametrize(
    "text",
    ["BTCUSDT", "/USDT", "btc_", "a/b/c", "%62tc_usdt", "%ff_usdt", "B TC/X", "BTC-", "A-B-C"],
)
def test_what_is_no_symbol_is_refused(text: str) -> None:
    with pytest.raises(MalformedSymbol):
        Symbol.parse(text)
