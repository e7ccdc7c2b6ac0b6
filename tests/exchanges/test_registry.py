"""The registry: an exchange is a folder, found by its name."""

import pytest

from penstock.errors import UnknownExchange
from penstock.exchanges import registry


def test_every_folder_is_an_exchange_of_that_name() -> None:
    assert "binance" in registry.names()
    for name in registry.names():
        assert registry.load(name).name == name


def test_an_unknown_exchange_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownExchange, match="binance"):
        registry.load("mtgox")
    with pytest.raises(UnknownExchange):
        registry.load("base")


def test_the_rules_of_books_are_those_of_the_dialect() -> None:
    assert registry.book_rules("binance") is not None
    assert registry.book_rules("mtgox") is None, "records may be of an exchange of another version"
