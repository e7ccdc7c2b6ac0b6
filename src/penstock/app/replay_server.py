"""Builds a server that replays records as the exchange they were recorded from."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace as copied
from functools import partial
from itertools import islice

from penstock.app.replay import record_source
from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError, UnknownSymbol
from penstock.market.channels import BOOK_SNAPSHOTS
from penstock.market.events import BookSnapshot
from penstock.market.symbol import Symbol
from penstock.playback.merge import merged
from penstock.playback.native import Answer, NativeExchange, native_exchange
from penstock.playback.player import Replay
from penstock.playback.sending import ReplayedState, ReplaySender
from penstock.playback.sources import RecordSource, nothing_received, select
from penstock.simulator import registry
from penstock.simulator.engine.exchange import Asked, Reply, Route, SimulatedExchange
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.listings import QUIET
from penstock.simulator.market.market import Listing, Market, library_of
from penstock.storage.log.keys import Stream
from penstock.telemetry import Listener, quiet


class ReplayServer:
    """One exchange, to which clients connect as to the real one."""

    def __init__(self, server: SimulatorServer, sender: ReplaySender, exchange: str) -> None:
        self.server, self._sender, self.exchange = server, sender, exchange

    async def play(self, replay: Replay) -> None:
        """Wait for the first subscriptions, then send everything that is replayed.

        Raises:
            NoData: nothing was received in the range.
            StorageError: the records cannot be read.
        """
        await self._sender.settled()
        async for batch in replay.abatches():
            await self._sender.send(batch)


def build_replay_server(
    settings: Settings,
    patterns: Sequence[str],
    clock: Clock,
    since_ns: int | None = None,
    until_ns: int | None = None,
    listener: Listener = quiet,
) -> ReplayServer:
    """A server for the exchange of the selected streams, ready to start.

    Raises:
        ConfigError: the streams are of several exchanges.
        NoData, UnknownStream: there are no such streams, or they have no records in the range.
        UnknownExchange: a replay cannot stand in for their exchange.
    """
    with closing(record_source(settings)()) as source:
        streams = select(source.streams(), patterns)
        next_ns = source.next_received_ns(streams, since_ns or 0)
        if next_ns is None or (until_ns is not None and next_ns >= until_ns):
            raise nothing_received(streams)
        name, *others = sorted({stream.exchange for stream in streams})
        if others:
            problem = f"are of {name} and {', '.join(others)}: one server is one exchange."
            raise ConfigError("streams", problem=problem, origin="--serve")
        symbols = sorted({Symbol.parse(stream.symbol) for stream in streams})
        native = native_exchange(name, symbols)
        state = ReplayedState(name, _first_books(source, streams, since_ns))
    exchange = registry.build(name, _markets(name, symbols), settings.simulator)
    exchange.routes = _routes(exchange, native, state)
    sender = ReplaySender(exchange, native, state, clock)
    server = SimulatorServer(exchange, settings.simulator, clock, listener, sender=sender)
    return ReplayServer(server, sender, name)


def _markets(exchange: str, symbols: Sequence[Symbol]) -> list[Market]:
    """Markets under the names of the recorded ones, so that the exchange lists them."""
    catalogue, markets = registry.catalogue(exchange), list[Market]()
    for symbol in symbols:
        try:
            [listing] = catalogue.find([symbol.slug])
            listing = copied(listing, trades_per_minute=QUIET)
        except UnknownSymbol:
            listing = Listing(
                base=symbol.base,
                quote=symbol.quote,
                price_decimals=4,
                quantity_decimals=4,
                start_price=10_000_000,
                trades_per_minute=QUIET,
                listed_at_ms=0,
            )
        markets.append(Market(listing, seed=0, library=library_of(listing)))
    return markets


def _routes(
    exchange: SimulatedExchange, native: NativeExchange, state: ReplayedState
) -> dict[str, Route]:
    def answer(answered: Answer, asked: Asked, _as_of_ms: int) -> bytes | Reply:
        return answered(asked.query, state)

    routes = {path: exchange.routes[path] for path in native.kept}
    for path, answered in native.answers.items():
        routes[path] = copied(exchange.routes[path], answer=partial(answer, answered))
    return routes


def _first_books(
    source: RecordSource, streams: Sequence[Stream], since_ns: int | None
) -> Iterator[BookSnapshot]:
    for stream in streams:
        if stream.channel == BOOK_SNAPSHOTS.name:
            for first, *_ in islice(merged(source, [stream], since_ns), 1):
                if isinstance(first.event, BookSnapshot):
                    yield first.event
