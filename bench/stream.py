"""From a socket to the bus: CPU time of every message, next to cryptofeed, and how late they are.

All sides read the same WebSocket frames from this process. Ours decodes, checks continuity, keeps
the books, writes every event to RocksDB (it survives ``kill -9``) and then publishes it under its
number, as exact decimals. cryptofeed decodes, keeps the books, and publishes floats by its ZMQ
backend; or hands events to callbacks that do nothing, which is as little as it can do. Both publish
to one socket of a process that takes everything; a broker would stand there in earnest, and costs
neither side anything. What is published is counted, none may be lost.

At a pace, the time counts from the moment the sender hands a frame to the kernel until the far end
has the trade in it. The physical limit is what the same libraries can do at best: take each frame
off the socket, write it as it is, publish it as it is, and look at nothing.
"""

import json
import os
import tempfile
from contextlib import ExitStack

from bench._sides import Answer, Side, our_python, peer_python, running
from bench.inputs.binance import MESSAGES
from bench.inputs.sender import Sender
from bench.inputs.stored import Inputs

ROUNDS = 3
PACES = (1_000, 10_000, 20_000, 30_000, 40_000, 50_000)
PACED_S = 4.0
WARM_SHARE = 0.25
"""Of a paced run, what comes first is not counted: books are loaded then."""
LATE_MS = 50.0
"""A pace is sustained if half of the messages arrive within this."""
MANY = 400
"""Markets in the test of what many of them cost."""


class Bench:
    """The sender, the far end and the sides, all running."""

    def __init__(self, stack: ExitStack, inputs: Inputs) -> None:
        self.sender = Sender(inputs.frames())
        url = f"ws://127.0.0.1:{self.sender.port}/stream"
        start = stack.enter_context
        self.sink = start(running("sink", our_python(), "bench.inputs.sink"))
        self._port = self.sink.hear()["port"]
        self.ours = start(running("ours", our_python(), "bench.ours.stream", url))
        self.peer = start(
            running("cryptofeed", peer_python("cryptofeed"), "bench.peers.cryptofeed_stream", url)
        )

    def run(self, side: Side, inputs: Inputs, messages: int, how: str) -> Answer:
        """One run; what the far end took is in the answer."""
        self.sender.most = messages
        with tempfile.TemporaryDirectory(prefix="penstock-bench-log-") as folder:
            question = {
                "inputs": str(inputs.folder),
                "folder": folder,
                "messages": messages,
                "port": self._port if how != "callbacks" else 0,
                "how": how,
            }
            if how == "callbacks":
                return side.ask(json.dumps(question))
            self.sink.tell(json.dumps({"records": messages}))
            return {**side.ask(json.dumps(question)), **self.sink.hear()}

    def load(self, inputs: Inputs) -> None:
        """Send these from now on."""
        self.sender.load(inputs.frames())


def compare(bench: Bench, inputs: Inputs) -> dict[str, list[float]]:
    """CPU seconds by side and round."""
    sides = {
        "ours": (bench.ours, "whole"),
        "physical": (bench.ours, "physical"),
        "zmq": (bench.peer, "zmq"),
        "callbacks": (bench.peer, "callbacks"),
    }
    spent: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(ROUNDS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            side, how = sides[name]
            answer = bench.run(side, inputs, MESSAGES, how)
            if how != "callbacks" and answer["records"] < MESSAGES:
                raise SystemExit(f"{name}: {answer['records']} of {MESSAGES} messages came through")
            spent[name].append(answer["cpu_s"])
        seconds = ", ".join(f"{name} {each[-1]:.2f} s" for name, each in spent.items())
        print(f"   round {turn + 1} of {ROUNDS}: {seconds}, load {os.getloadavg()[0]:.1f}")
    return spent
