"""Our side of the decode benchmark: a process that replays the inputs as often as it is asked.

Each line it reads names a case; it answers with one JSON line. What is timed is what a session
does for every frame (stamp, read, judge, apply), and a listener that is handed every event. Frames
are read as many at once as a session finds on its socket when it has all it can do; a session with
little to do finds one or two, and that is a case of its own.
"""

import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from operator import itemgetter
from pathlib import Path

import msgspec
from bench.inputs.stored import Inputs
from bench.inputs.truth import Testimony

from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.exchanges.base import Rest
from penstock.exchanges.registry import load
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.codec import encode
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
FRAMES_AT_ONCE = 256
"""What a session finds on its socket, about, when it has all it can do."""
WITHOUT_IDS = {"kraken"}
"""Where the peer's format does not number trades."""


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

    def connection(self, *, keep_levels: bool) -> Connection:
        """A connection for everything, which it has asked for already."""
        dialect = self._exchange.dialect(self.symbols)
        connection = Connection(dialect, self._wanted(), lambda: 0.5, keep_levels=keep_levels)
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
        waiting: list[bytes] = []
        stamps_ns: list[int] = []

        def read() -> None:
            connection.received_many(waiting, [anchor_ns + each for each in stamps_ns])
            waiting.clear()
            stamps_ns.clear()
            if connection.commands:
                self._fetch(connection, clock.now_ns())
            if len(connection.events) >= case.events_at_once:
                case.listen(connection.take_events(), connection)

        for frame in frames:
            waiting.append(frame)
            stamps_ns.append(monotonic_ns())
            if len(waiting) >= at_once:
                read()
        read()
        case.listen(connection.take_events(), connection)

    def _fetch(self, connection: Connection, at_ns: int) -> None:
        for command in connection.take_commands():
            assert isinstance(command, FetchSnapshot), f"the machine wants {command}"
            connection.snapshot_arrived(self.snapshot(command.symbol, at_ns))


class Case:
    """One thing to time: which frames, and what a listener does with the events."""

    exchange, stream = "binance", ""
    """Of which exchange, and of which of its streams; of all, if none is named."""
    keep_levels, frames_at_once, events_at_once = True, FRAMES_AT_ONCE, FRAMES_AT_ONCE

    def __init__(self) -> None:
        self.seen: Counter[type[Event]] = Counter()

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        """Look at every event once."""
        self.seen.update(map(type, events))


class Kraken(Case):
    """Every book update's checksum is compared, as it always is."""

    exchange = "kraken"


class Coinbase(Case):
    exchange = "coinbase"


class Upbit(Case):
    exchange = "upbit"


class OneByOne(Case):
    """Every frame is read by itself."""

    frames_at_once = 1


class Trades(Case):
    stream = "@aggTrade"


class Tickers(Case):
    stream = "@bookTicker"


class Books(Case):
    stream = "@depth"


class Touches(Case):
    """Reads both best levels, as decimals, after every delta."""

    stream, frames_at_once, events_at_once = "@depth", 1, 1

    def listen(self, events: Sequence[Event], connection: Connection) -> None:
        for event in events:
            self.seen[type(event)] += 1
            if type(event) is BookDelta:
                book = connection.books[event.symbol].levels
                assert book is not None
                _bid, _ask = book.best_bid, book.best_ask


class Decimals(Case):
    """Reads every number of every event as a decimal."""

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        for event in events:
            self.seen[type(event)] += 1
            match event:
                case BookDelta():
                    _ = event.bids, event.asks
                case AggTrade():
                    _ = event.price, event.quantity
                case Ticker():
                    _ = event.bid, event.ask


class RecordOnly(Case):
    """Keeps no levels and writes every event as the log does."""

    keep_levels = False

    def listen(self, events: Sequence[Event], _connection: Connection) -> None:
        for event in events:
            self.seen[type(event)] += 1
            encode(event)


CASES: dict[str, type[Case]] = {
    "binance_mix": Case,
    "binance_book": Books,
    "binance_book_materialised": Touches,
    "binance_trades": Trades,
    "binance_ticker": Tickers,
    "binance_mix_one_by_one": OneByOne,
    "binance_mix_decimals": Decimals,
    "binance_record_only": RecordOnly,
    "kraken_mix_crc": Kraken,
    "coinbase_mix": Coinbase,
    "upbit_mix": Upbit,
}


def measure(replay: Replay, case: Case) -> dict[str, object]:
    """CPU time of one replay, what came out of it, and the books it ends with."""
    frames, connection = replay.frames(case.stream), replay.connection(keep_levels=case.keep_levels)
    gc.collect()
    start_s = time.process_time()
    replay.run(frames, case, connection)
    cpu_s = time.process_time() - start_s
    assert not connection.malformed, connection.malformed
    books = Testimony()
    if case.keep_levels:
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

    def __init__(self, replay: Replay, testimony: Testimony) -> None:
        super().__init__()
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

    frames_at_once = events_at_once = 1

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
    connection = replay.connection(keep_levels=True)
    replay.run(frames, TouchWitness(replay, testimony), replay.connection(keep_levels=True))
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
            case = CASES[question]()
            result = measure(replays[case.exchange], case)
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
