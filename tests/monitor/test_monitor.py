"""What is read for each document, and how the monitor lives without its store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.clock import ManualClock, SystemClock
from penstock.config import Collect, Live, Loaded, Settings
from penstock.connectors import ConnectorManager
from penstock.errors import StoreUnreachable
from penstock.monitor.monitor import FleetMonitor
from penstock.runtime.sinks import Identified, LiveSink
from penstock.runtime.status import write_process
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import Table

from .statuses import activity, seen


class Watched(StateStore):
    """A store that notes which tables are read, and can be away."""

    away = False
    read: list[str]

    async def find(self, table: Table, *arguments: Any, **options: Any) -> Any:
        self.read.append(table.name)
        if self.away:
            raise StoreUnreachable("somewhere", "no answer")
        return await super().find(table, *arguments, **options)


@pytest.fixture
async def watched() -> Watched:
    store = Watched((await open_store("memory:"))._backend, 1)
    store.read = []
    return store


async def report(store: StateStore, messages: int, at_ms: int) -> None:
    status = seen("collect-binance", activity("binance", messages)).status
    await write_process(store, "a", replace(status, at_ms=at_ms))


async def test_an_overview_counts_jobs_and_gaps_and_reads_none(watched: Watched) -> None:
    for exchange in ("binance", "kraken"):
        await ConnectorManager(watched).ensure_connector(exchange)
    watched.read.clear()
    monitor = FleetMonitor()
    await monitor.overview(watched)
    assert sorted(watched.read) == [
        "alerts", "backups", "breakers", "connectors", "processes", "statistics"
    ]  # fmt: skip
    watched.read.clear()
    await monitor.overview(watched)
    assert sorted(watched.read) == ["alerts", "breakers", "connectors", "processes"]


async def test_the_disk_is_shown_before_a_keeper_has_measured_one(
    watched: Watched, tmp_path: Path
) -> None:
    loaded = Loaded(Settings(collect=Collect(data_dir=str(tmp_path))), {})
    disk = (await FleetMonitor(loaded).overview(watched)).disk
    assert disk is not None
    assert (disk.path, disk.days_left, disk.data_bytes) == (str(tmp_path), None, None)
    assert 0 < disk.free_bytes <= disk.total_bytes
    loaded = Loaded(Settings(collect=Collect(data_dir=str(tmp_path / "none"))), {})
    assert (await FleetMonitor(loaded).overview(watched)).disk is None


async def test_a_process_that_only_the_store_of_live_values_knows_is_shown(
    watched: Watched, tmp_path: Path
) -> None:
    settings = Settings(collect=Collect(data_dir=str(tmp_path)))
    sink = LiveSink(settings, SystemClock())
    for id_, name, exchange in (("a", "collect-binance", "binance"), ("b", "collect-up", "upbit")):
        await sink.write(Identified(id_, seen(name, activity(exchange, 5)).status))
        sink.process_id = None
    await report(watched, 7, 10_000)  # of a, with more details
    monitor = FleetMonitor(Loaded(settings, {}))

    shown = await monitor.processes(watched)

    assert sorted(each.id for each in shown.items) == ["a", "b"]
    assert [each.exchange for each in (await monitor.overview(watched)).exchanges] == [
        "binance", "upbit",
    ]  # fmt: skip
    await sink.close()


async def test_documents_wait_for_no_store_of_live_values(watched: Watched, tmp_path: Path) -> None:
    loaded = Loaded(
        Settings(collect=Collect(data_dir=str(tmp_path)), live=Live(url="redis://127.0.0.1:1/0")),
        {},
    )
    await report(watched, 7, 10_000)

    assert [each.id for each in (await FleetMonitor(loaded).processes(watched)).items] == ["a"]


async def test_rates_go_on_after_the_store_was_away(watched: Watched) -> None:
    monitor, clock = FleetMonitor(), ManualClock(SystemClock().now_ms())
    running = asyncio.create_task(monitor.run(watched, clock))
    try:
        await report(watched, 0, 10_000)
        await clock.advance(5)
        watched.away = True
        await clock.advance(5)
        with pytest.raises(StoreUnreachable):
            await monitor.overview(watched)
        watched.away = False
        await report(watched, 4_000, 30_000)
        await clock.advance(5)
        assert monitor.rates.rate("binance") == 200
        assert not running.done()
    finally:
        running.cancel()
