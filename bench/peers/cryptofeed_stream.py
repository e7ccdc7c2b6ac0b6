"""cryptofeed's side of the stream benchmark, in its own environment: from sockets to ZMQ.

Its feed handler with its Binance feed and ZMQ backends as they come, numbers as floats (their
default), on uvloop as it does by itself; it runs until it is ended. Two things are not as they
come. Snapshots are handed in where it would ask over HTTP, and its connections, which refuse
addresses without TLS, are given ours afterwards. And version 3, which drops what its queues cannot
hold, is told to wait instead, so that it publishes everything as version 2 does.
"""

import asyncio
import logging
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from bench.inputs.stored import Inputs
from cryptofeed import FeedHandler
from cryptofeed.backends.zmq import BookZMQ, TickerZMQ, TradeZMQ
from cryptofeed.defines import BINANCE, L2_BOOK, TICKER, TRADES
from cryptofeed.exchanges import Binance
from cryptofeed.symbols import Symbols

BACKENDS = {L2_BOOK: BookZMQ, TRADES: TradeZMQ, TICKER: TickerZMQ}


def make_feed(inputs, address, port):
    """Its Binance feed, connected to the stand-in's streams and to the subscriber."""
    snapshots = inputs.snapshots()
    natives = {market.name: market.native for market in inputs.markets()}
    Symbols.set(BINANCE, natives, {})
    whole = {} if version("cryptofeed").startswith("2.") else {"overflow": "block"}
    callbacks = {channel: make(port=port, **whole) for channel, make in BACKENDS.items()}
    feed = Binance(symbols=list(natives), channels=list(callbacks), callbacks=callbacks)

    async def read(address, **_):
        return snapshots[address.partition("symbol=")[2].partition("&")[0]]

    def connect(connect=feed.connect):
        made = connect()
        for connection, *_ in made:
            parts = urlsplit(connection.address)
            connection.address = f"{address}{parts.path}?{parts.query}"
        return made

    feed.http_conn.read, feed.connect = read, connect
    return feed


def main():
    logging.basicConfig(level=logging.WARNING)
    folder, address, port = sys.argv[1:]
    handler = FeedHandler(config={"log": {"disabled": True}, "uvloop": True})
    handler.add_feed(make_feed(Inputs(Path(folder)), address, int(port)))
    # Version 2 wants to find a loop, which uvloop makes no more by itself.
    asyncio.set_event_loop(uvloop.new_event_loop())
    handler.run()


if __name__ == "__main__":
    main()
