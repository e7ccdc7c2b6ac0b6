"""Shared by several commands: options, comma-separated lists, and output of JSON lines."""

import sys
from typing import Annotated

import msgspec
import typer

from penstock.config import Settings
from penstock.exchanges import registry
from penstock.storage.log.keys import is_slot_name
from penstock.telemetry.printable import printable_json


def default(setting: str) -> str:
    """Return the default of the setting that an option sets, for the help."""
    section, _, name = setting.partition(".")
    value = getattr(getattr(Settings(), section), name)
    return ",".join(value) if isinstance(value, tuple) else str(value)


_FAMILIES = "".join(f", {family}{registry.SEPARATOR}NAME" for family in registry.families())
EXCHANGES = f"{', '.join(registry.names())}{_FAMILIES}"
"""The available exchanges, for the help."""
ExchangeArgument = Annotated[str, typer.Argument(help=f"Exchange: {EXCHANGES}.")]
MarketsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Markets: btc_usdt, BTC/USDT, BTC-USDT or the exchange's own spelling."),
]

OnlyMarketsArgument = Annotated[
    list[str] | None, typer.Argument(help="Only these markets.", show_default=False)
]
OnlyExchangeOption = Annotated[
    str | None, typer.Option(help="Only this exchange.", show_default=False)
]
SymbolsOption = Annotated[
    str | None,
    typer.Option(
        "--symbols",
        help="Markets to list, separated by commas; 'all' lists them all.",
        show_default="the first three",
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(help="Address to listen on.", show_default=default("simulator.host")),
]
PortOption = Annotated[
    int | None,
    typer.Option(help="Port; 0 chooses a free one.", show_default=default("simulator.port")),
]
SeedOption = Annotated[
    int | None,
    typer.Option(help="Seed of the simulated market.", show_default=default("simulator.seed")),
]
FaultsOption = Annotated[
    str | None,
    typer.Option(
        help="Faults to inject: drop=0.01,cut=5s (docs/simulator.md).", show_default="nothing"
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(help="Stop after this many seconds.", show_default="runs until stopped"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines on stdout.")]


def _checked_slot(name: str | None) -> str | None:
    if name is None or is_slot_name(name):
        return name
    raise typer.BadParameter(f"{name!r} is not a name: use letters, digits, - and _, such as b")


SlotOption = Annotated[
    str | None,
    typer.Option(
        "--slot",
        help="Suffix of the log's slot, to run several such processes on one data folder:"
        " with --slot b, collect EXCHANGE writes to collect-EXCHANGE-b.",
        callback=_checked_slot,
        show_default=False,
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        help="Data folder.",
        show_default=default("collect.data_dir"),
    ),
]


def split(names: str | None) -> list[str] | None:
    """Split names separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def say(facts: object) -> None:
    """Write one JSON line to stdout."""
    typer.echo(printable_json(msgspec.json.encode(facts).decode()))


def note(words: str) -> None:
    """Write one line to stderr, separate from the output on stdout."""
    sys.stderr.write(words + "\n")
