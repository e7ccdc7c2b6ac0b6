"""``penstock gc``: removes what killed processes left and what nothing uses any more."""

from typing import Annotated

import typer

from penstock.app.garbage import collect_garbage
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.telemetry.printable import printable


def gc(
    context: typer.Context,
    data_dir: DataOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and change nothing.")
    ] = False,
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Also damaged slots that penstock log repair put aside."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove leftovers of killed processes, and files of the lake that no version uses.

    Leftovers are temporary files, unfinished backups and copies, checkpoints, folders of readers,
    and log lines of processes that ended long ago (logs.keep_days). No records are removed, and
    nothing that a running process uses. Exit code 1 if something could not be removed.

    Example: penstock gc --dry-run --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    total, failed = 0, False
    for each in collect_garbage(settings, SystemClock(), dry_run=dry_run, damaged=damaged):
        failed = failed or bool(each.problem)
        total += 0 if each.problem else each.size_bytes
        if as_json:
            say(each)
            continue
        problem = f"  not removed: {each.problem}" if each.problem else ""
        files = "" if each.files == 1 else f" in {each.files:,} files"
        size = f"{each.size_bytes / 1e6:,.1f} MB{files}"
        typer.echo(f"{each.kind}: {printable(each.path)}  {size}{problem}")
    if not as_json:
        typer.echo(f"{total / 1e6:,.1f} MB {'can be' if dry_run else 'were'} removed.")
    if failed:
        raise typer.Exit(1)
