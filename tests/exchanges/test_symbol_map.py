"""A symbol map: what an exchange calls its markets, and what it has come to list since."""

import pytest

from penstock.errors import UnknownSymbol
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.symbol import Symbol

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
FIRST = [ListedMarket("XBTUSDT", BTC, "XBT/USDT", ("BTCUSDT",))]


@pytest.mark.parametrize(
    "text", ["XBTUSDT", "xbtusdt", "BTCUSDT", "btc_usdt", "BTC/USDT", "BTC-USDT", "btc-usdt"]
)
def test_every_spelling_is_found(text: str) -> None:
    assert SymbolMap("sim", FIRST).find(text) is BTC


def test_the_exchanges_own_hyphen_comes_before_ours() -> None:
    won = Symbol("BTC", "KRW")
    symbols = SymbolMap("sim", [("KRW-BTC", won), ("BTC-ETH", Symbol("ETH", "BTC"))])

    assert symbols.find("KRW-BTC") is symbols.find("BTC-KRW") is won
    assert symbols.find("BTC-ETH") is Symbol("ETH", "BTC")


def test_what_it_learns_it_knows_besides() -> None:
    symbols = SymbolMap("sim", FIRST)
    with pytest.raises(UnknownSymbol):
        symbols.find("eth_usdt")

    symbols.learn([("ETHUSDT", ETH)])

    assert (symbols.native(ETH), symbols.stream_name(ETH)) == ("ETHUSDT", "ETHUSDT")
    assert symbols.symbol("XBTUSDT") is BTC, "though it is listed no longer"
    assert symbols.stream_name(BTC) == "XBT/USDT"
    again = SymbolMap("sim", symbols.listed)
    assert (list(again), again.listed) == (list(symbols), symbols.listed)


def test_a_market_under_a_new_name_is_asked_for_by_that() -> None:
    symbols = SymbolMap("sim", FIRST)
    symbols.learn([ListedMarket("BTC-USDT", BTC, "BTC/USDT")])

    assert (symbols.native(BTC), symbols.stream_name(BTC)) == ("BTC-USDT", "BTC/USDT")
    assert symbols.symbol("XBTUSDT") is BTC, "what was asked for by the old name is still read"
    assert len(symbols) == 1
