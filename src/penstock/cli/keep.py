"""``penstock keep``: moves records from the log to the lake until it is stopped."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from penstock.app.keeper import open_keeper, plan_keeping
from penstock.app.metrics import measured
from penstock.app.remote import rclone_secrets
from penstock.cli.context import Sources, read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption, say
from penstock.cli.painter import write
from penstock.cli.running import (
    View,
    last_words_logged,
    run_process,
    run_shown,
    stopped_words,
    unless_drawn,
)
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.runtime.status import Report
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.telemetry import Listener, log_facts


def keep(
    context: typer.Context,
    data_dir: DataOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Do all that is due now, then stop.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is due now, and change nothing.")
    ] = False,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Seal records of the log into the lake, and keep log and lake within their bounds.

    The lake has one Delta table for each channel. Records that are sealed and read back equal are
    deleted from the log once they are old enough. Small files are compacted, and what the retention
    no longer keeps is deleted. If backup.folder is set, backups are made too. Any number of keepers
    may share a lake; each keeps the log of its own data folder.

    Example: penstock keep --data-dir ~/market-data --dry-run
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    sources: Sources = context.obj
    secrets = rclone_secrets(sources.environment)
    if dry_run:
        _print_plan(settings, as_json)
        return
    with last_words_logged(), measured(settings, unless_drawn(log_facts)) as listener:
        report = run_process(_keep(settings, seconds, listener, secrets, once=once))
    if not once:
        write(stopped_words(settings.collect.data_dir))
    if report is None:
        return
    if as_json:
        say({"doing": report.doing, "rows": report.activity, "problems": report.problems})
    elif once:
        typer.echo(report.doing)
    if once and report.problems:
        write("".join(f"penstock: {problem}\n" for problem in report.problems))
        raise typer.Exit(1)


def _print_plan(settings: Settings, as_json: bool) -> None:
    planned = asyncio.run(plan_keeping(settings, SystemClock()))
    for each in planned:
        if as_json:
            say(each)
            continue
        counts = [
            f"{each.records:,} records" if each.records else "",
            f"{each.files:,} files" if each.files else "",
            f"{each.size_bytes / 1e6:,.1f} MB" if each.size_bytes else "",
        ]
        place = f" of {each.where}" if each.where else ""
        typer.echo(f"{each.action} {each.table}{place}: {', '.join(filter(None, counts))}")
    if not planned and not as_json:
        typer.echo("Nothing is due.")


async def _keep(
    settings: Settings,
    seconds: float | None,
    listener: Listener,
    secrets: Sequence[str],
    *,
    once: bool,
) -> Report | None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    opening = open_keeper(settings, clock, listener, backups=not once, secrets=secrets)
    async with opened(opening, stop) as keeper:
        if keeper is None:
            return None
        if once:
            await keeper.run_once(stop)
            return keeper.report()
        view = View(
            lambda _: Text("\n".join((keeper.report().doing, *keeper.report().problems))),
            lambda: keeper.report().doing,
            stopped_words(settings.collect.data_dir),
        )
        await run_shown(keeper.run(stop), stop, seconds, clock, view)
        return keeper.report()
