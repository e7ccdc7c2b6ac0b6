"""cryptofeed's side of the decode benchmark, in its own environment.

Its Binance feed is driven as its connection handler drives it: stamp a message, then await the
feed's message handler, which parses it, judges it, applies it and awaits the callbacks.
Only snapshots do not come over HTTP: they are handed to it where it would ask.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

from bench.inputs.binance import Inputs
from bench.inputs.truth import Testimony
from cryptofeed.defines import BINANCE, L2_BOOK, TICKER, TRADES
from cryptofeed.exchanges import Binance
from cryptofeed.symbols import Symbols

CASES = {
    "binance_mix": "",
    "binance_book": "@depth",
    "binance_book_materialised": "@depth",
    "binance_trades": "@aggTrade",
    "binance_ticker": "@bookTicker",
}
KINDS = {L2_BOOK: "BookDelta", TRADES: "AggTrade", TICKER: "Ticker"}


class Replay:
    """The inputs, ready to be replayed."""

    def __init__(self, inputs):
        self._frames = [frame.decode() for frame in inputs.frames()]
        self._snapshots = inputs.snapshots()
        self.natives = {f"{name.removesuffix('USDT')}-USDT": name for name in self._snapshots}
        Symbols.set(BINANCE, self.natives, {})

    def frames(self, stream):
        return [frame for frame in self._frames if stream in frame[:40]]

    def feed(self, callbacks):
        feed = Binance(symbols=list(self.natives), channels=list(KINDS), callbacks=callbacks)

        async def read(address):
            return self._snapshots[address.partition("symbol=")[2].partition("&")[0]]

        feed.http_conn.read = read
        return feed

    async def run(self, frames, feed):
        """Hand over every message. This is what is timed."""
        handle, now = feed.message_handler, time.time
        for frame in frames:
            await handle(frame, None, now())


def counting(case, seen):
    """Callbacks that look at every event once, or at the best levels too."""

    async def trade(_trade, _at):
        seen["AggTrade"] += 1

    async def ticker(_ticker, _at):
        seen["Ticker"] += 1

    async def book(book, _at):
        seen["BookDelta" if book.delta else "BookSnapshot"] += 1

    async def touch(book, _at):
        seen["BookDelta" if book.delta else "BookSnapshot"] += 1
        sides = book.book
        _bid, _ask = sides.bids.index(0), sides.asks.index(0)

    on_book = touch if case == "binance_book_materialised" else book
    return {L2_BOOK: on_book, TRADES: trade, TICKER: ticker}


async def measure(replay, case):
    seen = Counter()
    frames, feed = replay.frames(CASES[case]), replay.feed(counting(case, seen))
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
    for name, native in sorted(replay.natives.items()):
        if name in feed._l2_book:
            book = feed._l2_book[name].book
            testimony.book(native, book.bids.to_list(), book.asks.to_list())


async def testify(replay):
    """Everything that was seen, number by number; not timed."""
    testimony = Testimony()

    async def trade(trade, _at):
        assert isinstance(trade.price, Decimal)
        testimony.trade(replay.natives[trade.symbol], int(trade.id), trade.price, trade.amount)

    async def ticker(ticker, _at):
        testimony.ticker(replay.natives[ticker.symbol], ticker.bid, ticker.ask)

    async def book(book, _at):
        if book.delta:
            sides = book.book
            touch = sides.bids.index(0), sides.asks.index(0)
            testimony.touch(replay.natives[book.symbol], *touch)

    feed = replay.feed({L2_BOOK: book, TRADES: trade, TICKER: ticker})
    await replay.run(replay.frames(""), feed)
    tell_books(replay, feed, testimony)
    return testimony.seal()


async def main():
    replay = Replay(Inputs(Path(sys.argv[1])))
    for line in sys.stdin:
        name = line.strip()
        result = await (testify(replay) if name == "testify" else measure(replay, name))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
