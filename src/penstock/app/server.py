"""The REST API, built from settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.app.admin import open_admin
from penstock.app.extras import installed_with
from penstock.clock import Clock
from penstock.config import Settings
from penstock.net.port_owner import port_owner
from penstock.telemetry import Listener, quiet

if TYPE_CHECKING:
    from penstock.api.server import ApiServer


@asynccontextmanager
async def open_server(
    settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator["ApiServer"]:
    """The REST API, listening.

    Raises:
        MissingExtra: what it is made of is not installed.
        ConfigError: others than this machine would be let in without a token.
        PortInUse: another program listens there.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    with installed_with("api"):
        from penstock.api.serving import serving  # noqa: PLC0415
    opened = partial(open_admin, settings, clock)
    async with serving(settings.api, opened, clock, listener, port_owner) as server:
        yield server
