"""Ticks of four simulated exchanges with 200 markets each, as penstock's dialects decode them.

The simulated exchanges are called directly, without sockets: each is sent the dialect's own
requests to subscribe, and the dialect reads the frames. First comes the present tick of every
market, then what the exchanges send, in their order: some markets trade sixty times a second, most
a few times a minute. Every exchange has the same share, so a quiet one is played faster. All runs
get the same.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import TypeVar

from penstock.config import Simulator
from penstock.exchanges.base import Exchange, Request
from penstock.exchanges.registry import load
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.codec import decode, encode
from penstock.market.events import Ticker
from penstock.simulator import registry
from penstock.simulator.engine.exchange import Asked, SimulatedExchange, StreamFeed, Subscriber
from penstock.simulator.market.market import Market, library_of
from penstock.streaming.commands import Send, Subscription, WakeAt
from penstock.streaming.connection import Connection

T = TypeVar("T")

EXCHANGES = {"binance": "usdt", "coinbase": "usd", "kraken": "usd", "upbit": "krw"}
"""The simulated exchanges, and the quote currency of their generated markets."""
MARKETS = 200
START_MS = 1_790_000_000_000
STEP_MS = 50
_RECORDS = "ticks.jsonl"
_ASKED = Asked({}, {"User-Agent": "bench"})


def record_ticks(folder: Path, ticks: int) -> None:
    """Write the first so many ticks into a folder."""
    each = [islice(_Source(name).ticks(), ticks // len(EXCHANGES)) for name in EXCHANGES]
    in_turn = chain.from_iterable(zip(*each, strict=True))
    (folder / _RECORDS).write_bytes(b"\n".join(map(encode, in_turn)))


def read_ticks(folder: Path) -> list[Ticker]:
    """The ticks of a folder."""
    events = map(decode, (folder / _RECORDS).read_bytes().split(b"\n"))
    return [event for event in events if isinstance(event, Ticker)]


class _Source:
    """One simulated exchange, and a connection that has subscribed to its tickers."""

    def __init__(self, name: str) -> None:
        settings, catalogue = Simulator(), registry.catalogue(name)
        listed = catalogue.all()[:MARKETS]
        more = range(1, 1 + MARKETS - len(listed))
        listed += catalogue.find(f"sim{number:03}_{EXCHANGES[name]}" for number in more)
        markets = [Market(each, settings.seed, library_of(each)) for each in listed]
        self._simulated, exchange = registry.build(name, markets, settings), load(name)
        symbols = _symbols(exchange, self._simulated)
        wanted = Subscription("tickers", tuple(symbols))
        self._connection = Connection(exchange.dialect(symbols), [wanted], lambda: 0.5)
        self._feeds = self._subscribe()

    def _subscribe(self) -> list[StreamFeed]:
        connection, subscriber, now_ns = self._connection, Subscriber(), START_MS * 1_000_000
        connection.start()
        connection.opened(now_ns)
        while len(names := _without_heartbeats(subscriber)) < MARKETS:
            for command in connection.take_commands():
                if isinstance(command, Send):
                    replies = self._simulated.control(command.text, subscriber, START_MS)
                    for reply in replies:
                        connection.received(reply.text, now_ns)
                elif isinstance(command, WakeAt):
                    now_ns = command.at_ns
                    connection.woken(now_ns)
        found = (self._simulated.feed(name, subscriber.dialect) for name in names)
        return [feed for feed in found if feed is not None]

    def ticks(self) -> Iterator[Ticker]:
        """The present ticks, and then all that follow."""
        yield from self._read([(feed, _latest(feed)) for feed in self._feeds])
        for after_ms in count(START_MS, STEP_MS):
            upto_ms = after_ms + STEP_MS
            sent = ((feed, feed.frames(after_ms, upto_ms)) for feed in self._feeds)
            yield from self._read(sent)

    def _read(self, sent: Iterable[tuple[StreamFeed, list[bytes]]]) -> list[Ticker]:
        wrap = self._simulated.wrap
        frames = [wrap(feed.name, frame) for feed, several in sent for frame in several]
        self._connection.received_many(frames, [START_MS * 1_000_000] * len(frames))
        assert not self._connection.malformed, self._connection.quarantine
        events = self._connection.take_events()
        return [event for event in events if isinstance(event, Ticker)]


def _without_heartbeats(subscriber: Subscriber) -> list[str]:
    return [name for name in subscriber.streams if not name.startswith("heartbeat")]


def _latest(feed: StreamFeed) -> list[bytes]:
    """The last frame before the start."""
    spans_ms = (1_000 * 4**power for power in range(8))
    found = (feed.frames(START_MS - span_ms, START_MS)[-1:] for span_ms in spans_ms)
    return next(filter(None, found), [])


def _symbols(exchange: Exchange, simulated: SimulatedExchange) -> SymbolMap:
    info = exchange.info
    if exchange.asset_names is not None:
        info = exchange.asset_names.info(_answer(exchange.asset_names.request, simulated))
    return _answer(info, simulated).symbols


def _answer(request: Request[T], simulated: SimulatedExchange) -> T:
    body = simulated.routes[request.path].answer(_ASKED, START_MS)
    assert isinstance(body, bytes), f"{request.path}: {body!r}"
    return request.read(body, START_MS * 1_000_000)
