"""Our side of the decode benchmark: a process that replays the inputs as often as it is asked.

Each line it reads is how to read and which case (``one_decimals binance_mix``); it answers with one
JSON line. What is timed is what a session does for every frame (stamp, read, judge, apply), and a
listener that is handed every event. Frames are handed over one by one (``Connection.received``), as
the peer gets them, or ``batch``: as many at once as a session finds on its socket when it has all
it can do. The listener leaves numbers as the text they come as, or makes a decimal of every one
that the peer makes one of (``decimals``).
"""

import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path

import msgspec
from bench.inputs.cases import CASES
from bench.inputs.stored import Inputs
from bench.inputs.truth import Testimony

from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.exchanges.base import Rest
from penstock.exchanges.registry import load
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import AggTrade, BookDelta, BookSnapshot, Event, Ticker, Trade
from penstock.market.levels import Level, LevelText
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.shard import Shard

CHANNELS = {
    "binance": ("book_deltas", "agg_trades", "tickers"),
    "kraken": ("book_deltas", "trades", "tickers"),
    "coinbase": ("book_deltas", "trades"),
    "upbit": ("book_deltas", "trades"),
}
"""What is streamed, by exchange: what its inputs hold."""
_COUNTED: dict[type[Event], str] = {
    Trade: "trades",
    AggTrade: "trades",
    Ticker: "tickers",
}
"""What the truth calls events."""
_NUMBERS = {
    BookDelta: attrgetter("bids", "asks"),
    BookSnapshot: attrgetter("bids", "asks"),
    Trade: attrgetter("price", "quantity"),
    AggTrade: attrgetter("price", "quantity"),
    Ticker: attrgetter("bid", "ask"),
}
"""The numbers of an event, as decimals: those that the peer makes."""
FRAMES_AT_ONCE = 256
"""What a session finds on its socket, about, when it has all it can do."""
WITHOUT_IDS = {"kraken"}
"""Where trades are compared without their ids: an older format of the exchange has none."""


class Replay:
    """The inputs, ready to be replayed."""

    def __init__(self, name: str, inputs: Inputs) -> None:
        self.exchange, self._exchange = name, load(name)
        self._channels = CHANNELS[name]
        whole = self._exchange.dialect(SymbolMap(name, ())).books.begins == "frame"
        self.changes: type[Event] = BookSnapshot if whole else BookDelta
        """What tells that a book has changed."""
        self._frames = inputs.frames()
        self._snapshots = {native: body.encode() for native, body in inputs.snapshots().items()}
        markets = inputs.markets()
        self.symbols = SymbolMap(name, [(each.native, Symbol(*each[:2])) for each in markets])
        self.names = {Symbol(*each[:2]): each.name for each in markets}
        self._rest: Rest = self._exchange.rest(self.symbols)

    def frames(self, stream: str) -> list[bytes]:
        """The frames of streams whose name holds this; all, if nothing is asked for."""
        return [frame for frame in self._frames if stream.encode() in frame[:40]]

    def counted(self, seen: Counter[type[Event]]) -> dict[str, int]:
        """How many events there were of what can be compared."""
        counts: Counter[str] = Counter()
        for kind, count in seen.items():
            counts["touches" if kind is self.changes else _COUNTED.get(kind, "others")] += count
        return dict(counts)

    def connection(self) -> Connection:
        """A connection for everything, which it has asked for already."""
        dialect = self._exchange.dialect(self.symbols)
        connection = Connection(dialect, self._wanted(), lambda: 0.5)
        connection.start()
        connection.opened(0)
        connection.take_commands()
        return connection

    def shard(self) -> Shard:
        """A shard for everything that has not begun."""
        make = partial(self._exchange.dialect, self.symbols)
        return Shard(self._exchange.name, make, self._wanted(), lambda: 0.5)

    def _wanted(self) -> list[Subscription]:
        return [Subscription(channel, tuple(self.symbols)) for channel in self._channels]

    def snapshot(self, symbol: Symbol, at_ns: int) -> BookSnapshot:
        """A market's book from before the first frame."""
        body = self._snapshots[self.symbols.native(symbol)]
        return self._rest.book(symbol, 1000).read(body, at_ns)

    def run(self, frames: list[bytes], case: "Case", connection: Connection) -> None:
        """Feed every frame, as a session would. This is what is timed."""
        clock, at_once = SystemClock(), case.frames_at_once
        monotonic_ns, anchor_ns = clock.monotonic_ns, clock.now_ns() - clock.monotonic_ns()
        received, listen = connection.received, case.listen
        waiting: list[bytes] = []
        stamps_ns: list[int] = []

        for frame in frames:
            if at_once == 1:
                received(frame, anchor_ns + monotonic_ns())
            else:
                waiting.append(frame)
                stamps_ns.append(monotonic_ns())
                if len(waiting) < at_once and frame is not frames[-1]:
                    continue
                connection.received_many(waiting, [anchor_ns + each for each in stamps_ns])
                waiting.clear()
                stamps_ns.clear()
            if connection.commands:
                self._fetch(connection, clock.now_ns())
            if connection.events:
                listen(connection.take_events(), connection)

    def _fetch(self, connection: Connection, at_ns: int) -> None:
        for command in connection.take_commands():
            assert isinstance(command, FetchSnapshot), f"the machine wants {command}"
            connection.snapshot_arrived(self.snapshot(command.symbol, at_ns))


