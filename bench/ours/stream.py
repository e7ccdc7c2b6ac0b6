"""Our side of the stream benchmark: from a socket to the log on disk and to the bus.

Everything is what a collector is made of; only the exchange's REST side is missing, and snapshots
are handed in where it would be asked. Told to do no more than the libraries beneath it must, it
takes each frame off the socket, writes it and publishes it, and looks at nothing.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import zmq
from bench.inputs.stored import Inputs
from bench.ours.decode import FRAMES_AT_ONCE, Replay
from picows import WSFrame, WSListener, WSTransport, ws_connect
from rocksdict import Options, Rdict, WriteBatch

from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.config import Bus
from penstock.market.events import BookSnapshot
from penstock.publish.endpoints import resolve_endpoints
from penstock.publish.frames import Head
from penstock.publish.zeromq import ZeroMqPublisher
from penstock.recorder import Recorder
from penstock.storage.log import Stored, open_log

SLOT = "bench"
READ_BYTES = 256 * 1024
DAWDLE_S = 180
WARM_S = 1.0
"""What a socket is given to connect: before, nobody listens."""


class Question(msgspec.Struct):
    """What is asked: which inputs, where to, and how."""

    inputs: str
    folder: str
    messages: int
    file: str
    how: str


async def collect(asked: Question, url: str) -> dict[str, object]:
    """Stream so many messages into a fresh log and to the bus; the CPU time it took.

    And what each record takes in the second half, when all books have begun.
    """
    replay, folder = Replay("binance", Inputs(Path(asked.inputs))), Path(asked.folder)
    clock, stop, expected = SystemClock(), asyncio.Event(), asked.messages + len(replay.symbols)
    endpoints = resolve_endpoints(
        Bus(publish=f"ipc://{asked.file}", queue=1_000_000, linger=30), folder
    )
    assert endpoints is not None
    recorded, steady = 0, (0, 0.0)

    def count(stored: Sequence[Stored]) -> None:
        nonlocal recorded, steady
        recorded += len(stored)
        if recorded >= expected // 2 and not steady[0]:
            steady = recorded, time.process_time()
        if recorded >= expected:
            stop.set()

    async def fetch_book(command: FetchSnapshot, _: Callable[[], bool]) -> BookSnapshot:
        return replay.snapshot(command.symbol, clock.now_ns())

    publisher = ZeroMqPublisher(endpoints, SLOT, Head(run=1, log=1))
    with closing(publisher), closing(open_log(f"rocksdb:{folder}").writer(SLOT)) as log:
        recorder, shard = Recorder(log, publisher, (count,)), replay.shard()
        hooks = SessionHooks(recorder.record, fetch_book)
        session = Session(shard, Endpoint("binance", url, DAWDLE_S), hooks, clock)
        await clock.sleep(WARM_S)
        gc.collect()
        cpu_s = time.process_time()
        async with asyncio.timeout(DAWDLE_S):
            await session.run(stop)
        ended_s = time.process_time()
        recorder.close()
        wrong = [each for each, book in shard.books.items() if book.state != "synced"]
    if wrong or shard.stats.malformed or publisher.counts.dropped or publisher.counts.unheard:
        raise SystemExit(f"{wrong} {shard.stats.malformed} {publisher.counts}")
    each_s = (ended_s - steady[1]) / max(1, recorded - steady[0])
    return {"cpu_s": ended_s - cpu_s, "steady_cpu_s": each_s}


class _PassThrough(WSListener):
    """Writes and publishes every frame as it is."""

    def __init__(self, db: Rdict, bus: zmq.Socket[bytes], messages: int) -> None:
        self.all_passed, self.closed = asyncio.Event(), asyncio.Event()
        self._db, self._bus, self._messages = db, bus, messages
        self._number, self._batch = 0, WriteBatch(raw_mode=True)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """See picows."""
        payload = frame.get_payload_as_bytes()
        self._number += 1
        self._batch.put(self._number.to_bytes(8, "big"), payload)
        self._bus.send(payload)
        if self._number % FRAMES_AT_ONCE == 0 or self._number == self._messages:
            self._db.write(self._batch)
            self._batch = WriteBatch(raw_mode=True)
        if self._number == self._messages:
            self.all_passed.set()
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:  # noqa: ARG002 (picows's)
        """See picows."""
        self.closed.set()


async def pass_through(asked: Question, url: str) -> dict[str, object]:
    """Take, write and publish so many frames as they are; the CPU time it took."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    bus = context.socket(zmq.PUB)
    bus.setsockopt(zmq.SNDHWM, 0)
    bus.connect(f"ipc://{asked.file}")
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    with closing(Rdict(asked.folder, options)) as db:
        passing = _PassThrough(db, bus, asked.messages)
        await asyncio.sleep(WARM_S)
        gc.collect()
        cpu_s = time.process_time()
        await ws_connect(lambda: passing, f"{url}?streams=all", read_buffer_init_size=READ_BYTES)
        await passing.all_passed.wait()
        cpu_s = time.process_time() - cpu_s
        await passing.closed.wait()
    bus.close(DAWDLE_S * 1000)
    context.term()
    return {"cpu_s": cpu_s}


async def main() -> None:
    """Answer questions until there are no more."""
    for line in sys.stdin:
        asked = msgspec.json.decode(line, type=Question)
        answer = await (pass_through if asked.how == "physical" else collect)(asked, sys.argv[1])
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
