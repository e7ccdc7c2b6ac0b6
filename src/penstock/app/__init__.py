"""The composition root: settings in, parts put together out."""

import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.app.bus import publishing
from penstock.app.startup import until_possible
from penstock.clock import Clock
from penstock.collect.absences import Absences
from penstock.collect.availability import RestAvailability
from penstock.collect.collector import Collector
from penstock.collect.continuity import Continuity
from penstock.collect.fetcher import Fetcher, FetcherServices, OperatorLimit, build_fetcher
from penstock.collect.fetches import FetchContext, kinds_to_fetch
from penstock.collect.listings import Listings
from penstock.collect.log_repair import damage_told
from penstock.collect.recording import RetryingRecorder
from penstock.collect.reporter import Reporter, StatusLocation, ending_told
from penstock.collect.resuming import resume
from penstock.config import Settings, Simulator
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.errors import MissingExtra, SlotInUse
from penstock.exchanges import registry as exchanges
from penstock.ingest import registry as handlers
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.claims import check_claims
from penstock.ingest.context import HandlerContext
from penstock.jobs.leases import Leases
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.net.port_owner import port_owner
from penstock.publish.endpoints import log_id, resolve_endpoints
from penstock.recorder import Recorder
from penstock.simulator import registry
from penstock.simulator.ledger import Ledger
from penstock.simulator.market import Libraries, Market
from penstock.simulator.server import SimulatorServer
from penstock.storage.log import EventLog, LogWriter, open_log
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Listener, quiet, tell_all

if TYPE_CHECKING:
    from penstock.api.server import ApiServer


