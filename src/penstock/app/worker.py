"""Builds a worker from settings."""

import os
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
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
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report
from penstock.runtime.stores import lake_to_read
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
        writer = process.own_slot(f"work-{slot}") if slot else process.own_free_slot("work")
        recorder, _ = process.open_recorder()
        impatient = replace(settings.requests, acquire_timeout=settings.jobs.acquire_timeout)
        gateways = FleetGateways(store, replace(settings, requests=impatient), clock, listener)
        await process.stack.enter_async_context(aclosing(gateways))
        reader = process.stack.enter_context(closing(process.log.reader()))
        job_service = JobService(store, registry.kinds())
        markets = Markets(store, gateways, listener)
        gaps = GapRows(store)
        files = await _open_files(process.stack, settings, clock)
        context = HandlerContext(
            gateways,
            markets,
            recorder,
            clock,
            reader,
            job_service,
            gaps,
            listener,
            process.log_id,
            process.coverage,
            partial(lake_to_read, settings),
            settings.ingest.chunk_concurrency,
            files,
        )
        await check_claims(context)
        process.start(GapWatch(context, settings.jobs.gap_watch).run())
        worker = Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(store, registry.kinds()),
            registry.build(context),
            clock,
            settings.jobs,
            fan_out([gateways.counters, listener]),
        )
        process.running(lambda: _report(worker, settings.jobs.concurrency))
        yield worker


async def _open_files(
    stack: AsyncExitStack, settings: Settings, clock: Clock
) -> PublishedFiles | None:
    source = source_of(settings, clock)
    if source is None:
        return None
    return await stack.enter_async_context(aclosing(PublishedFiles(source, clock)))


def _report(worker: Worker, most: int) -> Report:
    ended = ", ".join(f"{count:,} {how}" for how, count in sorted(worker.ended.items()))
    doing = f"{len(worker.job_runs):,} of {most:,} jobs running; runs: {ended or 'none yet'}"
    return Report(doing=doing)
