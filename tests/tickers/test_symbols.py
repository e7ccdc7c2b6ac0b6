"""The symbols in the state store, on every kind of store."""

import pytest
from tests.tickers.conftest import BTC, ETH, KRAKEN

from penstock.errors import BadSymbol, UnknownExchange
from penstock.market.symbol import Symbol
from penstock.storage.state import StateStore, open_store
from penstock.tickers import TickerSymbol, TickerSymbols


async def test_symbols_are_added_listed_and_removed(table: TickerSymbols) -> None:
    assert await table.get_all() == []
    assert [await table.add(each) for each in (KRAKEN, ETH, BTC, BTC)] == [True, True, True, False]
    assert await table.get_all() == [BTC, ETH, KRAKEN]
    assert await table.get_all(["kraken"]) == [KRAKEN]
    assert await table.get_all([]) == []
    assert await table.remove(ETH)
    assert not await table.remove(ETH)
    assert await table.get_all() == [BTC, KRAKEN]


async def test_there_may_be_more_than_a_page(table: TickerSymbols) -> None:
    many = [TickerSymbol("binance", Symbol(f"A{number:04}", "USDT")) for number in range(1001)]
    for symbol in many:
        await table.add(symbol)

    assert await table.get_all() == many


async def test_what_is_no_symbol_is_not_added(state: StateStore, table: TickerSymbols) -> None:
    with pytest.raises(BadSymbol):
        await table.add("BTC/USDT")  # type: ignore[arg-type]
    with pytest.raises(UnknownExchange):
        await table.add(TickerSymbol.of("nowhere", "BTC/USDT"))

    assert await table.get_all() == []


@pytest.mark.parametrize("server", ["postgresql_url", "mongodb_url"])
async def test_on_a_server_too(server: str, request: pytest.FixtureRequest) -> None:
    store = await open_store(request.getfixturevalue(server))
    try:
        table = TickerSymbols(store)
        await table.add(BTC)
        await table.add(KRAKEN)
        assert await table.get_all(["binance"]) == [BTC]
        assert await table.remove(BTC)
        assert await table.remove(KRAKEN)
    finally:
        await store.close()
