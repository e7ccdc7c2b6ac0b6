"""Upbit's symbols: the quote comes first, and everybody else has it last."""

import json

import pytest

from penstock.errors import UnexpectedAnswer, UnknownSymbol
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.upbit.symbols import INFO
from penstock.market.symbol import Symbol


def listing(*markets: str) -> SymbolMap:
    rows = [{"market": each, "korean_name": "비트코인"} for each in markets]
    return INFO.read(json.dumps(rows).encode(), 1).symbols


@pytest.mark.parametrize("typed", ["btc_krw", "BTC/KRW", "KRW-BTC", "krw-btc"])
def test_a_symbol_is_found_however_it_is_typed(typed: str) -> None:
    assert listing("KRW-BTC", "BTC-ETH").find(typed) == Symbol("BTC", "KRW")


def test_the_other_way_round_is_another_market() -> None:
    symbols = listing("KRW-BTC", "BTC-KRW")

    assert symbols.symbol("KRW-BTC") == Symbol("BTC", "KRW")
    assert symbols.symbol("BTC-KRW") == Symbol("KRW", "BTC")
    with pytest.raises(UnknownSymbol):
        listing("KRW-BTC").find("krw_btc")


def test_a_name_that_is_none_hides_only_itself() -> None:
    symbols = listing("KRW", "KRW-", "-BTC", "KRW-A/B", "KRW-币", "USDT-XRP")

    assert [symbol.unified for symbol in symbols] == ["币/KRW", "XRP/USDT"]
    assert symbols.native(Symbol("币", "KRW")) == "KRW-币"


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'[{"code":"KRW-BTC"}]', b'[{"market":7}]'])
def test_a_listing_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        INFO.read(body, 1)
