"""Chooses the event loop of a process: uvloop if it is installed, asyncio's own otherwise."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from penstock.config.collecting import EventLoop
from penstock.errors import MissingExtra

_UVLOOP = "uvloop"


def loop_factory(wanted: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop; None for asyncio's own.

    Raises:
        MissingExtra: uvloop is demanded and is not installed.
    """
    if wanted == "asyncio" or (wanted == "auto" and find_spec(_UVLOOP) is None):
        return None
    try:
        made: Callable[[], asyncio.AbstractEventLoop] = import_module(_UVLOOP).new_event_loop
    except ModuleNotFoundError as error:
        raise MissingExtra(_UVLOOP, _UVLOOP) from error
    return made


def loop_name(wanted: EventLoop) -> str:
    """Return the name and version of the loop that a process would run on."""
    if wanted == "asyncio":
        return "asyncio"
    try:
        return f"{_UVLOOP} {version(_UVLOOP)}"
    except PackageNotFoundError:
        return "asyncio"
