"""The metrics of a fleet in which everything happened once, as a server returns them."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace
from prometheus_client.process_collector import ProcessCollector
from tests.api.conftest import CANDLES, served
from tests.stats.test_gauges import collecting
from tests.stats.test_scraping import HOST, seen
from tests.stats.test_storage import SLOTS, places, write

from penstock.backup.outcome import BackupOutcome, write_outcome
from penstock.clock import SystemClock
from penstock.collect.facts import (
    BookDrifted,
    FetchDone,
    FetchFailed,
    StreamProbed,
    StreamStalled,
    StreamSuspected,
)
from penstock.collect.status import write_status
from penstock.config import Api
from penstock.connectors.counters import FleetCounters
from penstock.coverage.model import GapRow, as_document
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.jobs.facts import JobFailed
from penstock.keep.facts import ChannelSealed, LakeMeasured, LogMeasured, RecordsSealed
from penstock.publish.facts import BusFell, MessagesDropped
from penstock.runtime.status import write_process
from penstock.stats.alert_store import write_alerts
from penstock.stats.alerts import Alert
from penstock.stats.facts import AlertsSent, PostFailed, StorageMeasured
from penstock.stats.gauges import CollectorGauges
from penstock.stats.metrics import Metrics
from penstock.stats.reporter import KnownSizes, StatisticsReporter
from penstock.stats.scraping import FleetScraper
from penstock.stats.shares import Sampler
from penstock.stats.sockets import served_on, socket_file
from penstock.stats.storage import StorageScanner
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import BREAKERS, GAPS
from penstock.telemetry import Fact

PID = 4711
SENT = RequestSent(exchange="toy", path="/p", cost=1, status=200, took_ms=1)
FAILED = RequestFailed(exchange="toy", path="/p", cost=1, sent=True, reason="cut off")
FACTS: list[Fact] = [
    SENT,
    FAILED,
    StreamSuspected(exchange="toy", channel="trades", symbol="btc_usdt", silent_s=9),
    StreamProbed(exchange="toy", channel="trades", symbol="btc_usdt", found="news"),
    StreamStalled(exchange="toy", channel="trades", symbol="btc_usdt", remedy="asked_anew"),
    BookDrifted(exchange="toy", symbol="btc_usdt", levels=1),
    FetchDone(exchange="toy", what="trades", symbol="btc_usdt", records=1, at_ms=1),
    FetchFailed(exchange="toy", what="trades", symbol="btc_usdt", reason="x", delay_s=1),
    MessagesDropped(slot="collect-toy", count=1),
    BusFell(overflows=1, missed=1),
    RecordsSealed(slot="collect-toy", table="trades", rows=1),
    ChannelSealed(slot="collect-toy", table="trades", before_ms=1),
    LogMeasured(slots={"collect-toy": 1}, max_bytes=1),
    LakeMeasured(tables={"trades": 1}),
    AlertsSent(alerts=1),
    PostFailed(),
]


async def _statistics(folder: Path, clock: SystemClock) -> StorageMeasured:
    write(folder / "log/collect-toy/1.sst", 1)
    write(folder / "lake/trades/exchange=toy/date=2026-11-18/a.parquet", 1)
    scanner = StorageScanner(places(folder), clock.monotonic_ns)
    scanner._sampler = Sampler(lambda _: {"btc_usdt": 1.0})
    reporter = StatisticsReporter(scanner, str(folder), lambda: KnownSizes(SLOTS, []), clock)
    found = await reporter.measure()
    disks = [replace(each, growth_bytes_per_day=1.0, days_until_full=1.0) for each in found.disks]
    return StorageMeasured(statistics=replace(found, disks=tuple(disks)))


async def _fill(store: StateStore, folder: Path, clock: SystemClock) -> None:
    counters = FleetCounters(store, clock)
    for fact in (SENT, FAILED, JobFailed(job="1", kind="x", exchange="toy", reason="x",
                                         given_up=True)):  # fmt: skip
        counters(fact)
    await counters.aclose()
    breaker = {"id": "toy", "exchange_id": "toy", "breaker": {"phase": "open"}}
    await store.insert_if_absent(BREAKERS, breaker)
    gap = GapRow(exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=1, last=2,
                 cause="lost", opened_ms=1)  # fmt: skip
    await store.insert_if_absent(GAPS, as_document(gap))
    await write_outcome(
        store,
        BackupOutcome(log_id="1", folder=str(folder), host=HOST, at_ms=1, made_ms=1, name="a",
                      verified="a", verified_ms=1, problem="x", size_bytes=1, copied_ms=1),
    )  # fmt: skip
    alert = Alert(rule="gaps", subject="toy", message="", severity="warning", state="firing",
                  since_ms=1, seen_ms=1, changed_ms=1)  # fmt: skip
    await write_alerts(store, [alert])
    process = seen("collect-toy", folder, PID, last_data_ms=1)
    await write_process(store, process.id, process.status)


async def _scraped(folder: Path) -> str:
    store, clock, metrics = await open_store("memory:"), SystemClock(), Metrics()
    await _fill(store, folder, clock)
    write_status(folder, collecting())
    metrics.registry.register(CollectorGauges(folder))
    ProcessCollector(registry=metrics.registry)
    for fact in [*FACTS, await _statistics(folder, clock)]:
        metrics(fact)
    with ExitStack() as stack:
        file = socket_file(folder, HOST, PID)
        stack.enter_context(served_on(file, metrics.text))
        async with served(store, Api(port=0), scraper=FleetScraper(folder)) as api:
            await api.ask("POST", "jobs", {**CANDLES})
            await api.ask("POST", "connectors", {"exchange_id": "toy"})
            while True:
                text = (await api.ask("GET", "/metrics")).body.decode()
                if 'penstock_process_scraped{kind="collect",process="collect-toy"} 1.0' in text:
                    return text


def metrics_of_a_busy_fleet(folder: Path) -> str:
    """What a server returns at /metrics."""
    return asyncio.run(_scraped(folder))
