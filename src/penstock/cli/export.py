"""``penstock export``: writes collected data to a file, for other programs."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.app.dataset import configured_dataset
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, OnlyExchangeOption, OnlyMarketsArgument, note
from penstock.clock import SystemClock
from penstock.errors import BadQuery, near_matches
from penstock.market import channels

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset
    from penstock.dataset.query import Query

Format = Literal["csv", "jsonl", "parquet", "arrow"]
_ENDINGS: dict[str, Format] = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip


def export(
    context: typer.Context,
    channel: Annotated[
        str, typer.Argument(help="trades, agg_trades, books, tickers, candles_1m and so on.")
    ],
    symbols: OnlyMarketsArgument = None,
    exchange: OnlyExchangeOption = None,
    since: Annotated[
        str | None, typer.Option(help="From this time on: 2026-11-01, -1h.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.", show_default=False)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File; - is stdout.")] = Path("-"),
    form: Annotated[
        Format | None,
        typer.Option("--format", help="File format.", show_default="by the file's name, or csv"),
    ] = None,
    columns: Annotated[str, typer.Option(help="Columns: penstock, tardis or stored.")] = "penstock",
    numbers: Annotated[
        str, typer.Option(help="Prices and quantities: text (exact), decimal or float.")
    ] = "text",
    from_trades: Annotated[
        bool, typer.Option("--from-trades", help="Compute candles from trades.")
    ] = False,
    on_gap: Annotated[
        str, typer.Option(help="If data is missing: warn, raise (fail) or ignore.")
    ] = "warn",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    data_dir: DataOption = None,
) -> None:
    """Write collected data as CSV, JSON lines, Parquet or an Arrow stream.

    Log and lake are read as one, each record once, sorted by time; collectors may run meanwhile.

    Example: penstock export trades btc_usdt --since -1d --output trades.parquet
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    chosen = form or _ENDINGS.get(output.suffix, "csv")
    data = configured_dataset(settings, SystemClock())
    options: dict[str, Any] = {
        "exchange": exchange, "since": since, "until": until, "on_gap": on_gap,
        "columns": columns, "numbers": numbers,
    }  # fmt: skip
    query = _query(data, channel, symbols or None, options, from_trades=from_trades)
    with _warnings_as_notes(), _opened(output, overwrite=overwrite) as file:
        rows = query.write(file, chosen)
    if output != Path("-"):
        note(f"penstock: {rows:,} rows written to {output}")


def _query(
    data: "Dataset",
    channel: str,
    symbols: list[str] | None,
    options: dict[str, Any],
    *,
    from_trades: bool,
) -> "Query[Any]":
    row = channels.find(channel)
    if row is not None and row.suffix_field is not None:
        interval = row.suffix_in(channel)
        return data.candles(interval, symbols, from_trades=from_trades, **options)
    simple = {
        channels.TRADES.name: data.trades,
        channels.AGG_TRADES.name: data.agg_trades,
        "books": data.books,
        channels.TICKERS.name: data.tickers,
        channels.TICKERS_24H.name: data.tickers_24h,
    }
    if channel not in simple:
        known = [*simple, *channels.CANDLES.names()]
        near = near_matches(channel, known)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise BadQuery(f"There is no channel {channel!r} to export.{meant}")
    return simple[channel](symbols, **options)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_args, **_named: note(f"penstock: {message}")
        yield


@contextmanager
def _opened(output: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """The file to write; under its own name only once it is complete."""
    if output == Path("-"):
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if output.exists() and not overwrite:
        raise BadQuery(f"{output} exists. Replace it with --overwrite.")
    partial = output.with_name(f"{output.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise BadQuery(f"{output}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
