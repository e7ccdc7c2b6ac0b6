"""``penstock start``: starts processes of a supervisor."""

import typer

from penstock.cli.options import DataOption, JsonOption
from penstock.cli.supervised import NamesArgument, send_command


def start(
    context: typer.Context,
    names: NamesArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start processes of `penstock up` that were stopped or given up.

    Exits 1 if one was given up, 2 if there is no such process or no supervisor.

    Example: penstock start fetch:binance --data-dir ~/market-data
    """
    send_command(context, "start", names, data_dir, as_json)
