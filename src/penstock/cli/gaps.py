"""``penstock gaps``: lists known gaps by market."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.context import read_settings
from penstock.cli.instants import day_and_time
from penstock.cli.options import DataOption, JsonOption, note, say
from penstock.collect.missing import Interruption, interruptions
from penstock.collect.status import CollectorStatus, read_all
from penstock.coverage.missing import MissingIds, missing_ids
from penstock.errors import MalformedSymbol, MissingExtra, NotCollected, UnknownExchange
from penstock.exchanges import registry
from penstock.market.symbol import Symbol
from penstock.runtime.stores import configured_log
from penstock.storage.log import LogReader
from penstock.telemetry.printable import printable

_Market = tuple[str, str]
"""An exchange and a slug."""


def gaps(
    context: typer.Context,
    exchange: Annotated[
        str | None, typer.Argument(help="Show only this exchange.", show_default=False)
    ] = None,
    symbols: Annotated[
        list[str] | None, typer.Argument(help="Only of these markets.", show_default=False)
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List known gaps by market: ranges of missing ids, and interruptions.

    Where an exchange numbers its trades, every id that was not recorded is listed. Elsewhere each
    interruption is listed, from the lost connection to the next record, since the number of trades
    missed meanwhile is unknown.

    Example: penstock gaps binance btc_usdt --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir():
        note(f"penstock: there is no folder {folder}. Choose another with --data-dir.")
        raise typer.Exit(1)
    statuses = read_all(folder)
    with closing(configured_log(settings).reader()) as log:
        collected = _collected(statuses, log)
        if not collected:
            note(f"penstock: {folder} has no collected data. Begin with: penstock collect")
            raise typer.Exit(1)
        wanted = _wanted(collected, exchange, symbols or [])
        ids = list(missing_ids(statuses, wanted, log))
        breaks = list(interruptions(log, wanted, _counted))
    for each in (*ids, *breaks) if as_json else ():
        say(each)
    if not as_json:
        _draw(ids, breaks, wanted)


def _collected(statuses: Sequence[CollectorStatus], log: LogReader) -> set[_Market]:
    named = {(status.exchange, ids.symbol) for status in statuses for ids in status.ids}
    return named | {(stream.exchange, stream.symbol) for stream in log.streams()}


def _wanted(collected: set[_Market], exchange: str | None, symbols: Sequence[str]) -> set[_Market]:
    """Return the collected markets that match the arguments.

    Raises:
        NotCollected: a market is not collected; the error has near matches.
    """
    if exchange is None:
        return collected
    slugs = {slug for name, slug in collected if name == exchange}
    if not slugs:
        raise NotCollected(exchange, {name for name, _ in collected})
    found = [_slug(text, slugs) for text in symbols]
    for text, slug in zip(symbols, found, strict=True):
        if slug is None:
            raise NotCollected(f"{exchange} {text}", {f"{exchange} {each}" for each in slugs})
    return {(exchange, slug) for slug in found or slugs if slug}


def _slug(text: str, slugs: set[str]) -> str | None:
    try:
        meant = Symbol.parse(text).slug
    except MalformedSymbol:  # perhaps without a separator: BTCUSDT
        meant = next((slug for slug in slugs if slug.replace("_", "") == text.lower()), text)
    return meant if meant in slugs else None


def _counted(exchange: str) -> frozenset[str]:
    try:
        return registry.load(exchange).consecutive
    except (UnknownExchange, MissingExtra):
        return frozenset()


def _draw(ids: Sequence[MissingIds], breaks: Sequence[Interruption], wanted: set[_Market]) -> None:
    console, markets = Console(), f"{len(wanted)} market" + ("s" if len(wanted) > 1 else "")
    if ids:
        rows = (
            (*_where(each), str(each.first_id), str(each.last_id), f"{each.count:,}")
            for each in ids
        )
        console.print(_table(("exchange", "market", "channel", "first id", "last id", "ids"), rows))
        total = sum(each.count for each in ids)
        console.print(f"{total:,} ids missing in {len(ids):,} ranges", style="dim")
    if breaks:
        rows = (
            (*_where(each), _when(each.lost_ns), _when(each.back_ns), each.reason)
            for each in breaks
        )
        console.print(_table(("exchange", "market", "channel", "from, UTC", "to", "reason"), rows))
        console.print(
            f"{len(breaks):,} interruptions of channels without consecutive ids", style="dim"
        )
    if not ids and not breaks:
        console.print(f"No known gaps in {markets}.")
    if uncounted := sorted({name for name, _ in wanted if not _counted(name)}):
        names = ", ".join(uncounted)
        console.print(
            f"{names}: trade ids are not consecutive, so only lost connections are listed",
            style="dim",
        )


def _where(each: MissingIds | Interruption) -> tuple[str, str, str]:
    return each.exchange, each.symbol, each.channel


def _table(names: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        right = name in ("first id", "last id", "ids")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _when(at_ns: int | None) -> str:
    if at_ns is None:
        return "ongoing"
    return day_and_time(at_ns / 1e9)
