"""Store access shared by the commands for connectors and jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from penstock.app.admin import open_admin
from penstock.cli.context import read_settings
from penstock.clock import SystemClock
from penstock.ingest.admin import FleetAdmin
from penstock.telemetry import log_facts

T = TypeVar("T")


def with_admin(
    context: typer.Context,
    data_dir: str | None,
    do: Callable[[FleetAdmin], Awaitable[T]],
    *,
    read_only: bool = False,
    exchange: str = "",
) -> T:
    """Run an action on the connectors and jobs of the configured store.

    With ``exchange`` the settings are those of a process of this exchange, such as its API key.
    With ``read_only`` the store may belong to another user: a state file is not changed.
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}, exchange).settings

    async def run() -> T:
        async with open_admin(settings, SystemClock(), log_facts, read_only=read_only) as admin:
            return await do(admin)

    return asyncio.run(run())
