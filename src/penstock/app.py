"""The composition root: settings in, parts put together out."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path

from penstock.clock import Clock
from penstock.collect.collector import Collector
from penstock.collect.continuity import Continuity
from penstock.collect.reporter import Place, Reporter
from penstock.collect.status import IdsStatus, read_status
from penstock.config import Settings, Simulator
from penstock.errors import NotOurRecord
from penstock.exchanges import registry as exchanges
from penstock.exchanges.gateway import gateway_for
from penstock.publish.memory import MemoryPublisher
from penstock.recorder import Recorder
from penstock.simulator import registry
from penstock.simulator.ledger import Ledger
from penstock.simulator.market import Libraries, Market
from penstock.simulator.server import SimulatorServer
from penstock.storage.log import open_log
from penstock.telemetry import Listener, StatusUnreadable, quiet


@asynccontextmanager
async def open_collector(
    settings: Settings, name: str, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[Collector]:
    """A collector for one exchange, in a slot of its own, that knows what it missed while away.

    Raises:
        UnknownExchange: there is none of that name.
        SlotInUse: another process collects from it into the same folder.
        StorageError: the folder cannot be written.
    """
    exchange = exchanges.load(name)
    folder, slot = Path(settings.collect.data_dir), f"collect-{name}"
    continuity = Continuity(exchange.consecutive, listener)
    reporter = Reporter(Place(name, slot, folder), continuity, clock, listener)
    log = open_log(f"rocksdb:{folder}")
    with closing(log.writer(slot)) as writer:
        with closing(log.reader()) as reader:
            continuity.resume(name, _known_before(folder, slot, listener), reader)
        recorder = Recorder(
            writer,
            MemoryPublisher(),
            (continuity, reporter),
            durability=settings.collect.durability,
            listener=listener,
        )
        with closing(recorder):
            async with aclosing(gateway_for(exchange, settings, clock, listener)) as gateway:
                yield Collector(
                    exchange=exchange,
                    gateway=gateway,
                    recorder=recorder,
                    continuity=continuity,
                    reporter=reporter,
                    clock=clock,
                    settings=settings.collect,
                    stream_url=settings.exchanges.stream_urls.get(name, exchange.stream_url),
                    tell=listener,
                )


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
    return SimulatorServer(built, settings, clock, listener, Ledger(markets))
