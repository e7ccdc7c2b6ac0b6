"""The far end of the bus: takes everything that is published and notes when each trade came.

A process of its own with one bound socket, to which a publisher connects as it would to a broker.
Each line it reads is how many frames to wait for; it answers with how many came, and with the
instants of the trades among them, by market and id.
"""

import json
import re
import sys
import time

import zmq

QUIET_S = 2.0
"""Nothing for so long, once something came: there will be no more."""
PATIENCE_S = 180.0
_TRADE = re.compile(rb'"id": ?"?(\d+)')


def take(socket: zmq.Socket[bytes], expected: int) -> list[tuple[bytes, int]]:
    """So many frames, with the instant of each; fewer if there are no more."""
    frames: list[tuple[bytes, int]] = []
    give_up_s = time.monotonic() + PATIENCE_S
    while len(frames) < expected and time.monotonic() < give_up_s:
        if not socket.poll(round(QUIET_S * 1000)):
            if frames:
                break
            continue
        at_ns = time.monotonic_ns()
        try:
            while True:
                frames.append((socket.recv(zmq.NOBLOCK), at_ns))
        except zmq.Again:
            continue
    return frames


def trades_of(frames: list[tuple[bytes, int]]) -> list[tuple[str, int, int]]:
    """(market, id, instant) of every trade."""
    found = []
    for frame, at_ns in frames:
        topic = re.split(rb"[\0 ]", frame, maxsplit=1)[0].decode()
        if "trades" in topic and (match := _TRADE.search(frame)):
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
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        frames = take(socket, asked["expected"])
        answer: dict[str, object] = {"frames": len(frames)}
        if asked["trades"]:
            answer["trades"] = trades_of(frames)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
