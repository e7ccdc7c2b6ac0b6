"""``penstock init``: writes a settings file to start from."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import note
from penstock.config.template import template
from penstock.errors import ConfigError


def init(
    file: Annotated[
        str, typer.Argument(help="File to write; - writes to stdout.")
    ] = "penstock.toml",
) -> None:
    """Write a settings file: every setting with its default, commented out and explained.

    A file that exists is left as it is, with exit code 2.

    Example: penstock init
    """
    if file == "-":
        typer.echo(template(), nl=False)
        return
    try:
        with Path(file).open("x", encoding="utf-8") as new:
            new.write(template())
    except FileExistsError as error:
        problem = "exists already and is left as it is. Name another file: penstock init FILE"
        raise ConfigError(file, problem=problem, origin="command line") from error
    except OSError as error:
        problem = f"cannot be written: {error.strerror}."
        raise ConfigError(file, problem=problem, origin="command line") from error
    note(
        f"{file} is written. Nothing is set in it yet: uncomment what you change, and check it with"
        f" penstock config check {file}"
    )
