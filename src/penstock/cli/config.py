"""``penstock config``: shows every setting and its source."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.context import read_settings


def config(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show every setting, its value and its source; secrets are masked.

    Example: PENSTOCK_SIMULATOR_PORT=9000 penstock config
    """
    rows = list(read_settings(context, {}).rows())
    if as_json:
        values = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        typer.echo(msgspec.json.encode(values).decode())
        return
    table = Table("setting", "value", "origin", box=None, header_style="bold")
    for name, value, origin in rows:
        shown = ",".join(value) if isinstance(value, tuple) else str(value)
        table.add_row(name, shown, f"[dim]{origin}[/]" if origin == "default" else origin)
    Console().print(table)
