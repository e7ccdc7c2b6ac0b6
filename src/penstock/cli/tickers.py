"""``penstock tickers``: stores the latest ticks until it is stopped."""

import asyncio
from typing import Annotated, Any

import typer
from rich.text import Text

from penstock.app.metrics import measured
from penstock.app.tickers import open_tickers, report_of
from penstock.cli.context import read_settings
from penstock.cli.options import EXCHANGES, DataOption, JsonOption, SecondsOption, say, split
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
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.storage.log.keys import is_slot_name
from penstock.telemetry import Listener, log_facts


def _checked_name(name: str | None) -> str | None:
    if name is None or is_slot_name(name):
        return name
    raise typer.BadParameter(f"{name!r} is not a name: use letters, digits, - and _, such as b")


def tickers(
    context: typer.Context,
    exchanges: Annotated[
        list[str] | None, typer.Argument(help=f"Exchanges: {EXCHANGES}.", show_default=False)
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All exchanges that have symbols in the list.")
    ] = False,
    symbols: Annotated[
        str | None,
        typer.Option(
            help="Collect these markets of each exchange, separated by commas.",
            show_default="this daemon's share of the list: penstock symbols list",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of this daemon, unique in the data folder.",
            callback=_checked_name,
            show_default="its process id",
        ),
    ] = None,
    data_dir: DataOption = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the latest tick of each symbol in the list (penstock symbols), for all to read.

    Any number of daemons with the same stores share the symbols. Symbols that are added to the list
    are collected within seconds; those of a daemon that ends are taken over by the others. Ctrl-C
    or SIGTERM stops this one.

    Example: penstock tickers binance kraken --data-dir ~/market-data
    """
    typed = split(symbols) or ()
    if bool(exchanges) == all_:
        raise typer.BadParameter("name exchanges, or all of them with --all")
    if symbols is not None and (all_ or not typed):
        raise typer.BadParameter("--symbols needs at least one market, and the exchanges by name")
    only = None if all_ else tuple(dict.fromkeys(exchanges or ()))
    single = only[0] if only is not None and len(only) == 1 else ""
    settings = read_settings(context, {"collect.data_dir": data_dir}, single).settings
    with last_words_logged(), measured(settings, unless_drawn(log_facts)) as listener:
        health = run_process(_collect(settings, only, tuple(typed), name, seconds, listener))
    write(stopped_words(settings.collect.data_dir))
    if as_json and health is not None:
        say(health)


async def _collect(
    settings: Settings,
    exchanges: tuple[str, ...] | None,
    symbols: tuple[str, ...],
    name: str | None,
    seconds: float | None,
    listener: Listener,
) -> dict[str, Any] | None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    opening = open_tickers(settings, exchanges, symbols, clock, listener, name)
    async with opened(opening, stop) as daemon:
        if daemon is None:
            return None
        view = View(
            lambda _: Text("\n".join((report_of(daemon).doing, *report_of(daemon).problems))),
            lambda: report_of(daemon).doing,
            stopped_words(settings.collect.data_dir),
        )
        await run_shown(_until(stop), stop, seconds, clock, view)
        health, collector = await daemon.get_health(), daemon.collector
        return {**health, "ticks": collector.received if collector is not None else 0}


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
