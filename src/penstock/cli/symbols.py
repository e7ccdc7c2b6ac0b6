"""``penstock symbols``: the list of symbols whose ticks the ticker daemons collect."""

from typing import Annotated

import typer

from penstock.cli.admin import with_admin
from penstock.cli.options import (
    DataOption,
    ExchangeArgument,
    JsonOption,
    OnlyExchangeOption,
    note,
    say,
)
from penstock.connectors.markets import stored_listing
from penstock.exchanges import registry
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.market.symbol import Symbol
from penstock.tickers.model import TickerSymbol
from penstock.tickers.symbols import TickerSymbols

symbols = typer.Typer(
    help="Manage the symbols whose latest ticks are collected (penstock tickers).",
    no_args_is_help=True,
)

_Markets = Annotated[
    list[str],
    typer.Argument(help="Markets: btc_usdt, BTC/USDT, BTC-USDT or the exchange's own spelling."),
]


@symbols.command()
def add(
    context: typer.Context,
    exchange: ExchangeArgument,
    markets: _Markets,
    data_dir: DataOption = None,
) -> None:
    """Add symbols of an exchange; daemons that run begin to collect them within seconds.

    The exchange must list them all, otherwise none is added.

    Example: penstock symbols add binance btc_usdt eth_usdt
    """
    registry.load(exchange)

    async def do(admin: FleetAdmin) -> None:
        listed = await admin.listings.of(exchange)
        table = TickerSymbols(admin.job_service.store)
        for symbol in dict.fromkeys(listed.find(text) for text in markets):
            if not await table.add(TickerSymbol(exchange, symbol)):
                note(f"{symbol} of {exchange} is in the list already.")

    with_admin(context, data_dir, do)


@symbols.command("rm")
def remove(
    context: typer.Context,
    exchange: ExchangeArgument,
    markets: _Markets,
    data_dir: DataOption = None,
) -> None:
    """Remove symbols of an exchange; daemons that run stop collecting them within seconds.

    Example: penstock symbols rm binance eth_usdt
    """

    async def do(admin: FleetAdmin) -> None:
        store = admin.job_service.store
        listing = await stored_listing(store, exchange)
        listed = SymbolMap(exchange, listing.markets if listing is not None else ())
        table = TickerSymbols(store)
        for text in markets:
            # A symbol may be listed no longer, or its exchange not be supported any more.
            symbol = listed.get(text) or Symbol.parse(text)
            if not await table.remove(TickerSymbol(exchange, symbol)):
                note(f"{symbol} of {exchange} was not in the list.")

    with_admin(context, data_dir, do)


@symbols.command("list")
def list_(
    context: typer.Context,
    exchange: OnlyExchangeOption = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the symbols, by exchange.

    Example: penstock symbols list --exchange binance
    """

    async def find(admin: FleetAdmin) -> list[TickerSymbol]:
        table = TickerSymbols(admin.job_service.store)
        return await table.get_all(None if exchange is None else [exchange])

    found = with_admin(context, data_dir, find, read_only=True)
    for each in found:
        if as_json:
            say({"exchange": each.exchange, "symbol": each.symbol.unified})
        else:
            typer.echo(f"{each.exchange} {each.symbol}")
    if not found and not as_json:
        typer.echo("There are no symbols. Add some with: penstock symbols add EXCHANGE SYMBOL")
