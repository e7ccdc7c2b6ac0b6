"""Names: the ones everybody knows, and every one of a recorded list."""

import json
from pathlib import Path

import pytest

from penstock.simulator.kraken.listings import CATALOGUE
from penstock.simulator.kraken.names import asset, pair
from penstock.simulator.market.market import Listing

RECORDED = Path(__file__).parents[4] / "shared" / "captures" / "cryptofeed" / "KRAKEN.0"
SYMBOLS = {"XBT": "BTC", "XDG": "DOGE"}


def _pair(base: str, quote: str) -> tuple[str, ...]:
    return pair(Listing(base, quote, 1, 1, 1, 60, 0)).spellings


@pytest.mark.parametrize(
    ("base", "quote", "spellings"),
    [
        ("BTC", "USD", ("XXBTZUSD", "XBTUSD", "XBT/USD", "BTC/USD")),
        ("ETH", "BTC", ("XETHXXBT", "ETHXBT", "ETH/XBT", "ETH/BTC")),
        ("EUR", "USD", ("ZEURZUSD", "EURUSD", "EUR/USD", "EUR/USD")),
        ("BTC", "USDT", ("XBTUSDT", "XBTUSDT", "XBT/USDT", "BTC/USDT")),
        ("DOGE", "USD", ("XDGUSD", "XDGUSD", "XDG/USD", "DOGE/USD")),
        ("USDT", "USD", ("USDTZUSD", "USDTUSD", "USDT/USD", "USDT/USD")),
        ("XTZ", "USD", ("XTZUSD", "XTZUSD", "XTZ/USD", "XTZ/USD")),
    ],
)
def test_a_pair_has_four_names(base: str, quote: str, spellings: tuple[str, ...]) -> None:
    assert _pair(base, quote) == spellings


def test_a_letter_is_a_prefix_only_for_the_old() -> None:
    ids = [asset(symbol).id for symbol in ("BTC", "DOGE", "USD", "XTZ", "ZRX", "USDT", "CHF")]

    assert ids == ["XXBT", "XXDG", "ZUSD", "XTZ", "ZRX", "USDT", "CHF"]


def test_no_two_pairs_share_a_name() -> None:
    names = [name for each in CATALOGUE.all() for name in set(pair(each).spellings)]

    assert len(set(names)) == len(names)


def test_every_recorded_pair_has_the_names_it_was_recorded_with() -> None:
    if not RECORDED.exists():
        pytest.skip("there is no recorded traffic beside this checkout")
    (line,) = [each for each in RECORDED.read_text().splitlines() if "AssetPairs ->" in each]
    recorded = json.loads(line.partition(": ")[2])["result"]
    with_names = {name: row for name, row in recorded.items() if "wsname" in row}
    assert len(with_names) > 250

    for name, row in with_names.items():
        base, quote = (SYMBOLS.get(word, word) for word in row["wsname"].split("/"))
        assert _pair(base, quote)[:3] == (name, row["altname"], row["wsname"])
        assert (asset(base).id, asset(quote).id) == (row["base"], row["quote"])
