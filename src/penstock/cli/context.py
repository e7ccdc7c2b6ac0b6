"""What every command is given: where settings come from, and how to read them."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock.config import Loaded, Settings, load
from penstock.telemetry import configure_logging


@dataclass(frozen=True)
class Sources:
    """Where settings come from, other than a command's own options."""

    environment: Mapping[str, str]
    file: Path | None


def read_settings(context: typer.Context, options: Mapping[str, object]) -> Loaded[Settings]:
    """Settings as this command sees them; an option that is None was not given.

    Raises:
        ConfigError: something is set that cannot be.
    """
    sources: Sources = context.obj
    given = {name: value for name, value in options.items() if value is not None}
    loaded = load(Settings, sources.environment, sources.file, given)
    style = loaded.settings.logging.format
    if style == "auto":
        style = "human" if sys.stderr.isatty() else "json"
    configure_logging(style)
    return loaded
