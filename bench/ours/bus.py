"""Processes of the bus benchmark: one that publishes, and some that subscribe.

``python -m bench.ours.bus publisher FOLDER`` answers each line, seconds, by publishing a thousand
messages a second for so long, with what it took. ``… crowd FOLDER`` answers ``join N``, ``leave``
and ``count`` with how many messages its subscribers have got; it reads them meanwhile.
"""

import json
import selectors
import sys
import threading
import time
from pathlib import Path

import zmq

from penstock.config import Bus
from penstock.market.codec import encode
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.publish import Message
from penstock.publish.endpoints import BusEndpoints, resolve_endpoints
from penstock.publish.frames import Head, wanted_bytes
from penstock.publish.readiness import Socket, drain
from penstock.publish.zeromq import ZeroMqPublisher

RATE = 1000
TICKS = 50
"""A second: a collector gathers events for 20 ms by default."""
TOPIC = "toy.trades.btc_usdt"


def endpoints(folder: str) -> BusEndpoints:
    found = resolve_endpoints(Bus(), Path(folder))
    assert found is not None
    return found


def record(number: int) -> bytes:
    return encode(
        Trade(
            exchange="toy", symbol=Symbol("BTC", "USDT"), received_at_ns=time.time_ns(), id=number,
            at_ns=1700000000000000000, price_text="61250.10", quantity_text="0.00120", taker="buy",
        )
    )  # fmt: skip


def publish(folder: str) -> None:
    publisher = ZeroMqPublisher(endpoints(folder), "toy", Head(1, 1))
    number = 0
    while not publisher._listen():
        time.sleep(0.01)
    for line in sys.stdin:
        ticks = round(float(line) * TICKS)
        batches = []
        for _ in range(ticks):
            batch = range(number + 1, number + 1 + RATE // TICKS)
            batches.append([Message(TOPIC, "toy", n, record(n)) for n in batch])
            number = batch[-1]
        before, started = time.process_time(), time.monotonic()
        for tick, each in enumerate(batches):
            if not tick % TICKS:
                publisher.announce()
            publisher.publish(each)
            time.sleep(max(0.0, started + (tick + 1) / TICKS - time.monotonic()))
        cpu_s = time.process_time() - before
        answer = {
            "cpu_us": cpu_s / (ticks * RATE / TICKS) * 1e6,
            "dropped": publisher.counts.dropped,
        }
        print(json.dumps(answer), flush=True)
    publisher.close()


class Crowd:
    """Subscribers in one process, each with a connection of its own."""

    def __init__(self, folder: str) -> None:
        self._endpoints = endpoints(folder)
        self._context: zmq.Context[Socket] = zmq.Context()
        self._sockets: list[Socket] = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self.received = 0
        threading.Thread(target=self._read, daemon=True).start()

    def join(self, many: int) -> None:
        with self._lock:
            for _ in range(many):
                socket = self._context.socket(zmq.SUB)
                self._endpoints.connect(socket, "subscribe")
                socket.subscribe(wanted_bytes(TOPIC))
                self._sockets.append(socket)

    def leave(self) -> None:
        with self._lock:
            while self._sockets:
                self._sockets.pop().close(linger=0)

    def _read(self) -> None:
        while True:
            with self._lock:
                self.received += sum(len(drain(socket, 1000)) for socket in self._sockets)
            time.sleep(0.05)


def attend(folder: str) -> None:
    crowd = Crowd(folder)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "join":
            crowd.join(int(rest[0]))
        elif word == "leave":
            crowd.leave()
        print(json.dumps({"received": crowd.received}), flush=True)


if __name__ == "__main__":
    {"publisher": publish, "crowd": attend}[sys.argv[1]](sys.argv[2])
