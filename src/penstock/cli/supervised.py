"""Commands to a supervisor, shared by ``penstock restart``, ``start`` and ``stop``."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.context import read_settings
from penstock.cli.options import say
from penstock.errors import PenstockError
from penstock.supervisor.control import Action, send_to_supervisor
from penstock.telemetry.printable import printable

NamesArgument = Annotated[
    list[str],
    typer.Argument(help="Processes, as in `penstock status`; a kind selects all of that kind."),
]


def send_command(
    context: typer.Context,
    action: Action,
    names: Sequence[str],
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Send a command, print what became of the processes; exit 1 if one was given up."""
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    answer = asyncio.run(send_to_supervisor(Path(settings.collect.data_dir), action, names))
    if answer.error:
        raise PenstockError(answer.error)
    for each in answer.processes:
        if as_json:
            say(each)
        else:
            pid = f" (pid {each.pid})" if each.pid else ""
            why = f": {printable(each.reason)}" if each.state in ("given up", "waiting") else ""
            typer.echo(f"{each.name} {each.state}{pid}{why}")
    raise typer.Exit(any(each.state == "given up" for each in answer.processes))
