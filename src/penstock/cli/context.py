"""The context of every command: the sources of settings, and how to read them."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock.config import (
    Loaded,
    Settings,
    load,
    named_symbols,
    short_names,
    unused_key,
    warn_once,
)
from penstock.errors import MissingExtra, UnknownExchange, hide
from penstock.telemetry import configure_logging


@dataclass(frozen=True)
class Sources:
    """The sources of settings other than a command's own options."""

    environment: Mapping[str, str]
    file: Path | None


def read_settings(
    context: typer.Context, options: Mapping[str, object], exchange: str = ""
) -> Loaded[Settings]:
    """Return the settings of this command; an option that is None was not given.

    A command for one exchange passes its name, so that the short names for one exchange apply.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    sources: Sources = context.obj
    given = {name: value for name, value in options.items() if value is not None}
    signs = _signs(exchange)
    aliases = short_names(exchange, signs=signs)
    loaded = load(Settings, sources.environment, sources.file, given, aliases)
    hide(loaded.secrets())
    style = loaded.settings.logging.format
    if style == "auto":
        style = "human" if sys.stderr.isatty() else "json"
    configure_logging(style, loaded.settings.logging.level)
    warn_once(loaded.warnings)
    if exchange and not signs:
        warn_once(unused_key(exchange, sources.environment))
    return loaded


def _signs(exchange: str) -> bool:
    """Whether requests to an exchange can be signed with an API key."""
    if not exchange:
        return False
    from penstock.exchanges import registry  # noqa: PLC0415 - of no use to other commands

    try:
        return registry.load(exchange).keyed is not None
    except (UnknownExchange, MissingExtra):  # which the command itself reports
        return False


def symbols_or_named(context: typer.Context, typed: list[str] | None) -> tuple[str, ...]:
    """Return the markets on the command line; if there are none, those in the environment."""
    sources: Sources = context.obj
    return tuple(typed or named_symbols(sources.environment))
