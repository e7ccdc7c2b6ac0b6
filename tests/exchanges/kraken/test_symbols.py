"""Kraken's symbols: four spellings of one pair, from what the exchange lists and nothing else."""

import json

import pytest

from penstock.errors import UnexpectedAnswer, UnknownSymbol
from penstock.exchanges.kraken.symbols import ASSETS, INFO, info_with
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol


def listing(*pairs: tuple[str, str, str | None]) -> SymbolMap:
    """Of (id, altname, wsname)."""
    result = {
        pair_id: {"altname": altname} | ({} if wsname is None else {"wsname": wsname})
        for pair_id, altname, wsname in pairs
    }
    return INFO.read(json.dumps({"error": [], "result": result}).encode(), 1).symbols


REAL = listing(
    ("XXBTZUSD", "XBTUSD", "XBT/USD"),
    ("XXBTZUSD.d", "XBTUSD.d", None),
    ("XDGUSD", "XDGUSD", "XDG/USD"),
    ("XTZXBT", "XTZXBT", "XTZ/XBT"),
    ("AAPLxUSD", "AAPLxUSD", "AAPLx/USD"),
    ("ZEURZUSD", "EURUSD", "EUR/USD"),
)


@pytest.mark.parametrize(
    ("native", "streamed", "unified"),
    [
        ("XXBTZUSD", "BTC/USD", "BTC/USD"),
        ("XDGUSD", "DOGE/USD", "DOGE/USD"),
        ("XTZXBT", "XTZ/BTC", "XTZ/BTC"),
        ("AAPLxUSD", "AAPLx/USD", "AAPLX/USD"),
        ("ZEURZUSD", "EUR/USD", "EUR/USD"),
    ],
)
def test_a_pair_has_one_name_here_and_keeps_the_exchanges_own(
    native: str, streamed: str, unified: str
) -> None:
    symbol = REAL.symbol(native)

    assert symbol.unified == unified
    assert REAL.native(symbol) == native
    assert REAL.stream_name(symbol) == streamed


def test_a_map_made_of_what_a_map_lists_is_the_same() -> None:
    again = SymbolMap(REAL.exchange, REAL.listed)

    assert again.stream_name(Symbol("AAPLX", "USD")) == "AAPLx/USD"
    assert again.find("XBT/USD") == Symbol("BTC", "USD")
    assert list(again) == list(REAL)


def test_assets_are_called_as_the_list_of_assets_calls_them() -> None:
    assets = {"XXBT": "XBT", "XXDG": "XDG", "ZUSD": "USD", "XTZ": "XTZ", "AAPLx": "AAPLx"}
    rows = {name: {"aclass": "currency", "altname": altname} for name, altname in assets.items()}
    names = ASSETS.read(json.dumps({"error": [], "result": rows}).encode(), 1)
    # What the first streams called a pair need not be what its assets are called now.
    pairs = {
        "XXBTZUSD": {"altname": "XBTUSD", "wsname": "XBT/USD", "base": "XXBT", "quote": "ZUSD"},
        "XDGUSD": {"altname": "XDGUSD", "wsname": "OLD/USD", "base": "XXDG", "quote": "ZUSD"},
        "XTZXBT": {"altname": "XTZXBT", "wsname": "XTZ/XBT", "base": "XTZ", "quote": "XXBT"},
        "AAPLxUSD": {"altname": "AAPLxUSD", "wsname": "A/USD", "base": "AAPLx", "quote": "ZUSD"},
        "NEWUSD": {"altname": "NEWUSD", "wsname": "NEW/USD", "base": "NEW", "quote": "ZUSD"},
        "XXBTZUSD.d": {"altname": "XBTUSD.d", "base": "XXBT", "quote": "ZUSD"},
    }
    symbols = info_with(names).read(json.dumps({"error": [], "result": pairs}).encode(), 1).symbols

    assert {symbols.native(symbol): symbols.stream_name(symbol) for symbol in symbols} == {
        "XXBTZUSD": "BTC/USD", "XDGUSD": "DOGE/USD", "XTZXBT": "XTZ/BTC", "AAPLxUSD": "AAPLx/USD",
        "NEWUSD": "NEW/USD",
    }  # fmt: skip
    for typed in ("XXBTZUSD", "XBTUSD", "XBT/USD", "xbt/usd", "BTC/USD", "btc_usd"):
        assert symbols.find(typed) == Symbol("BTC", "USD")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error":[]}', b'{"result":{"XXBT":{}}}', b"\xff"])
def test_a_list_of_assets_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        ASSETS.read(body, 1)


def test_dark_pools_and_other_pairs_without_a_wsname_are_left_out() -> None:
    assert len(REAL) == 5
    assert REAL.get("XXBTZUSD.d") is None


def test_a_name_that_is_none_hides_only_itself() -> None:
    symbols = listing(("A", "A", "no slash"), ("B", "B", "/USD"), ("C", "C", "币/USD"))

    assert [symbol.unified for symbol in symbols] == ["币/USD"]
    assert symbols.stream_name(Symbol("币", "USD")) == "币/USD"


@pytest.mark.parametrize(
    "typed",
    ["btc_usd", "BTC/USD", "btc/usd", "XXBTZUSD", "xxbtzusd", "XBTUSD", "XBT/USD", "xbtusd"],
)
def test_a_symbol_is_found_however_it_is_typed(typed: str) -> None:
    assert REAL.find(typed) == Symbol("BTC", "USD")


def test_a_mistyped_symbol_is_named_with_near_matches() -> None:
    with pytest.raises(UnknownSymbol) as caught:
        REAL.find("btc_usdd")
    assert caught.value.near == ["btc_usd"]
    with pytest.raises(UnknownSymbol):
        REAL.stream_name(Symbol("ETH", "USD"))


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"result":[]}', b'{"result":{"X":{}}}'])
def test_a_listing_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="cannot be read"):
        INFO.read(body, 1)
