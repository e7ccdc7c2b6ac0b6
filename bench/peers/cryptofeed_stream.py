"""cryptofeed's side of the stream benchmark, in its own environment: from a socket to the bus.

Its feed, connection handler and ZMQ backends as they come, numbers as floats (their default), in
one process on uvloop (as its FeedHandler does); or, without a bus, callbacks that look at every
event once. Snapshots are handed in where it would ask over HTTP, and its connection, which refuses
addresses without TLS, is given ours afterwards. Each line it reads is a question in JSON.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

import uvloop
from bench.inputs.stored import Inputs
from bench.peers.cryptofeed_store import Watch, connect, make_feed
from cryptofeed.backends.zmq import BookZMQ, TickerZMQ, TradeZMQ
from cryptofeed.defines import L2_BOOK, TICKER, TRADES

PATIENCE_S = 180
WARM_S = 0.3
"""What a backend's socket is given to connect: what is sent before is lost."""


async def look(_event, _at):
    """A callback that does nothing."""


async def open_backends(port, loop):
    """Its three backends on one endpoint, connected; or callbacks alone."""
    if not port:
        return {L2_BOOK: look, TRADES: look, TICKER: look}, []
    backends = {
        L2_BOOK: BookZMQ(port=port),
        TRADES: TradeZMQ(port=port),
        TICKER: TickerZMQ(port=port),
    }
    for backend in backends.values():
        backend.start(loop)
    await asyncio.sleep(WARM_S)
    return backends, list(backends.values())


async def stream(inputs, url, messages, port):
    loop, watch = asyncio.get_running_loop(), Watch(messages)
    callbacks, backends = await open_backends(port, loop)
    feed = make_feed(inputs, callbacks)
    gc.collect()
    cpu_s = time.process_time()
    connection, handler = connect(feed, url, watch)
    handler.start(loop)
    async with asyncio.timeout(PATIENCE_S):
        await watch.all_handled.wait()
        for backend in backends:
            await backend.queue.join()
        wall_s = time.time() - watch.first_s
        cpu_s = time.process_time() - cpu_s
        handler.running = False
        for backend in backends:
            await backend.stop()
            await backend.worker
        await connection.close()
    return {"wall_s": wall_s, "cpu_s": cpu_s}


async def main():
    url = sys.argv[1]
    for line in sys.stdin:
        asked = json.loads(line)
        inputs = Inputs(Path(asked["inputs"]))
        result = await stream(inputs, url, asked["messages"], asked["port"])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
