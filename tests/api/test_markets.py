"""Markets over HTTP: what an exchange was last heard to list."""

from penstock.config import Settings
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails, SymbolMap
from penstock.market.symbol import Symbol

from .conftest import Client


async def test_markets_are_shown_with_what_the_exchange_tells_of_them(api: Client) -> None:
    listed = [
        ListedMarket("ETHUSDT", Symbol("ETH", "USDT")),
        ListedMarket(
            "BTCUSDT", Symbol("BTC", "USDT"), details=MarketDetails("0.01", "0.001", "BREAK")
        ),
    ]
    info = Info(SymbolMap("binance", listed), (), ("1m", "1h"))
    gateways = FleetGateways(api.app_state.store, Settings(), api.app_state.clock)
    await Markets(api.app_state.store, gateways).refresh("binance", info)

    shown = (await api.ask("GET", "markets/binance")).json

    assert shown["exchange_id"] == "binance"
    assert shown["refreshed_at"].endswith("Z")
    assert shown["timeframes"] == ["1m", "1h"]
    btc, eth = shown["markets"]
    assert btc == {
        "symbol": "BTC/USDT",
        "native": "BTCUSDT",
        "tick_size": "0.01",
        "lot_size": "0.001",
        "status": "BREAK",
    }
    assert (eth["symbol"], eth["tick_size"], eth["status"]) == ("ETH/USDT", None, None)


async def test_of_an_exchange_that_was_never_asked_one_is_told_what_to_do(api: Client) -> None:
    problem = (await api.ask("GET", "markets/kraken")).is_problem(404)

    assert "markets_refresh" in problem["detail"]
