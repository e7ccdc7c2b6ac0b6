"""Statistics and alerts over HTTP."""

from pathlib import Path

from tests.stats.test_alerting import ALERT

from penstock.clock import SystemClock
from penstock.stats.alert_store import take_lease, write_alerts
from penstock.stats.reporter import KnownSizes, StatisticsReporter
from penstock.stats.storage import Places, StorageScanner

from .conftest import Client


async def test_statistics_are_those_that_keepers_stored(api: Client, tmp_path: Path) -> None:
    assert (await api.ask("GET", "stats")).json == []
    clock = SystemClock()
    scanner = StorageScanner(Places(tmp_path), clock.monotonic_ns)
    reporter = StatisticsReporter(scanner, str(tmp_path), lambda: KnownSizes([], []), clock)
    found = await reporter.report(api.app_state.store, "a")

    [shown] = (await api.ask("GET", "stats")).json
    assert (shown["host"], shown["folder"]) == (found.host, str(tmp_path))
    assert shown["disks"][0]["free_bytes"] == found.disks[0].free_bytes
    assert shown["directories"][0]["directory"] == "."
    assert shown["directories"][0]["updated"].endswith("Z")


async def test_alerts_are_those_that_were_stored(api: Client) -> None:
    assert (await api.ask("GET", "alerts")).json == []
    await take_lease(api.app_state.store, "me")
    await write_alerts(api.app_state.store, [ALERT])

    [shown] = (await api.ask("GET", "alerts")).json
    assert (shown["id"], shown["state"], shown["times"]) == ("gaps/toy/trades", "firing", 1)
    metrics = (await api.ask("GET", "/metrics")).body.decode()
    assert 'penstock_alerts_firing{rule="gaps",severity="warning"} 1.0' in metrics
