"""Statistics over HTTP."""

from pathlib import Path

from penstock.clock import SystemClock
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
