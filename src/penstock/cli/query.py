"""``penstock query``: runs a SELECT over collected data."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.app.dataset import configured_dataset
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, note
from penstock.clock import SystemClock
from penstock.telemetry.printable import printable

if TYPE_CHECKING:
    from penstock.dataset.sql import SqlResult


def query(
    context: typer.Context,
    sql: Annotated[str, typer.Argument(help="One SELECT, in DuckDB's SQL.")],
    since: Annotated[
        str | None, typer.Option(help="Rows from this time on: 2026-11-01, -1h.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Rows before this time.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Maximum rows of a table.")] = 100,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV on stdout.")] = False,
    data_dir: DataOption = None,
) -> None:
    """Run a SELECT over collected data.

    Tables are trades, agg_trades, books, tickers, candles_1m and so on, and coverage.

    Files, networks and settings cannot be reached from SQL, and nothing can be changed.

    Example: penstock query "SELECT symbol, count(*) FROM trades GROUP BY symbol" --since -1h
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    data = configured_dataset(settings, SystemClock())
    result = data.sql(sql, since=since, until=until)
    if as_json or as_csv:
        result.write(sys.stdout.buffer, "jsonl" if as_json else "csv")
        sys.stdout.flush()
    else:
        _draw(result, rows)


def _draw(result: "SqlResult", most: int) -> None:
    frame = result.polars()
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name, kind in frame.schema.items():
        table.add_column(Text(printable(name)), justify="right" if kind.is_numeric() else "left")
    for row in frame.head(most).iter_rows():
        table.add_row(*(Text("" if each is None else printable(str(each))) for each in row))
    Console().print(table)
    if frame.height > most:
        note(f"penstock: {frame.height - most:,} more rows; see --rows, --json and --csv.")
