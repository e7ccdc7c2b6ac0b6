"""Binance's symbols: both assets as the exchange names them, whatever they look like."""

import json

import pytest

from penstock.errors import UnknownSymbol
from penstock.exchanges.binance.symbols import INFO
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol


def listing(*assets: tuple[str, str]) -> SymbolMap:
    symbols = [{"symbol": b + q, "baseAsset": b, "quoteAsset": q, "status": "X"} for b, q in assets]
    return INFO.read(json.dumps({"symbols": symbols, "rateLimits": []}).encode(), 1).symbols


def test_names_are_never_split_by_guessing() -> None:
    symbols = listing(("BNB", "USDT"), ("1INCH", "BTC"), ("USDT", "BRL"), ("币安人生", "USDT"))

    assert symbols.symbol("USDTBRL") == Symbol("USDT", "BRL")
    assert symbols.symbol("币安人生USDT") == Symbol("币安人生", "USDT")
    assert symbols.native(Symbol("1INCH", "BTC")) == "1INCHBTC"


@pytest.mark.parametrize(
    "typed", ["bnb_usdt", "BNB/USDT", "BNB-USDT", "bnb/usdt", "BNBUSDT", "bnbusdt"]
)
def test_a_symbol_is_found_however_it_is_typed(typed: str) -> None:
    assert listing(("BNB", "USDT")).find(typed) == Symbol("BNB", "USDT")


@pytest.mark.parametrize("typed", ["bnb_usd", "BNB-USD", "BNBUSD", "bnb/usd", ""])
def test_what_is_not_listed_is_refused_with_near_matches(typed: str) -> None:
    with pytest.raises(UnknownSymbol) as caught:
        listing(("BNB", "USDT"), ("ETH", "EUR")).find(typed)
    assert caught.value.near == (["bnb_usdt"] if typed else [])
