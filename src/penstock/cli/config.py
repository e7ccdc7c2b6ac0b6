"""``penstock config``: shows every setting and its source, and checks a settings file."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.context import Sources, read_settings
from penstock.config import Settings, load, setting_names
from penstock.config.monitoring import check_webhook

config = typer.Typer()
_JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@config.callback(invoke_without_command=True)
def _all(context: typer.Context, as_json: _JsonOption = False) -> None:
    """Show every setting, its value and its source; secrets are masked.

    Example: PENSTOCK_SIMULATOR_PORT=9000 penstock config
    """
    if context.invoked_subcommand is None:
        _print(list(read_settings(context, {}).rows()), origin=True, as_json=as_json)


@config.command()
def show(
    context: typer.Context,
    sections: Annotated[
        list[str] | None,
        typer.Argument(help="Only these settings or sections: api, state.url.", show_default=False),
    ] = None,
    origin: Annotated[bool, typer.Option(help="Show where each value comes from.")] = False,
    changed: Annotated[bool, typer.Option(help="Only settings that are set.")] = False,
    exchange: Annotated[
        str, typer.Option(help="Show what a process of this exchange gets.", show_default=False)
    ] = "",
    as_json: _JsonOption = False,
) -> None:
    """Show settings and their values; secrets are masked.

    Example: penstock config show state api --origin
    """
    rows = [
        row
        for row in read_settings(context, {}, exchange).rows()
        if (not changed or row[2] != "default") and _is_wanted(row[0], sections)
    ]
    if sections and not rows and not changed:
        raise typer.BadParameter(f"there are no settings {' or '.join(sections)}")
    _print(rows, origin=origin, as_json=as_json)


@config.command()
def check(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="File to check.", show_default="the one that would be read"),
    ] = None,
) -> None:
    """Check a settings file: exit code 2 and the first mistake, if there is one.

    The environment is not read, nothing is opened and no server is contacted.

    Example: penstock config check penstock.toml
    """
    sources: Sources = context.obj
    found = file or sources.file
    if found is None:
        raise typer.BadParameter("there is no penstock.toml here: name a file")
    loaded = load(Settings, {}, found)
    check_webhook(loaded.settings.alerts)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    every = len(setting_names(Settings))
    typer.echo(f"{found} is valid. It sets {len(loaded.origins)} of {every} settings.")


def _is_wanted(name: str, wanted: list[str] | None) -> bool:
    return not wanted or any(name == each or name.startswith(f"{each}.") for each in wanted)


def _print(rows: list[tuple[str, Any, str]], *, origin: bool, as_json: bool) -> None:
    if as_json:
        values = {name: {"value": value, "origin": source} for name, value, source in rows}
        typer.echo(msgspec.json.encode(values).decode())
        return
    columns = ("setting", "value", "origin") if origin else ("setting", "value")
    table = Table(*columns, box=None, header_style="bold")
    for name, value, source in rows:
        shown = ",".join(value) if isinstance(value, tuple) else str(value)
        style = "dim" if source == "default" else ""
        # As text: a value in brackets is not markup.
        table.add_row(name, Text(shown), *((Text(source, style),) if origin else ()))
    Console().print(table)
