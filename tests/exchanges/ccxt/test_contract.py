"""The cases that every exchange's folder must pass, as far as they apply to a client of its own."""

from typing import cast

import pytest

from penstock.exchanges.base import Exchange, Request
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.interval import MINUTE_MS
from penstock.market.symbol import Symbol

from .. import test_contract as contract
from .simulated import SIMULATED, opened

CASES = [
    contract.test_01_the_folder_exports_an_exchange_of_its_own_name,
    contract.test_02_limits_are_known_before_the_exchange_is_asked,
    contract.test_03_every_request_is_counted_by_a_limit_that_can_bear_it,
    contract.test_04_requests_are_data,
    contract.test_06_candles_are_offered_in_the_lengths_it_says_and_no_others,
    contract.test_07_an_answer_that_is_none_of_its_own_is_refused_whole,
    contract.test_08_a_page_of_html_is_no_api_error,
]
LIVE_CASES = [
    contract.test_20_learning_maps_every_symbol_both_ways,
    contract.test_21_its_clock_is_known_within_its_step,
    contract.test_24_candles_are_those_the_trades_make,
    contract.test_25_a_book_is_sorted_and_not_crossed,
    contract.test_26_tickers_are_of_the_markets_asked_for,
]
CHANNELS = ("trades", "book_deltas", "tickers")
"""A feed's: there is no dialect to ask for them."""


def requests_of(exchange: Exchange, symbols: SymbolMap, symbol: Symbol) -> list[Request[object]]:
    """One of each kind there is."""
    rest = exchange.rest(symbols)
    return [
        *([exchange.time] if exchange.time else []),
        exchange.info,
        rest.book(symbol, 10),
        rest.recent_trades(symbol, 5),
        rest.trades(symbol, 1),
        rest.candles(symbol, contract.MINUTE, 0, MINUTE_MS),
        rest.tickers([symbol]),
        rest.tickers([]),
        *(rest.latest(symbol, channel) for channel in CHANNELS),
    ]


every_simulated = pytest.mark.parametrize("name", sorted(SIMULATED))


@every_simulated
def test_the_cases_that_need_the_folder_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [ListedMarket("AAAUSD", contract.A), ListedMarket("币USD", contract.ODD)]
    monkeypatch.setitem(contract.MAP_OF, name, SymbolMap(name, listed))
    monkeypatch.setattr(contract, "requests_of", requests_of)
    for case in CASES:
        case(name)


@every_simulated
async def test_the_cases_that_use_the_simulator(name: str) -> None:
    async with opened(name) as simulated:
        info = await simulated.client.learn()
        address, symbols = simulated.server.address, list(simulated.symbols)
        # They ask it nothing but what any way out can be asked.
        gateway = cast("Gateway", simulated.client)
        live = contract.Live(simulated.exchange, gateway, info, address, simulated.http, symbols)
        for case in LIVE_CASES:
            await case(live)
