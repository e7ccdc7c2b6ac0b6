"""Builds a collector from settings."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from functools import partial
from pathlib import Path

from penstock.clock import Clock
from penstock.collect.absences import Absences
from penstock.collect.availability import RestAvailability
from penstock.collect.collector import Collector
from penstock.collect.listings import Listings
from penstock.collect.log_repair import reporting_damage
from penstock.collect.recording import RetryingRecorder
from penstock.collect.reporter import Reporter, StatusLocation, reporting_the_end
from penstock.collect.resuming import compare_shards, resume
from penstock.collect.summary import summarize
from penstock.config import Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.coverage.continuity import Continuity
from penstock.exchanges import registry as exchanges
from penstock.market import channels
from penstock.market.market_shard import WHOLE, MarketShard
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.slots import slot_name
from penstock.runtime.startup import until_possible
from penstock.telemetry import Listener, quiet


@asynccontextmanager
async def open_collector(
    settings: Settings,
    name: str,
    clock: Clock,
    listener: Listener = quiet,
    slot: str | None = None,
    shard: MarketShard | None = None,
) -> AsyncIterator[Collector]:
    """Open a collector for one exchange in its own slot, with the state of its last run restored.

    Several for one exchange on one folder need names for their slots; a shard has its number.

    Raises:
        ConfigError: the URL of the log or of a publisher is invalid.
        UnknownExchange, UnknownChannel: there is no exchange or channel of that name.
        SlotInUse: another process collects from it into the same folder.
        StorageError: the folder cannot be written.
        StoreUnreachable, NewerStore: the state store cannot be opened.
    """
    exchange = exchanges.load(name)
    channels.check(settings.collect.channels)
    folder, part = Path(settings.collect.data_dir), shard or WHOLE
    slot = slot_name("collect", name, slot if shard is None else str(shard.number))
    location = StatusLocation(name, slot, folder, "" if shard is None else str(shard))
    continuity = Continuity(exchange.consecutive, listener, lambda each: part.owns(each.symbol))
    reporter = Reporter(location, continuity, clock, listener)
    async with RecordingProcess("collect", settings, clock, listener) as process:
        absences = Absences(name)
        with reporting_damage(folder, slot):
            writer = await process.take_slot(slot)
            with closing(process.log.reader()) as reader:
                resume(reporter.location, reader, continuity, absences, listener)
            reporter.numbered = sum(writer.last_numbers().values())
        compare_shards(location, clock.now_ms(), listener)
        recorder, publishers = process.open_recorder((absences, reporter), continuity)
        process.coverage.alive_ns = reporter.received_until_ns
        reporter.published, reporter.take_recorded = publishers.total, process.take_recorded
        patient = RetryingRecorder(recorder, name, folder, clock, listener, continuity.recovered)
        availability = RestAvailability(
            name,
            clock,
            lambda: gateways.check(name),
            note=partial(reporter.note, "asking"),
            emit=listener,
        )

        def say(error: Exception) -> None:
            availability.failed(error)
            reporter.write("starting", trouble=str(error))

        process.running(lambda: summarize(reporter.latest, reporter.connections()))
        with reporting_the_end(reporter):
            store = await process.open_state(say)
            await until_possible(process.continue_numbers, clock, say)
            await until_possible(partial(process.take_up_others, name, part), clock, say)
            manager = ConnectorManager(store)
            await until_possible(partial(manager.ensure_connector, name), clock, say)
        gateways = FleetGateways(store, settings, clock, listener)
        await process.stack.enter_async_context(aclosing(gateways))
        process.gates = gateways.reports
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
            emit=listener,
            admitted=process.gap_reports.admitted,
            shard=part,
        )
