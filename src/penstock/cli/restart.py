"""``penstock restart``: stops processes of a supervisor and starts them again."""

import typer

from penstock.cli.options import DataOption, JsonOption
from penstock.cli.supervised import NamesArgument, send_command


def restart(
    context: typer.Context,
    names: NamesArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop processes of `penstock up` and start them again, also those that were given up.

    The others continue. Returns once they have been started; exits 1 if one was given up, 2 if
    there is no such process or no supervisor.

    Example: penstock restart collect:binance --data-dir ~/market-data
    """
    send_command(context, "restart", names, data_dir, as_json)
