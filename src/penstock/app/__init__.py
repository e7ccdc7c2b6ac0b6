"""The composition root: settings in, parts put together out."""

import os
import platform
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.app.bus import publishing
from penstock.clock import Clock
from penstock.collect.collector import Collector
from penstock.collect.continuity import Continuity
from penstock.collect.fetcher import Fetcher, Turns, build_fetcher
from penstock.collect.fetches import Desk, kinds_to_fetch
from penstock.collect.reporter import Place, Reporter
from penstock.collect.status import IdsStatus, read_status
from penstock.config import Settings, Simulator
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.errors import MissingExtra, NotOurRecord, SlotInUse
from penstock.exchanges import registry as exchanges
from penstock.ingest import registry as handlers
from penstock.ingest.means import Means
from penstock.ingest.requests import Intake
from penstock.jobs.desk import JobDesk
from penstock.jobs.leases import Leases
from penstock.jobs.worker import Worker
from penstock.publish.wiring import wire
from penstock.recorder import Recorder
from penstock.simulator import registry
from penstock.simulator.ledger import Ledger
from penstock.simulator.market import Libraries, Market
from penstock.simulator.ports import holder_of
from penstock.simulator.server import SimulatorServer
from penstock.storage.log import EventLog, LogWriter, open_log
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Listener, StatusUnreadable, quiet, tell_all

if TYPE_CHECKING:
    from penstock.api.server import ApiServer


