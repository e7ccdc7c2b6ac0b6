"""Words that several commands share: options, lists typed with commas, and JSON lines out."""

from typing import Annotated

import msgspec
import typer

SymbolsOption = Annotated[
    str | None,
    typer.Option("--symbols", help="Markets to list, separated by commas; 'all' lists them all."),
]
SeedOption = Annotated[int | None, typer.Option(help="Another seed is another market.")]
FaultsOption = Annotated[
    str | None, typer.Option(help="What shall go wrong: drop=0.01,cut=5s (docs/simulator.md).")
]
SecondsOption = Annotated[float | None, typer.Option(help="Stop by itself after so long.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Facts as JSON lines on stdout.")]
DataOption = Annotated[
    str | None, typer.Option("--data-dir", help="Folder for everything that is collected.")
]


def split(names: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def say(facts: object) -> None:
    """One JSON line on stdout."""
    typer.echo(msgspec.json.encode(facts).decode())