class Case:
    """One thing to time: which frames, how many at once, and what a listener does with events."""

    def __init__(self, name: str = "binance_mix", how: str = "batch_text") -> None:
        self.exchange, self.stream = CASES[name]
        size, _, self._form = how.partition("_")
        self.frames_at_once = FRAMES_AT_ONCE if size == "batch" else 1
        self.seen: Counter[type[Event]] = Counter()

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        """Look at every event once; or at each of its numbers, as a decimal."""
        if self._form == "text":
            self.seen.update(map(type, events))
            return
        for event in events:
            kind = type(event)
            self.seen[kind] += 1
            _NUMBERS[kind](event)


def measure(replay: Replay, case: Case) -> dict[str, object]:
    """CPU time of one replay, what came out of it, and the books it ends with."""
    frames, connection = replay.frames(case.stream), replay.connection()
    gc.collect()
    start_s = time.process_time()
    replay.run(frames, case, connection)
    cpu_s = time.process_time() - start_s
    assert not connection.malformed, connection.malformed
    books = Testimony()
    tell_books(replay, connection, books)
    return {
        "us": 1e6 * cpu_s / len(frames),
        "messages": len(frames),
        "seen": replay.counted(case.seen),
        "books": books.seal()["books_digest"],
    }


def tell_books(replay: Replay, connection: Connection, testimony: Testimony) -> None:
    """Say what every book holds; one that is not synced is a failure."""
    for symbol, name in sorted(replay.names.items(), key=itemgetter(1)):
        kept = connection.books[symbol]
        if kept.state == "synced" and kept.levels is not None:
            bids, asks = kept.levels.texts()
            testimony.book(name, map(_exact, bids), map(_exact, asks))


def _exact(level: LevelText) -> Level:
    return Decimal(level[0]), Decimal(level[1])


class Witness(Case):
    """Tells every trade and every best price, read many at once."""

    def __init__(self, replay: Replay, testimony: Testimony, how: str = "batch_text") -> None:
        super().__init__(how=how)
        self.names, self.testimony = replay.names, testimony
        self.exchange, self.changes = replay.exchange, replay.changes

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        for event in events:
            name = self.names[event.symbol]
            match event:
                case AggTrade() | Trade():
                    trade_id = None if self.exchange in WITHOUT_IDS else event.id
                    self.testimony.trade(name, trade_id, event.price, event.quantity)
                case Ticker(bid=bid, ask=ask):
                    assert bid is not None
                    assert ask is not None
                    self.testimony.ticker(name, bid, ask)


class TouchWitness(Witness):
    """Tells the best levels after every delta."""

    def listen(self, events: Sequence[Event], connection: Connection) -> None:
        for event in events:
            if type(event) is self.changes:
                book = connection.books[event.symbol].levels
                assert book is not None
                bid, ask = book.best_bid, book.best_ask
                assert bid is not None
                assert ask is not None
                self.testimony.touch(self.names[event.symbol], bid, ask)


def testify(replay: Replay) -> dict[str, object]:
    """Everything that was seen, number by number; not timed."""
    testimony, frames = Testimony(), replay.frames("")
    connection = replay.connection()
    replay.run(frames, TouchWitness(replay, testimony, "one_text"), replay.connection())
    replay.run(frames, Witness(replay, testimony), connection)
    tell_books(replay, connection, testimony)
    return dict(testimony.seal())


def main() -> None:
    folder = Path(sys.argv[1])
    replays = {name: Replay(name, Inputs(folder / name)) for name in CHANNELS}
    for line in sys.stdin:
        question, _, name = line.strip().partition(" ")
        if question == "testify":
            result = testify(replays[name])
        else:
            case = Case(name, question)
            result = measure(replays[case.exchange], case)
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
