"""cryptofeed's side of the decode benchmark, in its own environment.

Its feeds are driven as its connection handler drives them: stamp a message, then await the feed's
message handler, which parses it, judges it, applies it and awaits the callbacks. Only snapshots do
not come over HTTP: they are handed to it where it would ask. Version 3 speaks the newer format of
Kraken, as we do, and gets our frames there; version 2 gets the same events in the older one.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from bench.inputs.cases import CASES
from bench.inputs.stored import Inputs
from bench.inputs.truth import Testimony
from cryptofeed.defines import L2_BOOK, TICKER, TRADES
from cryptofeed.exchanges import Binance, Coinbase, Kraken, Upbit
from cryptofeed.symbols import Symbols

FEEDS = {
    "binance": (Binance, (L2_BOOK, TRADES, TICKER), {}),
    # Ten levels a side, as ours are: more would cost it more.
    "kraken": (
        Kraken,
        (L2_BOOK, TRADES, TICKER),
        {"max_depth": 10, "checksum_validation": True},
    ),
    "coinbase": (Coinbase, (L2_BOOK, TRADES), {}),
    "upbit": (Upbit, (L2_BOOK, TRADES), {}),
}
"""What reads an exchange's messages, which channels there are, and how it is set up."""
VERSION = int(version("cryptofeed").partition(".")[0])
SAME_FRAMES = {"kraken"} if VERSION > 2 else set()
"""Where it speaks the format that we speak, though there are frames in an older one."""
WHOLE_BOOKS = {"upbit"}
"""Where every message of a book is a whole one."""
WITHOUT_IDS = {"kraken"}
"""Where trades are compared without their ids: the older format has none."""


class Replay:
    """The inputs, ready to be replayed."""

    def __init__(self, exchange, inputs):
        self._make, self._channels, self._options = FEEDS[exchange]
        self.whole_books, self.without_ids = exchange in WHOLE_BOOKS, exchange in WITHOUT_IDS
        same = exchange in SAME_FRAMES
        frames = inputs.frames() if same else inputs.peers_frames()
        self._frames = [frame.decode() for frame in frames]
        self._snapshots = inputs.snapshots()
        self.names = sorted(market.name for market in inputs.markets())
        natives = {
            market.name: market.native if same else market.peers_native
            for market in inputs.markets()
        }
        Symbols.set(self._make.id, natives, {})

    def frames(self, stream):
        return [frame for frame in self._frames if stream in frame[:40]]

    def feed(self, callbacks):
        feed = self._make(
            symbols=self.names, channels=self._channels, callbacks=callbacks, **self._options
        )

        async def read(address, **_):
            return self._snapshots[address.partition("symbol=")[2].partition("&")[0]]

        feed.http_conn.read = read
        return feed

    async def run(self, frames, feed):
        """Hand over every message. This is what is timed."""
        handle, now = feed.message_handler, time.time
        connection = SimpleNamespace(uuid="bench", subscription=feed.subscription)
        for frame in frames:
            await handle(frame, connection, now())


def counting(replay, seen):
    """Callbacks that look at every event once."""

    whole = replay.whole_books

    async def trade(_trade, _at):
        seen["trades"] += 1

    async def ticker(_ticker, _at):
        seen["tickers"] += 1

    async def book(book, _at):
        seen["touches" if book.delta or whole else "snapshots"] += 1

    return {L2_BOOK: book, TRADES: trade, TICKER: ticker}


async def measure(replay, case):
    seen = Counter()
    frames, feed = replay.frames(CASES[case][1]), replay.feed(counting(replay, seen))
    gc.collect()
    start_s = time.process_time()
    await replay.run(frames, feed)
    cpu_s = time.process_time() - start_s
    books = Testimony()
    tell_books(replay, feed, books)
    return {
        "us": 1e6 * cpu_s / len(frames),
        "messages": len(frames),
        "seen": dict(seen),
        "books": books.seal()["books_digest"],
    }


def tell_books(replay, feed, testimony):
    for name in replay.names:
        if name in feed._l2_book:
            book = feed._l2_book[name].book
            testimony.book(name, book.bids.to_list(), book.asks.to_list())


async def testify(replay):
    """Everything that was seen, number by number; not timed."""
    testimony = Testimony()

    async def trade(trade, _at):
        assert isinstance(trade.price, Decimal)
        trade_id = None if trade.id is None or replay.without_ids else int(trade.id)
        testimony.trade(trade.symbol, trade_id, trade.price, trade.amount)

    async def ticker(ticker, _at):
        testimony.ticker(ticker.symbol, ticker.bid, ticker.ask)

    async def book(book, _at):
        if book.delta or replay.whole_books:
            sides = book.book
            touch = sides.bids.index(0), sides.asks.index(0)
            testimony.touch(book.symbol, *touch)

    feed = replay.feed({L2_BOOK: book, TRADES: trade, TICKER: ticker})
    await replay.run(replay.frames(""), feed)
    tell_books(replay, feed, testimony)
    return testimony.seal()


async def main():
    folder = Path(sys.argv[1])
    replays = {name: Replay(name, Inputs(folder / name)) for name in FEEDS}
    for line in sys.stdin:
        question, _, name = line.strip().partition(" ")
        if question == "testify":
            result = await testify(replays[name])
        else:
            result = await measure(replays[CASES[question][0]], question)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