@asynccontextmanager
async def open_collector(
    settings: Settings, name: str, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[Collector]:
    """A collector for one exchange, in a slot of its own, that knows what it missed while away.

    Raises:
        ConfigError: the bus cannot be as it is set.
        UnknownExchange: there is none of that name.
        SlotInUse: another process collects from it into the same folder.
        StorageError: the folder cannot be written.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    exchange = exchanges.load(name)
    wiring = wire(settings.bus, Path(settings.collect.data_dir))
    folder, slot = Path(settings.collect.data_dir), f"collect-{exchanges.file_name(name)}"
    continuity = Continuity(exchange.consecutive, listener)
    reporter = Reporter(Place(name, slot, folder), continuity, clock, listener)
    log = open_log(f"rocksdb:{folder}")
    async with AsyncExitStack() as stack:
        writer = stack.enter_context(closing(log.writer(slot)))
        with closing(log.reader()) as reader:
            continuity.resume(name, _known_before(folder, slot, listener), reader)
        publisher = await stack.enter_async_context(publishing(wiring, writer, clock, listener))
        if publisher is not None:
            reporter.bus = publisher.counts
        recorder = Recorder(
            writer,
            publisher,
            (continuity, reporter),
            durability=settings.collect.durability,
            listener=listener,
        )
        stack.enter_context(closing(recorder))
        store = await stack.enter_async_context(open_state(settings, clock))
        await ConnectorManager(store).ensure_connector(name)
        gateways = FleetGateways(store, settings, clock, listener)
        await stack.enter_async_context(aclosing(gateways))
        yield Collector(
            exchange=exchange,
            gateway=gateways.open(name),
            recorder=recorder,
            continuity=continuity,
            reporter=reporter,
            clock=clock,
            settings=settings.collect,
            stream_url=settings.exchanges.stream_urls.get(name, exchange.stream_url),
            tell=listener,
        )


@asynccontextmanager
async def open_fetcher(
    settings: Settings, name: str, symbols: Sequence[str], clock: Clock, listener: Listener = quiet
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
    folder, slot = Path(settings.collect.data_dir), f"fetch-{exchanges.file_name(name)}"
    wiring = wire(settings.bus, folder)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_state(settings, clock))
        # A loop has its own patience with failures, and more of it.
        once = replace(settings, requests=replace(settings.requests, attempts=1))
        gateways = FleetGateways(store, once, clock, listener)
        await stack.enter_async_context(aclosing(gateways))
        gateway = await gateways.of(name)
        markets = Markets(store, gateways, listener)
        listed = await markets.of(name)
        wanted = tuple(dict.fromkeys(listed.find(each) for each in symbols))
        await ConnectorManager(store).ensure_connector(name)
        log = open_log(f"rocksdb:{folder}")
        writer = stack.enter_context(closing(log.writer(slot)))
        reader = stack.enter_context(closing(log.reader()))
        reporter = Reporter(Place(name, slot, folder), Continuity((), listener), clock, listener)
        publisher = await stack.enter_async_context(publishing(wiring, writer, clock, listener))
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
        rest, turn = exchange.rest(listed), Turns(settings.fetch, clock)
        desk = Desk(exchange, rest, gateway, recorder, reader, clock, turn, listener)
        yield build_fetcher(desk, markets, wanted, settings.fetch, reporter)


@asynccontextmanager
async def open_worker(
    settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[Worker]:
    """A worker on the fleet's jobs, in the first slot of the log that nobody writes.

    Raises:
        ConfigError: the bus cannot be as it is set.
        StoreUnreachable, NewerStore: the state cannot be had.
        StorageError: the folder cannot be written.
    """
    folder = Path(settings.collect.data_dir)
    wiring = wire(settings.bus, folder)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_state(settings, clock))
        writer = stack.enter_context(closing(_free_slot(open_log(f"rocksdb:{folder}"), "work")))
        publisher = await stack.enter_async_context(publishing(wiring, writer, clock, listener))
        recorder = Recorder(
            writer, publisher, durability=settings.collect.durability, listener=listener
        )
        stack.enter_context(closing(recorder))
        impatient = replace(settings.requests, patience=settings.jobs.patience)
        gateways = FleetGateways(store, replace(settings, requests=impatient), clock, listener)
        await stack.enter_async_context(aclosing(gateways))
        means = Means(gateways, Markets(store, gateways, listener), recorder, clock)
        yield Worker(
            f"{platform.node()}/{writer.slot}/{os.getpid()}",
            Leases(store, tuple(handlers.kinds())),
            handlers.build(means),
            clock,
            settings.jobs,
            listener,
        )


@asynccontextmanager
async def open_intake(
    settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[Intake]:
    """Where people's connectors and jobs come in. An exchange is asked only if need be, and once.

    Raises:
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    hasty = replace(settings.requests, patience=settings.jobs.patience, attempts=1)
    async with open_state(settings, clock) as store:
        gateways = FleetGateways(store, replace(settings, requests=hasty), clock, listener)
        async with aclosing(gateways):
            desk = JobDesk(store, handlers.kinds())
            yield Intake(ConnectorManager(store), desk, Markets(store, gateways, listener))


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
    opened = partial(open_intake, settings, clock)
    async with serving(settings.api, opened, clock, listener, holder_of) as server:
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
    with exposed(settings.metrics, holder_of, Path(settings.collect.data_dir)) as metrics:
        yield tell_all([metrics, listener])


@contextmanager
def _installed_with(extra: str) -> Iterator[None]:
    """Import what only some processes need, and what is installed apart for that."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "a library", extra) from error


@asynccontextmanager
async def open_state(settings: Settings, clock: Clock) -> AsyncIterator[StateStore]:
    """What all processes share.

    Raises:
        ConfigError, MissingExtra: its address is none, or needs a library that is not there.
        StoreUnreachable, NewerStore: it cannot be had.
    """
    store = await open_store(
        settings.state.url or f"sqlite:{Path(settings.collect.data_dir) / 'state.db'}",
        clock=clock,
        patience_s=settings.state.patience,
    )
    try:
        yield store
    finally:
        await store.close()


def _free_slot(log: EventLog, name: str) -> LogWriter:
    """The first slot of that name, and a number, that no process owns."""
    for number in count():
        try:
            return log.writer(f"{name}-{number}")
        except SlotInUse:
            continue
    raise AssertionError("there is always one more")


def _known_before(folder: Path, slot: str, listener: Listener) -> Sequence[IdsStatus]:
    """What a slot's last owner said of ids; nothing if a power cut left its status in pieces."""
    try:
        before = read_status(folder, slot)
    except NotOurRecord as error:
        listener(StatusUnreadable(slot=slot, reason=str(error)))
        return ()
    return before.ids if before else ()


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
