"""The far end of the stream benchmark: a subscriber to everything, which counts what comes.

``ours FOLDER`` subscribes at the broker of a data folder; ``peer`` listens on a port, to which
cryptofeed's backends connect. First it says where. Each line it then reads is a command in JSON: to
wait for so many records, or until nothing has come for a while. It answers with how many came, and
with when each trade among them did if that was asked for.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import zmq

from penstock.config import Bus
from penstock.publish.endpoints import resolve_endpoints
from penstock.publish.frames import BATCH, read_frame, unpack_frames

_BATCHED = f"{BATCH}\0".encode()
_TRADE = re.compile(rb'"id": ?"?(\d+)')
_COUNTED = re.compile(
    # A frame of ours has the version after the NUL, and then 1 or 2 if it carries a record.
    rb"binance\.(?:agg_trades|book_deltas|tickers)\.([^\0]+)\0.[\x01\x02]"
    rb"|BINANCE-(?:trades|book|ticker)-([^ ]+) ",
    re.DOTALL,
)
"""How records begin that were sent as a frame."""
_ANNOUNCED = re.compile(rb"_|[^\0]+\0.\x03", re.DOTALL)
"""How begins what is no record: the last number of a stream, and what the bus says of itself."""


class Subscriber:
    """One socket."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket

    def take(
        self, expected: int, quiet_s: float, patience_s: float = 0.0, tell_trades: bool = False
    ) -> dict[str, object]:
        """Wait for so many records; fewer if nothing comes for so long, at first even longer."""
        count, others, kept = 0, 0, []
        last_s = time.monotonic() + patience_s
        # The bus announces itself every second: what is quiet is told by records alone.
        while count < expected and time.monotonic() < last_s + quiet_s:
            if not self._socket.poll(round(quiet_s * 100)):
                continue
            at_ns = time.monotonic_ns()
            before = count + others
            with suppress(zmq.Again):
                for _ in range(10_000):
                    for record in _records_of(self._socket.recv(zmq.NOBLOCK)):
                        if _COUNTED.match(record):
                            count += 1
                            if tell_trades:
                                kept.append((record, at_ns))
                        elif not _ANNOUNCED.match(record):
                            others += 1
            if count + others > before:
                last_s = time.monotonic()
        return {"records": count, "others": others, "trades": list(_trades_of(kept))}


def _records_of(data: bytes) -> list[bytes]:
    """What a message brings: of ours perhaps several records; of the peer's it is one."""
    return unpack_frames(read_frame(data).payload) if data.startswith(_BATCHED) else [data]


def _trades_of(records: list[tuple[bytes, int]]) -> Iterator[tuple[str, int, int]]:
    """(market, id, instant) of every trade."""
    for record, at_ns in records:
        topic = _COUNTED.match(record)
        if topic and b"trades" in topic[0] and (match := _TRADE.search(record)):
            market = (topic[1] or topic[2]).decode().upper().replace("_", "").replace("-", "")
            yield market, int(match[1]), at_ns


def main() -> None:
    """Answer commands until there are no more."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.SUB)
    if sys.argv[1] == "ours":
        endpoints = resolve_endpoints(Bus(queue=int(sys.argv[3])), Path(sys.argv[2]))
        assert endpoints is not None
        endpoints.connect(socket, "subscribe")
        port = 0
    else:
        socket.setsockopt(zmq.RCVHWM, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber = Subscriber(socket)
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        print(json.dumps(subscriber.take(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
