"""``penstock markets``: lists an exchange's markets, with tick and lot sizes."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.api.views import ListingView, listing_view
from penstock.app.admin import renew_listing
from penstock.cli.admin import with_admin
from penstock.cli.context import read_settings
from penstock.cli.instants import instant
from penstock.cli.options import DataOption, ExchangeArgument, JsonOption, MarketsArgument, say
from penstock.clock import SystemClock
from penstock.connectors.markets import ExchangeListing, stored_listing
from penstock.exchanges import registry
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.telemetry import log_facts
from penstock.telemetry.printable import printable


def markets(
    context: typer.Context,
    exchange: ExchangeArgument,
    symbols: MarketsArgument = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Query the exchange now; ignore the stored listing."),
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an exchange's markets, with tick size, lot size and status where it provides them.

    Shows the listing that any process fetched last; queries the exchange only if there is none.

    Example: penstock markets binance btc_usdt eth_usdt
    """
    registry.load(exchange)

    async def known(admin: FleetAdmin) -> ExchangeListing | None:
        return await stored_listing(admin.job_service.store, exchange)

    listing = None if refresh else with_admin(context, data_dir, known, read_only=True)
    if listing is None:
        settings = read_settings(context, {"collect.data_dir": data_dir}).settings
        asyncio.run(renew_listing(settings, exchange, SystemClock(), log_facts))
        listing = with_admin(context, data_dir, known, read_only=True)
    assert listing is not None, "it was kept just now"
    if symbols:
        listing = _only(listing, symbols)
    view = listing_view(listing)
    if as_json:
        say(view)
    else:
        _draw(view, listing.refreshed_at)


def _only(listing: ExchangeListing, symbols: Sequence[str]) -> ExchangeListing:
    """Return the listing with only these markets.

    Raises:
        UnknownSymbol: a market is not listed; the error has near matches.
    """
    known = SymbolMap(listing.exchange_id, listing.markets)
    wanted = {known.find(each) for each in symbols}
    return listing._replace(markets=tuple(m for m in listing.markets if m.symbol in wanted))


def _draw(view: ListingView, refreshed_ms: int) -> None:
    console = Console()
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("market", "on the exchange", "tick size", "lot size", "status"):
        right = name.endswith("size")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for one in view.markets:
        sizes = (one.tick_size or "", one.lot_size or "")
        cells = (one.symbol, one.native, *sizes, one.status or "")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)
    count = f"{len(view.markets):,} market" + ("" if len(view.markets) == 1 else "s")
    console.print(f"{count}, as of {instant(refreshed_ms)}", style="dim", highlight=False)
    if view.timeframes:
        console.print(f"candles: {' '.join(view.timeframes)}", style="dim", highlight=False)
