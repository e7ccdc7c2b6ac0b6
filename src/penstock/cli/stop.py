"""``penstock stop``: stops processes of a supervisor."""

import typer

from penstock.cli.options import DataOption, JsonOption
from penstock.cli.supervised import NamesArgument, send_command


def stop(
    context: typer.Context,
    names: NamesArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop processes of `penstock up` until they are started with `penstock start`.

    The others continue. Returns once they have ended. Exits 2 if there is no such process or no
    supervisor. To stop the supervisor itself, send it SIGTERM or press Ctrl-C.

    Example: penstock stop fetch --data-dir ~/market-data
    """
    send_command(context, "stop", names, data_dir, as_json)
