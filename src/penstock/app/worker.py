"""Builds a worker from settings."""

import os
import platform
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from functools import partial

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.coverage.gap_rows import GapRows
from penstock.ingest import registry
from penstock.ingest.claims import check_claims
from penstock.ingest.context import HandlerContext
from penstock.ingest.file_source import source_of
from penstock.ingest.gap_watch import GapWatch
from penstock.ingest.published_files import PublishedFiles
from penstock.jobs.leases import Leases
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.recorder import Recorder
from penstock.runtime.disk_space import DiskSpace, read_min_free
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report
from penstock.runtime.stores import lake_to_read
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, fan_out, quiet


@asynccontextmanager
async def open_worker(
    settings: Settings, clock: Clock, listener: Listener = quiet, slot: str | None = None
) -> AsyncIterator[Worker]:
    """Open a worker for the shared jobs, in the named slot or in the first free one.

    Raises:
        ConfigError: the URL of the log, of a publisher or of published files is invalid.
        SlotInUse: another process writes to the named slot.
        StoreUnreachable, NewerStore: the state store cannot be opened.
        StorageError: the folder cannot be written.
    """
    async with RecordingProcess("work", settings, clock, listener) as process:
        store = await process.open_state()
        writer = await process.take_slot(f"work-{slot}") if slot else process.own_free_slot("work")
        recorder, _ = process.open_recorder()
        gateways = await open_gateways(process, store, settings.jobs.acquire_timeout)
        files = await open_files(process)
        context = await open_context(process, recorder, store, gateways, files)
        process.start(GapWatch(context, settings.jobs.gap_watch).run())
        worker = Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(store, registry.kinds()),
            registry.build(context),
            clock,
            settings.jobs,
            fan_out([gateways.counters, listener]),
        )
        worker.suspended = disk_space(process).shortage
        process.running(lambda: _report(worker, settings.jobs.concurrency))
        yield worker


def disk_space(process: RecordingProcess) -> DiskSpace:
    """The space of the disk to which a process writes its records.

    Raises:
        ConfigError: the minimum is invalid.
    """
    least = read_min_free(process.settings.disk.min_free)
    return DiskSpace(process.log.folder or process.folder, least, process.clock, process.listener)


async def open_gateways(
    process: RecordingProcess, store: StateStore, acquire_timeout: float
) -> FleetGateways:
    """Open the gateways of a process that runs jobs; so long a request waits for the limits."""
    requests = replace(process.settings.requests, acquire_timeout=acquire_timeout)
    settings = replace(process.settings, requests=requests)
    gateways = FleetGateways(store, settings, process.clock, process.listener)
    process.gates = gateways.reports
    return await process.stack.enter_async_context(aclosing(gateways))


async def open_context(
    process: RecordingProcess,
    recorder: Recorder,
    store: StateStore,
    gateways: FleetGateways,
    files: PublishedFiles | None,
) -> HandlerContext:
    """Open what jobs need, in a process that owns its slot, and check what earlier ones recorded.

    Raises:
        StorageError: the log or the state cannot be read.
    """
    settings = process.settings
    context = HandlerContext(
        gateways,
        Markets(store, gateways, process.listener),
        recorder,
        process.clock,
        process.stack.enter_context(closing(process.log.reader())),
        JobService(store, registry.kinds()),
        GapRows(store),
        process.listener,
        process.log_id,
        process.coverage,
        partial(lake_to_read, settings),
        settings.ingest.chunk_concurrency,
        files=files,
    )
    await check_claims(context)
    await process.continue_numbers()
    return context


async def open_files(process: RecordingProcess) -> PublishedFiles | None:
    """Open the source of published files, if there is one.

    Raises:
        ConfigError: it is neither a folder nor an address.
    """
    source = source_of(process.settings, process.clock)
    if source is None:
        return None
    files = PublishedFiles(source, process.clock)
    return await process.stack.enter_async_context(aclosing(files))


def _report(worker: Worker, most: int) -> Report:
    ended = ", ".join(f"{count:,} {how}" for how, count in sorted(worker.ended.items()))
    doing = f"{len(worker.job_runs):,} of {most:,} jobs running; runs: {ended or 'none yet'}"
    suspended = worker.suspended()
    return Report(doing=doing, problems=(f"no job runs: {suspended}",) if suspended else ())
