"""Builds what measures storage and what sends alerts from settings, and reads their results."""

import platform
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.config.monitoring import check_webhook
from penstock.errors import ConfigError
from penstock.publish.endpoints import find_log_id
from penstock.runtime.stores import configured_log, lake_url, local_folder, open_state
from penstock.stats.alert_store import read_alerts
from penstock.stats.alerting import Alerting
from penstock.stats.alerts import Alert, newest_first
from penstock.stats.growth import Sample
from penstock.stats.reporter import KnownSizes, StatisticsReporter, with_growth
from penstock.stats.statistics import StorageStatistics, read_statistics, stored_samples
from penstock.stats.storage import Places, StorageScanner
from penstock.stats.webhook import Message, NotDelivered, post
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet


def reporter_of(
    settings: Settings, known: Callable[[], KnownSizes], clock: Clock, listener: Listener = quiet
) -> StatisticsReporter:
    """A reporter of the data folder and of the lake."""
    folder, log = Path(settings.collect.data_dir), configured_log(settings).folder
    places = Places(folder, None if log is None else log / "log", local_folder(lake_url(settings)))
    scanner = StorageScanner(places, clock.monotonic_ns)
    return StatisticsReporter(scanner, str(folder.resolve()), known, clock, listener)


def statistics_id(log_id: int) -> str:
    """The id of a data folder's statistics: it is that of the log, wherever it is mounted."""
    return f"{log_id:016x}"


def alerting_of(
    settings: Settings, store: StateStore, clock: Clock, listener: Listener = quiet
) -> Alerting:
    """What evaluates and sends alerts, in one process of a fleet.

    Raises:
        ConfigError: the address of the webhook is invalid.
    """
    check_webhook(settings.alerts)
    return Alerting(store, settings.alerts, clock, listener)


async def send_test(settings: Settings, clock: Clock) -> str:
    """Post a test message to the webhook; return why it was not accepted, or nothing.

    Raises:
        ConfigError: there is no webhook, or its address is invalid.
    """
    check_webhook(settings.alerts)
    if not settings.alerts.webhook.reveal():
        problem = "is not set, so there is nowhere to post to."
        raise ConfigError("alerts.webhook", problem=problem, origin="settings")
    now_ms = clock.now_ms()
    alert = Alert(
        rule="test",
        subject=platform.node(),
        message="This is a test: nothing is wrong.",
        severity="warning",
        state="firing",
        since_ms=now_ms,
        seen_ms=now_ms,
        changed_ms=now_ms,
    )
    try:
        await post(settings.alerts, [Message("firing", alert)])
    except NotDelivered as error:
        return str(error)
    return ""


async def stored_alerts(settings: Settings, clock: Clock) -> list[Alert]:
    """The alerts in the state store, those that fire first.

    Raises:
        StorageError: the state store cannot be read.
    """
    async with open_state(settings, clock, read_only=True) as store:
        return newest_first((await read_alerts(store)).values())


async def measure_storage(settings: Settings, clock: Clock) -> list[StorageStatistics]:
    """Measure the data folder now; then follow the stored statistics of all others.

    Raises:
        StorageError: the log or the state store cannot be read.
    """
    log = configured_log(settings)
    id_ = statistics_id((find_log_id(log.folder) if log.folder is not None else None) or 0)
    known = KnownSizes([], [])
    if log.folder is not None and (log.folder / "log").is_dir():
        with closing(log.reader()) as reader:
            known = KnownSizes(reader.stats(), [])
    own = await reporter_of(settings, lambda: known, clock).measure()
    async with open_state(settings, clock, read_only=True) as store:
        samples, others = await stored_samples(store, id_), await read_statistics(store)
    disks = tuple(
        with_growth(disk, samples.get(disk.path, []), Sample(own.at_ms, disk.data_bytes))
        for disk in own.disks
    )
    same = own.host, own.folder
    others = [each for each in others if (each.host, each.folder) != same]
    return [replace(own, disks=disks), *others]
