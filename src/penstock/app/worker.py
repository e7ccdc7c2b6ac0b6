"""Builds a worker from settings."""

import os
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from pathlib import Path

from msgspec.structs import replace

from penstock.app.bus import publishing
from penstock.app.slots import free_slot
from penstock.app.state import open_state
from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.ingest import registry
from penstock.ingest.claims import check_claims
from penstock.ingest.context import HandlerContext
from penstock.jobs.leases import Leases
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.publish.endpoints import log_id, resolve_endpoints
from penstock.recorder import Recorder
from penstock.storage.log import open_log
from penstock.telemetry import Listener, quiet, tell_all


@asynccontextmanager
async def open_worker(
    settings: Settings, clock: Clock, listener: Listener = quiet, slot: str | None = None
) -> AsyncIterator[Worker]:
    """Open a worker for the shared jobs, in the named slot or in the first free one.

    Raises:
        ConfigError: the settings of the bus are invalid.
        SlotInUse: another process writes to the named slot.
        StoreUnreachable, NewerStore: the state store cannot be opened.
        StorageError: the folder cannot be written.
    """
    folder = Path(settings.collect.data_dir)
    endpoints = resolve_endpoints(settings.bus, folder)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_state(settings, clock))
        log = open_log(f"rocksdb:{folder}")
        writer = log.writer(f"work-{slot}") if slot else free_slot(log, "work")
        stack.enter_context(closing(writer))
        publisher = await stack.enter_async_context(publishing(endpoints, writer, clock, listener))
        recorder = Recorder(
            writer, publisher, durability=settings.collect.durability, listener=listener
        )
        stack.enter_context(closing(recorder))
        impatient = replace(settings.requests, acquire_timeout=settings.jobs.acquire_timeout)
        gateways = FleetGateways(store, replace(settings, requests=impatient), clock, listener)
        await stack.enter_async_context(aclosing(gateways))
        reader = stack.enter_context(closing(log.reader()))
        job_service = JobService(store, registry.kinds())
        markets = Markets(store, gateways, listener)
        context = HandlerContext(
            gateways, markets, recorder, clock, reader, job_service, listener, log_id(folder)
        )
        await check_claims(context)
        yield Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(store, registry.kinds()),
            registry.build(context),
            clock,
            settings.jobs,
            tell_all([gateways.counters, listener]),
        )
