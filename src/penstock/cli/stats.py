"""``penstock stats``: what the data takes on disk, how it grows, and when the disk is full."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.app.monitoring import measure_storage
from penstock.cli.context import read_settings
from penstock.cli.fitting import Column, Row, Viewport, table
from penstock.cli.instants import instant
from penstock.cli.options import DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.stats.statistics import DiskStatistics, StorageStatistics

_COLUMNS = (
    Column("directory", 0, left=True),
    Column("size", 1),
    Column("files", 2),
    Column("last change", 3, left=True),
)
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def stats(
    context: typer.Context,
    symbols: Annotated[
        bool, typer.Option("--symbols", help="Show the largest symbols too.")
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the data takes on disk, by exchange and channel, and when the disk will be full.

    The data folder is measured now. Its growth is known if a keeper runs, which measures it every
    minute and stores the sizes. Other data folders that share the state store are shown as
    their keepers measured them last. Sizes of symbols are estimates, since symbols share files.
    Exits 1 if there is no such folder.

    Example: penstock stats --data-dir ~/market-data --symbols
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir():
        sys.stderr.write(f"penstock: There is no folder {folder}. Name it with --data-dir.\n")
        raise typer.Exit(1)
    found = asyncio.run(measure_storage(settings, SystemClock()))
    if as_json:
        for each in found:
            say(each)
        return
    console = Console()
    for number, each in enumerate(found):
        console.print(*([Text()] if number else []), *_drawn(each, console.width, symbols=symbols),
                      sep="\n")  # fmt: skip


def _drawn(found: StorageStatistics, width: int, *, symbols: bool) -> Iterator[Text]:
    yield Text(f"{found.folder} on {found.host}, measured {instant(found.at_ms)}")
    for disk in found.disks:
        yield Text(f"  {_words(disk)}")
    rows = [
        Row([each.directory, size_text(each.size_bytes), f"{each.files:,}",
             instant(each.updated_ms)])
        for each in found.directories
        if symbols or not each.approximate
    ]  # fmt: skip
    yield from table(_COLUMNS, rows, (), Viewport(width, None))
    if symbols and found.omitted:
        yield Text(f"and {found.omitted:,} smaller symbols")


def _words(disk: DiskStatistics) -> str:
    growth, days = disk.growth_bytes_per_day, disk.days_until_full
    sign = "-" if growth is not None and growth < 0 else "+"
    parts = [
        f"{disk.path}: {size_text(disk.data_bytes)} of data",
        f"{size_text(disk.free_bytes)} of {size_text(disk.size_bytes)} free",
        "growth not known yet" if growth is None else f"{sign}{size_text(abs(growth))} a day",
        "" if days is None else f"full in {days:,.1f} days",
    ]
    return ", ".join(filter(None, parts))


def size_text(size: float) -> str:
    """A size in the unit in which it is at least one."""
    for unit, least in _UNITS:
        if size >= least:
            return f"{size / least:,.1f} {unit}"
    return f"{size:,.0f} B"
