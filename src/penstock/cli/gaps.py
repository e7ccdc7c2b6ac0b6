"""``penstock gaps``: lists known gaps by market."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.context import read_settings
from penstock.cli.instants import day_and_time
from penstock.cli.ledger import consecutive, stored_ledger
from penstock.cli.options import DataOption, JsonOption, note, say
from penstock.collect.missing import Interruption, interruptions
from penstock.collect.status import CollectorStatus, read_all
from penstock.coverage.id_runs import IdRuns
from penstock.coverage.missing import MissingIds, missing_ids
from penstock.coverage.model import GapRow
from penstock.errors import MalformedSymbol, NotCollected
from penstock.market.symbol import Symbol
from penstock.runtime.stores import configured_log
from penstock.storage.log import LogReader
from penstock.storage.log.keys import Stream
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
    filled: Annotated[bool, typer.Option("--filled", help="List filled gaps too.")] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List known gaps by market, as reported by all processes that share the state store.

    Where an exchange numbers its trades, gaps are ranges of ids; elsewhere they are periods, from
    the lost connection to the next record. A gap is open until it is filled, or unfillable if the
    exchange does not serve it any more. Filled gaps are listed with --filled. What is known from
    the data folder alone and not reported yet follows: missing ids, and interruptions.

    Example: penstock gaps binance btc_usdt --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir() and not settings.state.url:
        note(f"penstock: there is no folder {folder}. Choose another with --data-dir.")
        raise typer.Exit(1)
    statuses, reported = read_all(folder), stored_ledger(settings).gaps
    with closing(configured_log(settings).reader()) as log:
        collected = _collected(statuses, log) | {(row.exchange, row.symbol) for row in reported}
        if not collected:
            note(f"penstock: {folder} has no collected data. Begin with: penstock collect")
            raise typer.Exit(1)
        wanted = _wanted(collected, exchange, symbols or [])
        reported = [row for row in reported if (row.exchange, row.symbol) in wanted]
        ids = list(unreported_ids(missing_ids(statuses, wanted, log), reported))
        breaks = list(unreported_breaks(interruptions(log, wanted, consecutive), reported))
    rows = [row for row in reported if filled or row.state != "filled"]
    if as_json:
        for row in rows:
            say({"kind": "gap", **msgspec.to_builtins(row)})
        for each in (*ids, *breaks):
            say(each)
    else:
        _draw(rows, ids, breaks, wanted)


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


def unreported_ids(found: Iterable[MissingIds], reported: Sequence[GapRow]) -> Iterator[MissingIds]:
    """The parts of missing ids that no row has."""
    known: dict[Stream, IdRuns] = {}
    for row in reported:
        if row.by == "id":
            known.setdefault(row.stream, IdRuns()).add_run(row.first, row.last)
    for each in found:
        runs = known.get(Stream(each.exchange, each.channel, each.symbol), IdRuns())
        for first, last in runs.lacking(each.first_id, each.last_id):
            yield replace(each, first_id=first, last_id=last, count=last - first + 1)


def unreported_breaks(
    found: Iterable[Interruption], reported: Sequence[GapRow]
) -> Iterator[Interruption]:
    """The interruptions within which no row lies."""
    for each in found:
        stream = Stream(each.exchange, each.channel, each.symbol)
        if not any(
            row.stream == stream
            and row.by == "received_ns"
            and row.last >= each.lost_ns
            and (each.back_ns is None or row.first <= each.back_ns)
            for row in reported
        ):
            yield each


def _draw(
    reported: Sequence[GapRow],
    ids: Sequence[MissingIds],
    breaks: Sequence[Interruption],
    wanted: set[_Market],
) -> None:
    console, markets = Console(), f"{len(wanted)} market" + ("s" if len(wanted) > 1 else "")
    if reported:
        columns = ("exchange", "market", "channel", "first", "last", "state", "cause", "reason")
        rows = (
            (
                *_where(row),
                *(_position(row, at) for at in (row.first, row.last)),
                row.state,
                f"{row.cause} ({row.origin})",
                row.reason,
            )
            for row in reported
        )
        console.print(_table(columns, rows))
        states = Counter(row.state for row in reported)
        summary = ", ".join(f"{count:,} {state}" for state, count in states.items())
        console.print(f"{len(reported):,} gaps: {summary}", style="dim")
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
    if not reported and not ids and not breaks:
        console.print(f"No known gaps in {markets}.")
    if uncounted := sorted({name for name, _ in wanted if not consecutive(name)}):
        exchanges = ", ".join(uncounted)
        console.print(
            f"{exchanges}: trade ids are not consecutive, so only lost connections are listed",
            style="dim",
        )


def _position(row: GapRow, at: int) -> str:
    match row.by:
        case "id":
            return str(at)
        case "open_ms":
            return day_and_time(at / 1000)
        case "received_ns":
            return day_and_time(at / 1e9)


def _where(each: GapRow | MissingIds | Interruption) -> tuple[str, str, str]:
    return each.exchange, each.symbol, each.channel


def _table(names: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        right = name in ("first id", "last id", "ids", "first", "last")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _when(at_ns: int | None) -> str:
    if at_ns is None:
        return "ongoing"
    return day_and_time(at_ns / 1e9)
