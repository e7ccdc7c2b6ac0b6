"""The far end of the bus: takes everything that is published and notes when each trade came.

A process of its own with one bound socket, to which a publisher connects as it would to a broker.
First it says where it listens. Each line it then reads is how many records to wait for; it answers
with how many came, and when each trade among them did, by market and id.
"""

import json
import re
import sys
import time
from contextlib import suppress

import zmq

from penstock.publish.frames import ANNOUNCE, BATCH, read_frame, unpack_frames

QUIET_S = 5.0
"""Nothing for so long, once something came: there will be no more."""
PATIENCE_S = 180.0
_BATCHED, _ANNOUNCED = f"{BATCH}\0".encode(), f"{ANNOUNCE}\0".encode()
_TRADE = re.compile(rb'"id": ?"?(\d+)')


def take(socket: zmq.Socket[bytes], expected: int) -> list[tuple[bytes, int]]:
    """So many records, each with the instant it came at; fewer if there are no more."""
    taken: list[tuple[bytes, int]] = []
    count, give_up_s = 0, time.monotonic() + PATIENCE_S
    while count < expected and time.monotonic() < give_up_s:
        if not socket.poll(round(QUIET_S * 1000)):
            if taken:
                break
            continue
        at_ns = time.monotonic_ns()
        with suppress(zmq.Again):
            while True:
                data = socket.recv(zmq.NOBLOCK)
                taken.append((data, at_ns))
                # No more than this while they come: who is slow to take makes others drop.
                count += read_frame(data).number if data.startswith(_BATCHED) else 1
    return [(record, at_ns) for data, at_ns in taken for record in _records_of(data)]


def _records_of(data: bytes) -> list[bytes]:
    """What a message brings: of ours perhaps several records; of the peer's it is one."""
    if data.startswith(_BATCHED):
        return unpack_frames(read_frame(data).payload)
    return [] if data.startswith(_ANNOUNCED) else [data]


def trades_of(records: list[tuple[bytes, int]]) -> list[tuple[str, int, int]]:
    """(market, id, instant) of every trade."""
    found = []
    for record, at_ns in records:
        topic = re.split(rb"[\0 ]", record, maxsplit=1)[0].decode()
        if "trades" in topic and (match := _TRADE.search(record)):
            market = re.split(r"[.-]", topic, maxsplit=2)[-1]
            found.append((market.upper().replace("_", "").replace("-", ""), int(match[1]), at_ns))
    return found


def main() -> None:
    """Answer questions until there are no more."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    socket.bind(f"ipc://{sys.argv[1]}")
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        records = take(socket, int(line))
        print(json.dumps({"records": len(records), "trades": trades_of(records)}), flush=True)


if __name__ == "__main__":
    main()
