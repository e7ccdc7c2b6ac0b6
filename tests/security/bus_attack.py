"""A program that attacks a bus: ``bus_attack.py PUBLISH SUBSCRIBE SECONDS SEED [flood]``.

Random bytes, half-open connections, huge frames and numbers that nobody gave, from several threads
at once, until the time is over; with ``flood``, subscriptions without measure too.
"""

import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
import zmq

from penstock.publish.frames import ANNOUNCE, Announcement, Frame, FrameKind, write_frame

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\0" + bytes(31)
READY = b"\x05READY\x0bSocket-Type\0\0\0\x03"
MB = 1024 * 1024
TOPIC, SLOT = "sim.trades.btc_usdt", "a"
"""Who is impersonated: the traffic of ``attacked_bus``."""
Dice = random.Random


def dial(endpoint: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(1.0)
    connection.connect(endpoint.removeprefix("ipc://"))
    return connection


def handshake(kind: bytes) -> bytes:
    return GREETING + b"\x04" + bytes([len(READY) + 3]) + READY + kind


def frame_of(size: int) -> bytes:
    return b"\x02" + size.to_bytes(8, "big")


def send_random_bytes(endpoints: list[str], dice: Dice) -> None:
    with dial(dice.choice(endpoints)) as connection:
        begin = dice.choice([b"", GREETING[:10], GREETING])
        connection.sendall(begin + dice.randbytes(dice.randrange(1, 64 * 1024)))


def leave_half_open(endpoints: list[str], dice: Dice, held: list[socket.socket]) -> None:
    for _ in range(50):
        held.append(dial(dice.choice(endpoints)))
        held[-1].sendall(GREETING[: dice.randrange(len(GREETING))])
    while len(held) > 500:
        held.pop(0).close()


def promise_a_huge_frame(endpoints: list[str], dice: Dice) -> None:
    side = dice.randrange(2)
    with dial(endpoints[side]) as connection:
        connection.sendall(handshake((b"PUB", b"SUB")[side]))
        connection.sendall(frame_of(dice.choice([MB, 5 * MB, 1 << 40])))
        for _ in range(6):
            connection.sendall(dice.randbytes(MB))


def send_large_frames(endpoints: list[str], dice: Dice, sender: "zmq.Socket[bytes]") -> None:
    sender.send(dice.randbytes(dice.choice([1000, MB, 5 * MB])))
    time.sleep(0.01)


def forge(endpoints: list[str], dice: Dice, sender: "zmq.Socket[bytes]") -> None:
    number = dice.choice([1 << 62, dice.getrandbits(63), dice.randrange(10_000)])
    sender.send(write_frame(Frame(TOPIC, SLOT, number, FrameKind.JSON, dice.randbytes(50))))
    sender.send(write_frame(Frame(f"x.{number}.\x1b[2J", SLOT, number, FrameKind.JSON, b"{}")))
    told = Announcement(slot=SLOT, run=dice.getrandbits(62), log=1, numbers={TOPIC: number})
    payload = msgspec.json.encode(told)
    sender.send(write_frame(Frame(ANNOUNCE, SLOT, 0, FrameKind.FACTS, payload)))
    time.sleep(0.001)


def subscribe_without_measure(endpoints: list[str], dice: Dice) -> None:
    # By hand: a socket of ZeroMQ would keep what it asks for as well, and not survive it.
    with dial(endpoints[1]) as connection:
        connection.sendall(handshake(b"SUB"))
        many, size = dice.choice([(20, MB), (2000, 140)])
        for _ in range(many):
            wanted = dice.choice([b"", b"_join.x."]) + dice.randbytes(size) + b"\0"
            connection.sendall(frame_of(len(wanted) + 1) + b"\x01" + wanted)


def repeat(attack: Callable[[], None], until: float) -> None:
    while time.monotonic() < until:
        with suppress(OSError, zmq.ZMQError):
            attack()


def main(publish: str, subscribe: str, seconds: str, seed: str, flood: str = "") -> None:
    endpoints, until = [publish, subscribe], time.monotonic() + float(seconds)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    senders = [context.socket(zmq.PUB) for _ in range(2)]
    for sender in senders:
        sender.setsockopt(zmq.SNDHWM, 10)
        sender.connect(publish)
    dice = [Dice(f"{seed}.{number}") for number in range(6)]
    attacks: list[Callable[[], None]] = [
        partial(send_random_bytes, endpoints, dice[0]),
        partial(leave_half_open, endpoints, dice[1], []),
        partial(promise_a_huge_frame, endpoints, dice[2]),
        partial(send_large_frames, endpoints, dice[3], senders[0]),
        partial(forge, endpoints, dice[4], senders[1]),
    ]
    if flood:
        attacks.append(partial(subscribe_without_measure, endpoints, dice[5]))
    threads = [threading.Thread(target=repeat, args=(attack, until)) for attack in attacks]
    for thread in threads:
        thread.start()
    print("attacking", flush=True)
    for thread in threads:
        thread.join()
    context.destroy(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
