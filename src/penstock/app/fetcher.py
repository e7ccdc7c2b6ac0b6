"""Builds a fetcher from settings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.collect.fetcher import Fetcher, FetcherServices, OperatorLimit, build_fetcher
from penstock.collect.fetches import FetchContext, kinds_to_fetch
from penstock.collect.listings import Listings
from penstock.collect.recording import RetryingRecorder
from penstock.collect.reporter import Reporter, StatusLocation, reporting_the_end
from penstock.collect.summary import summarize
from penstock.config import Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.coverage.continuity import Continuity
from penstock.errors import SlotInUse
from penstock.exchanges import registry as exchanges
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.slots import slot_name
from penstock.runtime.startup import until_possible
from penstock.telemetry import Listener, quiet


@asynccontextmanager
async def open_fetcher(
    settings: Settings,
    name: str,
    symbols: Sequence[str],
    clock: Clock,
    listener: Listener = quiet,
    slot: str | None = None,
) -> AsyncIterator[Fetcher]:
    """Open a fetcher for one exchange in its own slot, once requests to it are possible.

    Raises:
        UnknownExchange, UnknownSymbol: one of the names does not exist.
        ConfigError: a kind needs a market, and none is named; or the URL of the log or of a
            publisher is invalid.
        ExchangeError, ExchangeUnreachable, UnexpectedAnswer: the exchange cannot be queried.
        SlotInUse: another process fetches from it into the same folder.
        StorageError: the folder cannot be written.
        StoreUnreachable, NewerStore: the state store cannot be opened.
    """
    exchange = exchanges.load(name)
    kinds_to_fetch(settings.fetch, symbols)
    folder, slot = Path(settings.collect.data_dir), slot_name("fetch", name, slot)
    reporter = Reporter(
        StatusLocation(name, slot, folder), Continuity((), listener), clock, listener
    )
    availability = RestAvailability(
        name,
        clock,
        lambda: gateways.check(name),
        note=partial(reporter.note, "asking"),
        emit=listener,
    )
    async with RecordingProcess("fetch", settings, clock, listener) as process:

        def say(error: Exception) -> None:
            availability.failed(error)
            # Owned only once there is something to record, or a status to write while it waits.
            try:
                process.own_slot(slot)
            except SlotInUse as used:
                if not used.briefly:
                    raise
            else:
                reporter.write("starting", trouble=str(error))

        process.running(lambda: summarize(reporter.latest))
        with reporting_the_end(reporter, lambda: process.owns_slot):
            store = await process.open_state(say)
            # A fetch loop has its own retries, for longer.
            once = replace(settings, requests=replace(settings.requests, attempts=1))
            gateways = FleetGateways(store, once, clock, listener)
            await process.stack.enter_async_context(aclosing(gateways))
            process.gates = gateways.reports
            gateway = await until_possible(partial(gateways.of, name), clock, say)
            markets = Markets(store, gateways, listener)
            listed = await until_possible(partial(markets.of, name), clock, say)
            wanted = tuple(dict.fromkeys(listed.find(each) for each in symbols))
            manager = ConnectorManager(store)
            await until_possible(partial(manager.ensure_connector, name), clock, say)
            await process.take_slot(slot)
        reader = process.stack.enter_context(closing(process.log.reader()))
        recorder, publishers = process.open_recorder((reporter,))
        with reporting_the_end(reporter):
            await until_possible(process.continue_numbers, clock, say)
        reporter.published = publishers.total
        rest, turn = exchange.rest(listed), OperatorLimit(settings.fetch, clock)
        patient = RetryingRecorder(recorder, name, folder, clock, listener)
        context = FetchContext(exchange, rest, gateway, patient, reader, clock, turn, listener)
        listings = Listings(partial(markets.stored, name), clock, listed)
        services = FetcherServices(reporter, availability, listings, settings.collect.stop_timeout)
        yield build_fetcher(context, markets, wanted, settings.fetch, services)
