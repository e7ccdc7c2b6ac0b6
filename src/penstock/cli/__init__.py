"""The command line.

There is one module per command or group of commands, of the same name. This module joins them,
reports a ``PenstockError`` as one line and an exit code, and is the only place that reads the
environment. Commands build their components with ``app``.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penstock import __version__
from penstock.cli.context import Sources
from penstock.cli.descriptors import take_all_descriptors
from penstock.cli.lazy import LazyCommands
from penstock.compiled import path_words
from penstock.errors import PenstockError
from penstock.runtime.service_manager import use_service_manager
from penstock.signals import obey_hangups

DEFAULT_FILE = "penstock.toml"
_STAYING = ("collect", "fetch", "tickers", "work", "keep", "serve", "bus", "up")
"""Commands that SIGHUP does not end, unless their terminal was closed."""

_COMMANDS = (
    "demo", "init", "up", "restart", "start", "stop", "collect", "fetch", "tickers", "ingest",
    "work", "keep", "serve", "bus", "apply", "status", "top", "doctor", "stats", "alerts", "logs",
    "ticks", "coverage", "gaps", "verify", "tail", "replay", "export", "query",
    "connectors", "jobs", "symbols", "markets", "log", "backup", "gc", "sim", "judge", "config",
)  # fmt: skip


class _Commands(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Nothing is added later, so it need not be mutable.
        self.commands = LazyCommands(_COMMANDS, self.rich_markup_mode)  # type: ignore[assignment]


app = typer.Typer(
    name="penstock",
    cls=_Commands,
    help="Collect crypto market data: list every gap, stay within every rate limit.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}, hot path: {path_words()}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help=f"Settings file. Without it, {DEFAULT_FILE} is read if it exists.",
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
    else:
        use_service_manager(os.environ)
    context.obj = Sources(environment=dict(os.environ), file=file)


def main() -> None:
    """Run a command; a ``PenstockError`` is reported as one line, with exit code 2."""
    take_all_descriptors()
    try:
        app()
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        sys.exit(2)
