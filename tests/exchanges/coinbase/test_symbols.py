"""Coinbase's symbols: what the id says, whatever stands beside it."""

import json

import pytest

from penstock.errors import UnexpectedAnswer, UnknownSymbol
from penstock.exchanges.coinbase.symbols import INFO
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol


def listing(*ids: str) -> SymbolMap:
    rows = [{"id": each, "base_currency": "BTC", "quote_currency": "USD"} for each in ids]
    return INFO.read(json.dumps(rows).encode(), 1).symbols


def test_an_auction_book_is_a_market_of_its_own() -> None:
    symbols = listing("BTC-USD", "BTCAUCTION-USD")

    assert symbols.symbol("BTC-USD") == Symbol("BTC", "USD")
    assert symbols.native(Symbol("BTCAUCTION", "USD")) == "BTCAUCTION-USD"


def test_a_name_that_is_none_hides_only_itself() -> None:
    symbols = listing("BTC", "-USD", "A/B-USD", "", "币-USD", "ETH-USD")

    assert [symbol.unified for symbol in symbols] == ["币/USD", "ETH/USD"]
    assert symbols.find("币-USD") == symbols.find("%e5%b8%81_usd") == Symbol("币", "USD")


def test_a_delisted_product_keeps_its_name() -> None:
    body = b'[{"id":"XRP-USD","status":"delisted","trading_disabled":true}]'

    assert INFO.read(body, 1).symbols.find("xrp_usd") == Symbol("XRP", "USD")


def test_a_mistyped_symbol_is_named_with_near_matches() -> None:
    with pytest.raises(UnknownSymbol) as caught:
        listing("BTC-USD").find("btc_usdd")
    assert caught.value.near == ["btc_usd"]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'[{"name":"BTC-USD"}]', b'[{"id":7}]'])
def test_a_listing_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        INFO.read(body, 1)
