"""``penstock coverage``: what is complete, by market and channel."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.context import read_settings
from penstock.cli.instants import day_and_time
from penstock.cli.ledger import whole_ledger
from penstock.cli.options import DataOption, JsonOption, note, say
from penstock.coverage.reading import SeriesCoverage, series_of
from penstock.errors import MalformedSymbol, NotCollected
from penstock.market.symbol import Symbol
from penstock.telemetry.printable import printable


def coverage(
    context: typer.Context,
    exchange: Annotated[
        str | None, typer.Argument(help="Show only this exchange.", show_default=False)
    ] = None,
    symbols: Annotated[
        list[str] | None, typer.Argument(help="Only of these markets.", show_default=False)
    ] = None,
    require: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, help="Exit 1 if a series is complete to less than this percentage."
        ),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how complete every series is, as the processes of a fleet know it.

    A series is one channel of one market. Trades with consecutive ids are counted by id, all else
    by time. What was filled later is complete; what is missing is listed by penstock gaps. With
    --require it exits 1 if a series is below that percentage, or if there is none.

    Example: penstock coverage binance --require 99.99
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    found = _chosen(series_of(whole_ledger(settings)), exchange, symbols or [])
    if as_json:
        for each in found:
            say({**_facts(each), "intervals": each.intervals})
    elif found:
        Console().print(_table(found))
    else:
        typer.echo("Nothing was collected yet. Begin with: penstock collect")
    below = [each for each in found if require is not None and each.share < require]
    for each in below:
        name = f"{each.exchange} {each.symbol} {each.channel}"
        note(f"penstock: {printable(name)} is complete to {_percent(each.share)}")
    raise typer.Exit(1 if below or (require is not None and not found) else 0)


def _chosen(
    found: list[SeriesCoverage], exchange: str | None, symbols: list[str]
) -> list[SeriesCoverage]:
    """Return the series that match the arguments.

    Raises:
        NotCollected: there is none of that exchange or market; the error has near matches.
    """
    if exchange is None:
        return found
    mine = [each for each in found if each.exchange == exchange]
    if not mine:
        raise NotCollected(exchange, {each.exchange for each in found})
    slugs = {each.symbol for each in mine}
    wanted = {_slug(text) for text in symbols}
    for slug in wanted - slugs:
        raise NotCollected(f"{exchange} {slug}", {f"{exchange} {each}" for each in slugs})
    return [each for each in mine if not wanted or each.symbol in wanted]


def _slug(text: str) -> str:
    try:
        return Symbol.parse(text).slug
    except MalformedSymbol:
        return text


def _facts(each: SeriesCoverage) -> dict[str, object]:
    return {
        "exchange": each.exchange,
        "channel": each.channel,
        "symbol": each.symbol,
        "by": each.by,
        "share": round(each.share, 4),
        "total": each.total,
        "complete": each.size("complete"),
        "filled": each.size("filled"),
        "gaps": each.size("gap"),
        "unfillable": each.size("unfillable"),
        "unreported": each.unreported,
    }


def _table(found: list[SeriesCoverage]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("exchange", "market", "channel", "from, UTC", "to"):
        table.add_column(name, overflow="fold")
    for name in ("complete", "gaps", "filled", "unfillable"):
        table.add_column(name, justify="right")
    for each in found:
        first, last = each.intervals[0], each.intervals[-1]
        cells = (
            each.exchange, each.symbol, each.channel, _when(first.since_ms), _when(last.until_ms),
            _percent(each.share), *(f"{each.count(s):,}" for s in ("gap", "filled", "unfillable")),
        )  # fmt: skip
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _percent(share: float) -> str:
    return "100 %" if share == 100 else f"{int(share * 10_000) / 10_000:.4f} %"


def _when(at_ms: int | None) -> str:
    return "" if at_ms is None else day_and_time(at_ms / 1000)
