"""``penstock sim``: runs a simulated exchange."""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from penstock.app.simulator import build_simulator, reported
from penstock.cli.context import read_settings
from penstock.cli.memory import give_back_large_pieces, keep_for_good
from penstock.cli.options import (
    FaultsOption,
    HostOption,
    JsonOption,
    PortOption,
    SecondsOption,
    SeedOption,
    SymbolsOption,
    say,
    split,
)
from penstock.cli.running import View, last_words_logged, show_until, unless_drawn
from penstock.cli.simulator_view import describe_state, draw_state
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.simulator import registry
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import log_facts


def sim(
    context: typer.Context,
    exchange: Annotated[
        str | None,
        typer.Argument(
            help=f"Exchange: {', '.join(registry.names())}.", show_default=registry.names()[0]
        ),
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    seed: SeedOption = None,
    symbols: SymbolsOption = None,
    faults: FaultsOption = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir",
            help="Data folder whose state store its status is written to.",
            show_default="none",
        ),
    ] = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a simulated exchange with the real protocol and limits, and a ledger of what happened.

    One process simulates one exchange; each exchange has its own markets.
    Limits, windows, bans and latency are settings (see: penstock config). The ledger and the
    controls are under /_sim/, for local clients only.

    Example: penstock sim --port 8790 --symbols btc_usdt,eth_usdt --faults drop=0.01
    """
    options = {
        "simulator.host": host,
        "simulator.port": port,
        "simulator.seed": seed,
        "simulator.symbols": split(symbols),
        "simulator.faults": faults,
        "collect.data_dir": data_dir,
    }
    settings = read_settings(context, options).settings
    give_back_large_pieces()
    with last_words_logged(retried=False):
        clock = SystemClock()
        server = build_simulator(settings.simulator, clock, unless_drawn(log_facts), exchange)
        keep_for_good()
        has_status = data_dir is not None
        asyncio.run(_serve(server, settings, seconds, as_json=as_json, has_status=has_status))


async def _serve(
    server: SimulatorServer,
    settings: Settings,
    seconds: float | None,
    *,
    as_json: bool,
    has_status: bool,
) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop)
        if has_status:
            await stack.enter_async_context(reported(server, settings, clock))
        address = f"http://{server.address}"
        if as_json:
            say({"listening": address, "seed": settings.simulator.seed, "symbols": server.symbols})
        else:
            typer.echo(f"listening on {address}; Ctrl-C stops")
        deadline = asyncio.create_task(stop_after(seconds, stop, clock))
        view = View(
            lambda viewport: draw_state(server.state(), viewport),
            lambda: describe_state(server.state()),
        )
        await show_until(stop, clock, view)
        deadline.cancel()
        if as_json:
            say(server.state())