@asynccontextmanager
async def open_collector(
    settings: Settings, name: str, clock: Clock, listener: Listener = quiet, slot: str | None = None
) -> AsyncIterator[Collector]:
    """A collector for one exchange, in a slot of its own, that knows what it missed while away.

    Several on one folder need names for their slots.

    Raises:
        ConfigError: the bus cannot be as it is set.
        UnknownExchange: there is none of that name.
        SlotInUse: another process collects from it into the same folder.
        StorageError: the folder cannot be written.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    exchange = exchanges.load(name)
    endpoints = resolve_endpoints(settings.bus, Path(settings.collect.data_dir))
    folder, slot = Path(settings.collect.data_dir), _slot("collect", name, slot)
    continuity = Continuity(exchange.consecutive, listener)
    reporter = Reporter(StatusLocation(name, slot, folder), continuity, clock, listener)
    log = open_log(f"rocksdb:{folder}")
    async with AsyncExitStack() as stack:
        absences = Absences(name)
        with damage_told(folder, slot):
            writer = stack.enter_context(closing(log.writer(slot)))
            with closing(log.reader()) as reader:
                resume(reporter.location, reader, continuity, absences, listener)
            reporter.numbered = sum(writer.last_numbers().values())
        publisher = await stack.enter_async_context(publishing(endpoints, writer, clock, listener))
        if publisher is not None:
            reporter.bus = publisher.counts
        recorder = Recorder(
            writer,
            publisher,
            (continuity, absences, reporter),
            durability=settings.collect.durability,
            listener=listener,
        )
        stack.enter_context(closing(recorder))
        patient = RetryingRecorder(recorder, name, folder, clock, listener, continuity.recovered)
        availability = _availability(name, clock, lambda: gateways.check(name), reporter, listener)

        def say(error: Exception) -> None:
            availability.failed(error)
            reporter.write("starting", trouble=str(error))

        with ending_told(reporter):
            opened = partial(open_state, settings, clock)
            store = await until_possible(lambda: stack.enter_async_context(opened()), clock, say)
            manager = ConnectorManager(store)
            await until_possible(partial(manager.ensure_connector, name), clock, say)
        gateways = FleetGateways(store, settings, clock, listener)
        await stack.enter_async_context(aclosing(gateways))
        markets = Markets(store, gateways, listener)
        yield Collector(
            exchange=exchange,
            gateway=gateways.open(name),
            recorder=patient,
            availability=availability,
            listings=Listings(partial(markets.stored, name), clock),
            continuity=continuity,
            absences=absences,
            reporter=reporter,
            clock=clock,
            settings=settings.collect,
            stream_url=settings.exchanges.stream_urls.get(name, exchange.stream_url),
            tell=listener,
        )


@asynccontextmanager
async def open_fetcher(
    settings: Settings,
    name: str,
    symbols: Sequence[str],
    clock: Clock,
    listener: Listener = quiet,
    slot: str | None = None,
) -> AsyncIterator[Fetcher]:
    """A fetcher for one exchange, in a slot of its own, once it is known that it can be asked.

    Raises:
        UnknownExchange, UnknownSymbol: something is named that does not exist.
        ConfigError: something of a market is asked for, and none is named; or the bus cannot be as
            it is set.
        ExchangeError, ExchangeUnreachable, UnexpectedAnswer: the exchange cannot be asked.
        SlotInUse: another process fetches from it into the same folder.
        StorageError: the folder cannot be written.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    exchange = exchanges.load(name)
    kinds_to_fetch(settings.fetch, symbols)
    folder, slot = Path(settings.collect.data_dir), _slot("fetch", name, slot)
    endpoints, log = resolve_endpoints(settings.bus, folder), open_log(f"rocksdb:{folder}")
    reporter = Reporter(
        StatusLocation(name, slot, folder), Continuity((), listener), clock, listener
    )
    availability = _availability(name, clock, lambda: gateways.check(name), reporter, listener)
    owned: list[LogWriter] = []
    async with AsyncExitStack() as stack:

        def own() -> LogWriter:
            # Only once it is known that there is something to record, or that it must wait for it.
            if not owned:
                owned.append(stack.enter_context(closing(log.writer(slot))))
            return owned[0]

        def say(error: Exception) -> None:
            own()
            availability.failed(error)
            reporter.write("starting", trouble=str(error))

        with ending_told(reporter, lambda: bool(owned)):
            opened = partial(open_state, settings, clock)
            store = await until_possible(lambda: stack.enter_async_context(opened()), clock, say)
            # A loop retries by itself, and for longer.
            once = replace(settings, requests=replace(settings.requests, attempts=1))
            gateways = FleetGateways(store, once, clock, listener)
            await stack.enter_async_context(aclosing(gateways))
            gateway = await until_possible(partial(gateways.of, name), clock, say)
            markets = Markets(store, gateways, listener)
            listed = await until_possible(partial(markets.of, name), clock, say)
            wanted = tuple(dict.fromkeys(listed.find(each) for each in symbols))
            manager = ConnectorManager(store)
            await until_possible(partial(manager.ensure_connector, name), clock, say)
            writer = own()
        reader = stack.enter_context(closing(log.reader()))
        publisher = await stack.enter_async_context(publishing(endpoints, writer, clock, listener))
        if publisher is not None:
            reporter.bus = publisher.counts
        recorder = Recorder(
            writer,
            publisher,
            (reporter,),
            durability=settings.collect.durability,
            listener=listener,
        )
        stack.enter_context(closing(recorder))
        rest, turn = exchange.rest(listed), OperatorLimit(settings.fetch, clock)
        patient = RetryingRecorder(recorder, name, folder, clock, listener)
        context = FetchContext(exchange, rest, gateway, patient, reader, clock, turn, listener)
        listings = Listings(partial(markets.stored, name), clock, listed)
        services = FetcherServices(reporter, availability, listings, settings.collect.stop_timeout)
        yield build_fetcher(context, markets, wanted, settings.fetch, services)


@asynccontextmanager
async def open_worker(
    settings: Settings, clock: Clock, listener: Listener = quiet, slot: str | None = None
) -> AsyncIterator[Worker]:
    """A worker on the fleet's jobs, in the named slot or in the first that nobody writes.

    Raises:
        ConfigError: the bus cannot be as it is set.
        SlotInUse: another process writes to the named slot.
        StoreUnreachable, NewerStore: the state cannot be had.
        StorageError: the folder cannot be written.
    """
    folder = Path(settings.collect.data_dir)
    endpoints = resolve_endpoints(settings.bus, folder)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_state(settings, clock))
        log = open_log(f"rocksdb:{folder}")
        writer = log.writer(f"work-{slot}") if slot else _free_slot(log, "work")
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
        job_service = JobService(store, handlers.kinds())
        markets = Markets(store, gateways, listener)
        context = HandlerContext(
            gateways, markets, recorder, clock, reader, job_service, listener, log_id(folder)
        )
        await check_claims(context)
        yield Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(store, tuple(handlers.kinds())),
            handlers.build(context),
            clock,
            settings.jobs,
            tell_all([gateways.counters, listener]),
        )


