"""What the commands for connectors and jobs share: the store behind them, and how they answer."""

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
) -> T:
    """Do something with the connectors and jobs of the store that is set.

    With ``read_only`` it may belong to another user: a state file is not changed.
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings

    async def run() -> T:
        async with open_admin(settings, SystemClock(), log_facts, read_only=read_only) as admin:
            return await do(admin)

    return asyncio.run(run())
