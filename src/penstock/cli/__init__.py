"""The command line: words in, parts built by ``app``, facts out.

One module per group of commands. This one joins them, turns errors made for people into one line
and an exit code, and is the only place that reads the environment.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.apply import apply
from penstock.cli.bus import bus
from penstock.cli.collect import collect
from penstock.cli.connectors import connectors
from penstock.cli.context import Sources
from penstock.cli.demo import demo
from penstock.cli.descriptors import take_all_descriptors
from penstock.cli.fetch import fetch
from penstock.cli.gaps import gaps
from penstock.cli.jobs import jobs
from penstock.cli.judge import judge
from penstock.cli.log import log
from penstock.cli.markets import markets
from penstock.cli.serve import serve
from penstock.cli.settings import config
from penstock.cli.sim import sim
from penstock.cli.status import status
from penstock.cli.tail import tail
from penstock.cli.work import work
from penstock.errors import PenstockError
from penstock.signals import obey_hangups

DEFAULT_FILE = "penstock.toml"
_STAYING = ("collect", "fetch", "work", "serve", "bus")
"""Commands that SIGHUP does not end, unless their terminal was closed."""

app = typer.Typer(
    name="penstock",
    help="Collect crypto market data: every gap known, every rate limit kept.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(collect)
app.command()(fetch)
app.command()(work)
app.command()(serve)
app.command()(apply)
app.command()(status)
app.command()(gaps)
app.add_typer(bus, name="bus")
app.command()(tail)
app.add_typer(connectors, name="connectors")
app.add_typer(jobs, name="jobs")
app.command()(markets)
app.add_typer(log, name="log")
app.command()(sim)
app.command()(judge)
app.command()(config)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help=f"Settings file; {DEFAULT_FILE} is read where there is one.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if file is None and Path(DEFAULT_FILE).is_file():
        file = Path(DEFAULT_FILE)
    if context.invoked_subcommand not in _STAYING:
        obey_hangups()
    context.obj = Sources(environment=dict(os.environ), file=file)


def main() -> None:
    """Run a command; an error made for people becomes one line and exit code 2."""
    take_all_descriptors()
    try:
        app()
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        sys.exit(2)