@asynccontextmanager
async def open_admin(
    settings: Settings, clock: Clock, listener: Listener = quiet, *, read_only: bool = False
) -> AsyncIterator[FleetAdmin]:
    """Connectors and jobs, to administer them. An exchange is asked only if need be, and once.

    With ``read_only`` a state file is neither made nor changed.

    Raises:
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    async with (
        open_state(settings, clock, read_only=read_only) as store,
        _open_markets(settings, store, clock, listener) as markets,
    ):
        yield FleetAdmin(ConnectorManager(store), JobService(store, handlers.kinds()), markets)


async def renew_listing(
    settings: Settings, exchange: str, clock: Clock, listener: Listener = quiet
) -> None:
    """Ask an exchange what it lists, and keep that for all processes.

    Raises:
        StoreUnreachable, NewerStore: the state cannot be had.
        ExchangeError, ExchangeUnreachable: the exchange cannot be asked just now.
    """
    async with (
        open_state(settings, clock) as store,
        _open_markets(settings, store, clock, listener) as markets,
    ):
        await markets.renew(exchange)


@asynccontextmanager
async def _open_markets(
    settings: Settings, store: StateStore, clock: Clock, listener: Listener
) -> AsyncIterator[Markets]:
    """What exchanges list, for somebody who waits for it."""
    hasty = replace(settings.requests, acquire_timeout=settings.jobs.acquire_timeout, attempts=1)
    gateways = FleetGateways(store, replace(settings, requests=hasty), clock, listener)
    async with aclosing(gateways):
        yield Markets(store, gateways, listener)


@asynccontextmanager
async def open_server(
    settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator["ApiServer"]:
    """The REST API, listening.

    Raises:
        MissingExtra: what it is made of is not installed.
        ConfigError: others than this machine would be let in without a token.
        PortInUse: another program listens there.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    with _installed_with("api"):
        from penstock.api.serving import serving  # noqa: PLC0415
    opened = partial(open_admin, settings, clock)
    async with serving(settings.api, opened, clock, listener, port_owner) as server:
        yield server


@contextmanager
def measured(settings: Settings, listener: Listener) -> Iterator[Listener]:
    """A listener whose facts are counted and shown as well, if the operator wants that.

    Raises:
        MissingExtra: what it is made of is not installed.
        PortInUse: another program listens there.
    """
    if not settings.metrics.port:
        yield listener
        return
    with _installed_with("api"):
        from penstock.stats.exposition import exposed  # noqa: PLC0415
    with exposed(settings.metrics, port_owner, Path(settings.collect.data_dir)) as metrics:
        yield tell_all([metrics, listener])


@contextmanager
def _installed_with(extra: str) -> Iterator[None]:
    """Import what only some processes need, and what is installed apart for that."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "a library", extra) from error


@asynccontextmanager
async def open_state(
    settings: Settings, clock: Clock, *, read_only: bool = False
) -> AsyncIterator[StateStore]:
    """What all processes share.

    Raises:
        ConfigError, MissingExtra: its address is none, or needs a library that is not there.
        StoreUnreachable, NewerStore: it cannot be had.
    """
    store = await open_store(
        settings.state.url or f"sqlite:{Path(settings.collect.data_dir) / 'state.db'}",
        clock=clock,
        timeout_s=settings.state.timeout,
        read_only=read_only,
    )
    try:
        yield store
    finally:
        await store.close()


def _slot(kind: str, exchange: str, name: str | None) -> str:
    """The slot of a process that serves one exchange: no other kind or exchange has the same."""
    return "-".join(filter(None, (kind, exchanges.file_name(exchange), name)))


def _availability(
    name: str,
    clock: Clock,
    check: Callable[[], Awaitable[None]],
    reporter: Reporter,
    listener: Listener,
) -> RestAvailability:
    note = partial(reporter.note, "asking")
    return RestAvailability(name, clock, check, note=note, tell=listener)


def _free_slot(log: EventLog, name: str) -> LogWriter:
    """The first slot of that name, and a number, that no process owns."""
    for number in count():
        try:
            return log.writer(f"{name}-{number}")
        except SlotInUse:
            continue
    raise AssertionError("there is always one more")


def build_simulator(
    settings: Simulator, clock: Clock, listener: Listener = quiet, exchange: str | None = None
) -> SimulatorServer:
    """A simulated exchange, ready to start; the first there is, unless one is named.

    Raises:
        ConfigError: a fault or a limit is none.
        UnknownExchange, UnknownSymbol: something is named that does not exist.
    """
    libraries, name = Libraries(), exchange or registry.names()[0]
    listings = registry.catalogue(name).find(settings.symbols)
    markets = [Market(each, settings.seed, libraries.of(each)) for each in listings]
    built = registry.build(name, markets, settings)
    return SimulatorServer(built, settings, clock, listener, Ledger(markets, clock))
