"""``penstock top``: the overview of a fleet in the terminal."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, SecondsOption, note, say
from penstock.cli.running import View, in_foreground, run_shown
from penstock.cli.top_view import draw_overview
from penstock.clock import Clock, SystemClock, wait_for
from penstock.config import Loaded, Settings
from penstock.errors import StorageError
from penstock.monitor.monitor import FleetMonitor
from penstock.monitor.overview import Overview
from penstock.runtime.stopping import stop_on_signals
from penstock.runtime.stores import open_state

_EVERY_S = 1.0
_RATE_S = 3.5
"""A rate needs two statuses, which are written every three seconds."""


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, that of GET /api/v1/overview.")
    ] = False,
) -> None:
    """Show each exchange with its light, rates, lag and gaps, the disk, the backup and the alerts.

    It reads the state store, so no server is needed; all machines that share the store are in it.
    A terminal is redrawn every second. Elsewhere, and with --once or --json, it is printed once,
    after four seconds if something is collected: a rate needs two statuses of a process. Then it
    exits 1 if the light of an exchange is bad, or a process failed or is gone.

    Example: penstock top --data-dir ~/market-data
    """
    loaded = read_settings(context, {"collect.data_dir": data_dir})
    settings, clock = loaded.settings, SystemClock()
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir() and not settings.state.url:
        note(f"penstock: there is no folder {folder}. Choose another with --data-dir.")
        raise typer.Exit(1)
    if not (once or as_json) and in_foreground():
        asyncio.run(_watch(loaded, seconds, clock))
        return
    shown = asyncio.run(_look_once(loaded, clock))
    if as_json:
        say(shown)
    else:
        console = Console()
        console.print(draw_overview(shown, console.width, None))
    is_bad = shown.totals.processes_failed or any(each.light == "bad" for each in shown.exchanges)
    raise typer.Exit(1 if is_bad else 0)


async def _look_once(loaded: Loaded[Settings], clock: Clock) -> Overview:
    monitor = FleetMonitor(loaded)
    shown = await _look(monitor, loaded.settings, clock)
    if shown.totals.messages_per_s is None:
        await clock.sleep(_RATE_S)
        shown = await _look(monitor, loaded.settings, clock)
    return shown


async def _look(monitor: FleetMonitor, settings: Settings, clock: Clock) -> Overview:
    # Opened each time: of a file, the contents of this moment are read.
    async with open_state(settings, clock, read_only=True) as store:
        return await monitor.overview(store)


async def _watch(loaded: Loaded[Settings], seconds: float | None, clock: Clock) -> None:
    monitor, stop = FleetMonitor(loaded), asyncio.Event()
    stop_on_signals(stop)
    now, problem = await _look(monitor, loaded.settings, clock), ""

    async def follow() -> None:
        nonlocal now, problem
        while not stop.is_set():
            try:
                now, problem = await _look(monitor, loaded.settings, clock), ""
            except StorageError as error:
                problem = f"not live: {error}"
            await wait_for(stop, clock, _EVERY_S)

    view = View(lambda port: draw_overview(now, port.width, port.height, problem), lambda: "")
    await run_shown(follow(), stop, seconds, clock, view)
