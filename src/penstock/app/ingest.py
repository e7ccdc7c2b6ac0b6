"""Builds a process that ingests some products."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.app.worker import disk_space, open_context, open_files, open_gateways
from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.exchanges import registry as exchanges
from penstock.ingest import registry
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.facts import IngestStarted
from penstock.ingest.ingestion import Ingestion, Tally
from penstock.ingest.planner import Plans, Survey, plan_all
from penstock.ingest.products import (
    IngestRequest,
    Product,
    check_locks,
    check_range,
    find_products,
    left_of,
    start_job,
)
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.survey import survey
from penstock.jobs.leases import Leases
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, fan_out, quiet
from penstock.throttle.gate import Limit

# A user waits: what fails for other reasons than the limits and the circuit breaker is retried soon
# or never.
_ATTEMPTS = 3
_NO_TIME_SLICE_S = 1e9


@dataclass
class OpenIngest:
    """A process that knows its products. Nothing is changed before ``begin``."""

    process: RecordingProcess
    store: StateStore
    gateways: FleetGateways
    markets: Markets
    admin: FleetAdmin
    products: list[Product]
    tally: Tally
    files: PublishedFiles | None
    surveys: dict[int, Survey] = field(default_factory=dict, init=False)
    """What is left of each product that is not done, by its place."""
    plans: Plans | None = field(default=None, init=False)
    ingestion: Ingestion | None = field(default=None, init=False)

    @property
    def clock(self) -> Clock:
        """See ``SurveyContext``."""
        return self.process.clock

    async def check_locks(self) -> None:
        """Check that no other job fetches one of the products.

        Raises:
            ProductLocked: with its holder, since when and until when.
        """
        await check_locks(self.products, self.store)

    async def plan(self) -> Plans:
        """Ask the exchange how much is left of each product, and plan how to fetch it.

        Raises:
            BadJob: a range is in the future, or its market has no trades.
            One of ``UNAVAILABLE``: the exchange is not available now.
        """
        ingest = self.process.settings.ingest
        places = asyncio.Semaphore(ingest.workers)

        async def ask(place: int, product: Product) -> None:
            wanted, new = left_of(product), product.new
            if wanted is not None:
                async with places:
                    self.surveys[place] = await survey(
                        self, new.exchange_id, product.native, wanted, new.timeframe, self.files
                    )

        asking = [asyncio.create_task(ask(*each)) for each in enumerate(self.products)]
        try:
            await asyncio.gather(*asking)
        finally:
            for task in asking:
                task.cancel()
        self.plans = plan_all(
            [self.surveys[place] for place in sorted(self.surveys)],
            workers=ingest.workers,
            chunk_concurrency=ingest.chunk_concurrency,
        )
        return self.plans

    async def begin(self) -> Ingestion:
        """Create the jobs that do not exist, and the worker that runs them.

        Raises:
            AlreadyExists: another process has just created one for another range.
            StorageError: the folder cannot be written.
        """
        settings, clock = self.process.settings, self.process.clock
        writer = self.process.own_free_slot("ingest")
        context = await open_context(self.process, self.store, self.gateways, self.files)
        leases = Leases(self.store, registry.kinds())
        started = [await start_job(self.admin, leases, product) for product in self.products]
        for place, surveyed in self.surveys.items():
            context.surveyed[started[place].id] = surveyed
        jobs = {job.id: job for job in started}
        workers = settings.ingest.workers
        how = replace(
            settings.jobs,
            concurrency=workers,
            # Besides the jobs of workers: a user asked for so many.
            per_exchange=settings.jobs.per_exchange + workers,
            attempts=min(_ATTEMPTS, settings.jobs.attempts),
            time_slice=_NO_TIME_SLICE_S,
        )
        worker = Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(self.store, registry.kinds(), only=jobs),
            registry.build(context),
            clock,
            how,
            fan_out([self.gateways.counters, self.process.listener]),
        )
        worker.suspended = disk_space(self.process).shortage
        service = self.admin.job_service
        self.ingestion = Ingestion(
            self.products, jobs, worker, service, clock, self.tally, self._used, self.plans
        )
        await self.ingestion.find_rate()
        self.process.running(self._report)
        self.process.listener(
            IngestStarted(
                exchange=self.products[0].new.exchange_id,
                products=tuple(product.native for product in self.products),
                workers=workers,
                chunk_concurrency=settings.ingest.chunk_concurrency,
                requests_per_s=self.ingestion.limit_per_s,
            )
        )
        return self.ingestion

    def _used(self) -> Mapping[Limit, int]:
        return self.gateways.open(self.products[0].new.exchange_id).gate.used()

    def _report(self) -> Report:
        assert self.ingestion is not None
        jobs = self.ingestion.jobs.values()
        done = sum(job.state == "success" for job in jobs)
        rows = sum(job.progress.rows for job in jobs)
        suspended = self.ingestion.worker.suspended()
        return Report(
            doing=f"{done:,} of {len(jobs):,} products done; {rows:,} rows",
            problems=(f"no job runs: {suspended}",) if suspended else (),
        )


@asynccontextmanager
async def open_ingest(
    settings: Settings, request: IngestRequest, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[OpenIngest]:
    """Look up the products that a user asks for, and their jobs.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
        BadJob: the range is invalid, or the exchange cannot be asked for it.
        ExchangeError, ExchangeUnreachable: there is no listing, and it cannot be fetched now.
        ConnectorPaused: an operator stopped all requests to the exchange.
        ConfigError: the URL of the log, of a publisher or of published files is invalid.
        StoreUnreachable, NewerStore: the state store cannot be opened.
    """
    exchanges.load(request.exchange)
    check_range(request.range, clock.now_ms())
    tally = Tally(clock)
    listener = fan_out([tally, listener])
    async with RecordingProcess("ingest", settings, clock, listener) as process:
        store = await process.open_state()
        # No other jobs wait, so a request may wait for the limits as long as any.
        gateways = await open_gateways(process, store, settings.requests.acquire_timeout)
        markets = Markets(store, gateways, listener)
        admin = FleetAdmin(ConnectorManager(store), JobService(store, registry.kinds()), markets)
        await gateways.check(request.exchange)
        products = await find_products(admin, request)
        files = await open_files(process)
        yield OpenIngest(process, store, gateways, markets, admin, products, tally, files)
