"""Markets are found by any of their names; unknown ones are refused with near matches."""

import pytest

from penstock.dataset.names import Symbols, find_streams
from penstock.errors import NotCollected
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

BTC = Stream("one", "trades", "btc_usdt")
ETH = Stream("one", "tickers", "eth_usdt")
KRW = Stream("two", "trades", "btc_krw")
KNOWN = {BTC, ETH, KRW}


def natives(exchange: str) -> dict[str, Symbol]:
    return {"KRW-BTC": Symbol("BTC", "KRW")} if exchange == "two" else {}


@pytest.mark.parametrize(
    "name",
    ["BTC/USDT", "btc/usdt", "btc_usdt", "BTC-USDT", "BTCUSDT", "btcusdt", Symbol("BTC", "USDT")],
)
def test_a_market_has_several_names(name: Symbols) -> None:
    assert find_streams(KNOWN, ["trades"], name, None, natives) == [BTC]


def test_an_exchanges_own_name_comes_first() -> None:
    assert find_streams(KNOWN, ["trades"], "KRW-BTC", None, natives) == [KRW]


def test_without_names_all_markets_are_found() -> None:
    assert find_streams(KNOWN, ["trades"], None, None, natives) == [BTC, KRW]
    assert find_streams(KNOWN, ["trades"], None, "two", natives) == [KRW]
    assert find_streams(KNOWN, ["trades"], ["BTC/USDT", "BTC/KRW"], None, natives) == [BTC, KRW]


def test_a_market_without_such_a_channel_has_no_streams() -> None:
    assert find_streams(KNOWN, ["trades"], "ETH/USDT", None, natives) == []


def test_an_unknown_market_is_refused_with_near_ones() -> None:
    with pytest.raises(NotCollected, match="Did you mean BTC/USDT"):
        find_streams(KNOWN, ["trades"], "BTC/USD", None, natives)
    with pytest.raises(NotCollected, match="Did you mean one"):
        find_streams(KNOWN, ["trades"], None, "oen", natives)
