"""Errors: a tree that is drawn, messages that help."""

import inspect

from penstock import errors
from penstock.errors import PenstockError, PortInUse, UnknownSymbol, near_matches


def test_the_tree_on_top_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, PenstockError):
            assert name in drawn, f"{name} is missing from the tree on top of errors"


def test_an_unknown_symbol_names_near_matches() -> None:
    error = UnknownSymbol("binance", "btc_usd", ["btc_usdt", "eth_usdt", "doge_eur"])

    assert error.near[0] == "btc_usdt"
    assert "Did you mean btc_usdt" in str(error)


def test_near_matches_ignore_case_and_separators() -> None:
    assert near_matches("BTC-USD", ["btc_usdt", "xrp_eur"]) == ["btc_usdt"]
    assert near_matches("zzz", ["btc_usdt"]) == []


def test_a_taken_port_says_what_to_do() -> None:
    assert "--port" in str(PortInUse("127.0.0.1", 80))
    assert "nginx (pid 7)" in str(PortInUse("127.0.0.1", 80, "nginx (pid 7)"))
