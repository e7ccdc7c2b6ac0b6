"""``penstock status``: what runs, what it has, what is wrong."""

import os
from pathlib import Path

import typer
from rich.console import Console

from penstock.cli.collector_view import draw_collector
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.collect.status import CollectorStatus, read_all

_FRESH_MS = 5_000
"""A status older than this was written by a process that is gone, or stuck."""


def status(
    context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show every collector and fetcher of a data folder: what it has, and what is missing.

    Exits 1 if one of them should be running and is not.

    Example: penstock status --data-dir ~/market-data --json
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    found = read_all(folder)
    gone = [each for each in found if _is_gone(each)]
    if as_json:
        for each in found:
            say({"gone": each in gone, "status": each})
    elif not found:
        typer.echo(f"Nothing was ever collected in {folder}. Begin with: penstock collect")
    for each in found if not as_json else []:
        Console().print(draw_collector(each, gone=each in gone))
    raise typer.Exit(1 if gone else 0)


def _is_gone(status: CollectorStatus) -> bool:
    if status.state == "stopped":
        return False
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return SystemClock().now_ms() - status.at_ms > _FRESH_MS
