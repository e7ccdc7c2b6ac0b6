"""Builds a keeper from settings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.extras import installed_with
from penstock.app.monitoring import alerting_of, reporter_of, statistics_id
from penstock.app.remote import sync_regularly
from penstock.backup.outcome import write_copied
from penstock.backup.schedule import BackupSchedule
from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError
from penstock.publish.endpoints import find_log_id, log_id
from penstock.runtime.process import Process
from penstock.runtime.stores import configured_log, lake_url, open_state
from penstock.stats.reporter import KnownSizes
from penstock.storage.lake import Lake, open_lake
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

if TYPE_CHECKING:
    from penstock.keep.keeper import Keeper, KeeperServices
    from penstock.keep.planning import Planned


@asynccontextmanager
async def open_keeper(
    settings: Settings,
    clock: Clock,
    listener: Listener = quiet,
    *,
    backups: bool = False,
    secrets: Sequence[str] = (),
) -> AsyncIterator["Keeper"]:
    """Open a keeper for the log of the data folder and the lake.

    With ``backups``, they are made regularly if a folder for them is set, and copied to their
    remote if there is one; ``secrets`` of rclone are masked in errors.

    Raises:
        MissingExtra: a library it needs is not installed.
        NoBackup: a remote of backups is set, and no folder of them.
        ConfigError: a setting is invalid, or the log is in memory.
        StoreUnreachable, NewerStore: the state store cannot be opened.
        StorageError: the lake cannot be reached, or does not support several writers.
    """
    async with Process("keep", settings, clock, listener) as process:
        store = await process.open_state()
        alone = settings.storage.lake_single_writer
        lake = await asyncio.to_thread(_open_lake, settings, alone=alone)
        process.name = "keep"
        services = _services(settings, store, lake, clock, log_id)
        keeper = process.stack.enter_context(_keeping(replace(services, emit=listener), settings))
        if backups and settings.backup.folder:
            process.start(BackupSchedule(settings, clock, listener, keeper.problems).run())
        if backups and settings.backup.remote:

            async def report(problem: str) -> None:
                await write_copied(store, services.log_id, clock.now_ms(), problem)

            syncing = sync_regularly(settings, clock, listener, keeper.problems, report, secrets)
            process.start(syncing)
        process.running(keeper.report)
        reporter = reporter_of(
            settings, lambda: KnownSizes(keeper.slots, keeper.tables), clock, listener
        )
        id_ = statistics_id(services.log_id)
        process.start(reporter.run(store, id_, settings.stats.every))
        process.start(alerting_of(settings, store, clock, listener).run())
        yield keeper


async def plan_keeping(settings: Settings, clock: Clock) -> "list[Planned]":
    """What a keeper would do now. Nothing is changed.

    Raises:
        MissingExtra, ConfigError, StorageError: as above.
    """
    async with open_state(settings, clock, read_only=True) as store:
        lake = await asyncio.to_thread(_open_lake, settings, alone=True)
        services = _services(settings, store, lake, clock, lambda folder: find_log_id(folder) or 0)
        with _keeping(services, settings) as keeper:
            return await keeper.plan()


def _open_lake(settings: Settings, *, alone: bool) -> Lake:
    return open_lake(lake_url(settings), settings.storage.lake_options, alone=alone)


def _services(
    settings: Settings,
    store: StateStore,
    lake: Lake,
    clock: Clock,
    id_of: Callable[[Path], int],
) -> "KeeperServices":
    with installed_with("lake"):
        from penstock.keep.keeper import KeeperServices  # noqa: PLC0415
    log = configured_log(settings)
    if log.folder is None:
        raise ConfigError(
            "storage.log_url",
            problem="is a log in memory: there is nothing to keep.",
            origin="settings",
        )
    return KeeperServices(lake=lake, log=log, log_id=id_of(log.folder), store=store, clock=clock)


def _keeping(services: "KeeperServices", settings: Settings) -> "closing[Keeper]":
    from penstock.keep.keeper import Keeper  # noqa: PLC0415

    return closing(Keeper(services, settings))
