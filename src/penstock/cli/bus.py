"""``penstock bus``: runs the broker, lists its streams, and creates keys."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.app.bus import bus_endpoints, open_bus
from penstock.app.metrics import measured
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption, note, say
from penstock.cli.running import last_words_logged, run_process
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.publish.asking import ask_bus
from penstock.publish.keys import make_keys
from penstock.publish.registry import BusFacts
from penstock.runtime.stopping import end_in_time, stop_after, stop_on_signals
from penstock.telemetry import Listener, log_facts
from penstock.telemetry.printable import printable

bus = typer.Typer(invoke_without_command=True)
_END_S = 3.0
"""Seconds to stop; the broker stores nothing, so it does not wait for queued messages."""
_NO_PUBLISHERS = (
    "penstock: bus.publishers is not set, so no client may publish; keys in bus.clients may only"
    " subscribe. Copy the public keys of collectors and workers to a separate folder, and set"
    " bus.publishers to it."
)


@bus.callback()
def run(
    context: typer.Context,
    data_dir: DataOption = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the message broker that carries new records from collectors and workers to subscribers.

    Publishers and subscribers connect and reconnect on their own, in any order. No record is lost
    while the broker is stopped: subscribers read it from the log later. Clients on other machines
    need keys; see docs/bus.md.

    Example: penstock bus --data-dir ~/market-data
    """
    if context.invoked_subcommand is not None:
        return
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    with last_words_logged(), measured(settings, log_facts) as listener:
        running = _run(settings, seconds, as_json, listener)
        run_process(running, settings.collect.event_loop)


async def _run(
    settings: Settings, seconds: float | None, as_json: bool, listener: Listener
) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    end_in_time(_END_S)
    async with open_bus(settings, clock, listener) as broker:
        if broker.endpoints.secret is not None and not settings.bus.publishers:
            note(_NO_PUBLISHERS)
        if as_json:
            say({"publish": broker.endpoints.publish, "subscribe": broker.endpoints.subscribe})
        else:
            typer.echo(f"publishers: {broker.endpoints.publish}")
            typer.echo(f"subscribers: {broker.endpoints.subscribe}; Ctrl-C stops")
        deadline = asyncio.create_task(stop_after(seconds, stop, clock))
        await broker.run(stop)
        deadline.cancel()
    if as_json:
        say(broker.counts)


@bus.command()
def streams(
    context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the streams that are being published: each stream by slot, with its last number.

    Example: penstock bus streams --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    facts = asyncio.run(ask_bus(bus_endpoints(settings), SystemClock()))
    if as_json:
        say(facts)
    else:
        _draw(facts)


@bus.command()
def keys(
    name: Annotated[str, typer.Argument(help="Owner: broker, or the name of a client.")],
    folder: Annotated[Path, typer.Option(help="Folder to write the two files to.")] = Path(),
) -> None:
    """Create a key pair: NAME.secret, to keep private, and NAME.public, to share.

    Example: penstock bus keys collector-1 --folder ~/keys
    """
    made = make_keys(folder, name)
    typer.echo(f"secret key in {made.secret}: set bus.key_file to it, and keep it private")
    typer.echo(f"public key in {made.public}: {made.public_key}")
    typer.echo(
        "copy the public key to the broker's folder bus.publishers to publish,"
        " or bus.clients to subscribe"
    )


def _draw(facts: BusFacts) -> None:
    table = Table(box=None, header_style="dim")
    for name in ("stream", "slot"):
        table.add_column(name, no_wrap=True)
    table.add_column("last number", justify="right")
    for slot in facts.slots:
        for topic, number in sorted(slot.numbers.items()):
            names = (Text(printable(name)) for name in (topic, slot.slot))
            table.add_row(*names, f"{number:,}")
    console = Console()
    console.print(table if facts.slots else "No stream is published. Begin with: penstock collect")
    counts, dropped = facts.counts, sum(slot.dropped for slot in facts.slots)
    console.print(
        f"{counts.forwarded:,} forwarded, {dropped:,} dropped by publishers,"
        f" {counts.missed:,} missed by slow subscribers, {counts.malformed:,} malformed,"
        f" {counts.refused + counts.cut:,} connections refused",
        style="dim",
    )
