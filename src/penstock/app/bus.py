"""Builds the bus: broker and subscribers."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError
from penstock.publish.broker import Broker
from penstock.publish.endpoints import BusEndpoints, find_log_id, resolve_endpoints
from penstock.publish.ordering import Start
from penstock.publish.subscriber import Subscriber
from penstock.runtime.process import Process
from penstock.runtime.status import Report
from penstock.runtime.stores import configured_log
from penstock.storage.log import EventLog, LogReader
from penstock.storage.log.keys import Stream
from penstock.telemetry import Listener, quiet

_PIECE = 10_000
"""Records to read from the log at once."""


@asynccontextmanager
async def open_bus(
    settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[Broker]:
    """Open the broker of the bus.

    Raises:
        ConfigError: the bus is disabled, it lacks keys, or another broker uses its address.
    """
    endpoints = bus_endpoints(settings, broker=True)
    async with Process("bus", settings, clock, listener) as process:
        broker = process.stack.enter_context(closing(Broker(endpoints, clock, listener)))
        process.name = "bus"
        process.open_state_later()
        process.running(lambda: _report(broker))
        yield broker


def _report(broker: Broker) -> Report:
    counts = broker.counts
    doing = f"{counts.forwarded:,} forwarded, {counts.missed:,} missed by slow subscribers"
    return Report(doing=doing, activity=counts.forwarded)


def bus_endpoints(settings: Settings, *, broker: bool = False) -> BusEndpoints:
    """The endpoints of the bus.

    Raises:
        ConfigError: the bus is disabled, or lacks keys.
    """
    endpoints = resolve_endpoints(settings.bus, Path(settings.collect.data_dir), broker=broker)
    if endpoints is None:
        problem = "is empty, so there is no bus. Set it, or leave it out for the default."
        raise ConfigError("bus.publish or bus.subscribe", problem=problem, origin="settings")
    return endpoints


def subscribe(
    topics: str | Sequence[str] = "",
    *,
    data_dir: str | Path | None = None,
    start: Start = "last",
    settings: Settings | None = None,
) -> Subscriber:
    """Subscribe to every record of some topics, once each, as it is written. For an event loop.

    A topic is a full name (``sim.trades.btc_usdt``), or a prefix if it ends with a dot
    (``sim.trades.``); an empty text matches everything. It starts with the last record of each
    stream (``"last"``), with new records only (``"now"``), or with a number. What the bus drops is
    read from the log in ``data_dir``, in order; what is not there is returned as ``Missing``.

    Raises:
        ConfigError: the bus is disabled, or lacks keys.
    """
    settings = settings or Settings()
    if data_dir is not None:
        settings = replace(settings, collect=replace(settings.collect, data_dir=str(data_dir)))
    wanted = [topics] if isinstance(topics, str) else list(topics)
    filler = _LogFiller(configured_log(settings))
    return Subscriber(bus_endpoints(settings), wanted, start=start, fill=filler)


class _LogFiller:
    """Reads a log, which is opened at the first read."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._reader: LogReader | None = None

    def holds(self, log: int) -> bool:
        folder = self._log.folder
        return folder is not None and find_log_id(folder) == log

    def read(self, topic: str, slot: str, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        parts = topic.split(".")
        if len(parts) != 3:
            return iter(())
        if self._reader is None:
            self._reader = self._log.reader()
        return _numbered(self._reader, Stream(*parts), slot, first, last)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def _numbered(
    reader: LogReader, stream: Stream, slot: str, first: int, last: int
) -> Iterator[tuple[int, bytes]]:
    """Records by number, read in chunks.

    Slots are read one after the other. The old values of a candle that another slot has corrected
    must not come after the correction, so each record is replaced by the one that readers return.
    """
    while piece := list(islice(reader.numbers(stream, slot, first, last), _PIECE)):
        for stored, shown in zip(piece, reader.shown(piece), strict=True):
            yield stored.number, shown.record
        first = piece[-1].number + 1
