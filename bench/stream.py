"""From a socket to the bus: CPU time of every message, next to cryptofeed, and how late they are.

All sides read the same WebSocket frames from this process. Ours decodes, checks continuity, keeps
the books, writes every event to RocksDB (it survives ``kill -9``) and then publishes it under its
number, as exact decimals. cryptofeed decodes, keeps the books, and publishes floats by its ZMQ
backend; or hands events to callbacks that do nothing, which is as little as it can do. Both publish
to one socket of a process that takes everything; a broker would stand there in earnest, and costs
neither side anything. What arrives is counted: of ours nothing may be lost.

At a pace, the time counts from the moment the sender hands a frame to the kernel until the far end
has the trade in it. Trades on their way while the host took the processor away are counted apart
(``bench/_steal.py``), and a pace is tried again until enough others were seen. The physical limit
is what the same libraries can do at best: take each frame off the socket, write it as it is,
publish it as it is, and look at nothing.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench._sides import Answer, Side, our_python, peer_python, pinned_versions, running
from bench._steal import Steal
from bench.inputs.binance import MESSAGES, make_inputs
from bench.inputs.sender import Sender
from bench.inputs.stored import Inputs

ROUNDS = 3
PACES = (1_000, 10_000, 20_000, 30_000, 40_000, 50_000)
"""Messages a second; of those above 10,000 the highest that is sustained is told."""
PACED_S = 6.0
ENOUGH, TRIES = 500, 6
"""Undisturbed trades that are enough, and in how many runs at most they are looked for."""
WARM_SHARE = 0.25
"""Of a paced run, what comes first is not counted: books are loaded then."""
LATE_MS = 100.0
"""A pace is sustained if all but a hundredth of the trades arrive within this."""
FEW, MANY = 8, 400
"""Markets, to see what many of them cost."""
GROWTH_PACE, GROWTH_MESSAGES = 10_000, 120_000


class Bench:
    """The sender, the far end and the sides, all running."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.sender = Sender([])
        self._file = str(folder / "sink")
        url = f"ws://127.0.0.1:{self.sender.port}/stream"
        start, ours, theirs = stack.enter_context, our_python(), peer_python("cryptofeed")
        self._sink = start(running("sink", ours, "bench.inputs.sink", self._file))
        self._port = self._sink.receive()["port"]
        self.ours = start(running("ours", ours, "bench.ours.stream", url))
        self.peer = start(running("cryptofeed", theirs, "bench.peers.cryptofeed_stream", url))

    def run(self, side: Side, inputs: Inputs, how: str, messages: int = MESSAGES) -> Answer:
        """One run, with what the far end took of it."""
        self.sender.load(inputs.frames()[:messages])
        published = how != "callbacks"
        # Ours publishes the snapshots that books begin with, too.
        expected = messages + (len(inputs.markets()) if how == "whole" else 0)
        if published:
            self._sink.send(str(expected))
        with tempfile.TemporaryDirectory(prefix="penstock-bench-log-") as folder:
            question = {
                "inputs": str(inputs.folder),
                "folder": folder,
                "messages": messages,
                "port": self._port if published else 0,
                "file": self._file,
                "how": how,
            }
            answer = side.ask(json.dumps(question))
        if published:
            answer |= self._sink.receive()
            if side is self.ours and answer["records"] < expected:
                raise SystemExit(f"{side.name} ({how}): {answer['records']} of {expected} arrived")
        return answer


def compare(bench: Bench, inputs: Inputs) -> dict[str, list[float]]:
    """CPU seconds of everybody, in turn."""
    sides = {
        "ours": (bench.ours, "whole"),
        "physical": (bench.ours, "physical"),
        "zmq": (bench.peer, "zmq"),
        "callbacks": (bench.peer, "callbacks"),
    }
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(ROUNDS):
        names = list(sides)
        for name in names[turn:] + names[:turn]:
            side, how = sides[name]
            answer = bench.run(side, inputs, how)
            spent[name].append(answer["cpu_s"])
            if name == "zmq" and answer["records"] < MESSAGES:
                print(f"   of the peer's messages {answer['records']} of {MESSAGES} arrived")
        seconds = ", ".join(f"{name} {each[-1]:.2f} s" for name, each in spent.items())
        print(
            f"   round {turn + 1} of {ROUNDS}: {seconds}, load {os.getloadavg()[0]:.1f}", flush=True
        )
    return spent


def measure_growth(bench: Bench, folder: Path) -> float:
    """What a message costs with many markets, in terms of what it costs with few.

    At a pace, and once all books have begun: to load them costs more with many, but is done once.
    """
    few = make_inputs(folder / "longer", GROWTH_MESSAGES, markets=FEW)
    many = make_inputs(folder / "many", GROWTH_MESSAGES, markets=MANY)
    ratios = []
    bench.sender.frames_per_s = GROWTH_PACE
    for _ in range(ROUNDS):
        costs = [
            bench.run(bench.ours, inputs, "whole", GROWTH_MESSAGES)["steady_cpu_s"]
            for inputs in (few, many)
        ]
        print(f"   few {1e6 * costs[0]:.1f} µs, many {1e6 * costs[1]:.1f} µs", flush=True)
        ratios.append(costs[1] / costs[0])
    bench.sender.frames_per_s = None
    return round(float(statistics.median(ratios)), 3)


def measure_latency(bench: Bench, side: Side, inputs: Inputs, rate: int) -> dict[str, object]:
    """Milliseconds from the sender to the far end, at a pace."""
    left_alone: list[int] = []
    everything: list[int] = []
    late_ms = 0.0
    for _ in range(TRIES):
        steal = Steal()
        trips = _trips(bench, side, inputs, rate)
        steal.stop()
        late_ms = max(late_ms, bench.sender.late_ms)
        everything += (there - sent for sent, there in trips)
        left_alone += (there - sent for sent, there in trips if not steal.between(sent, there))
        if len(left_alone) >= ENOUGH:
            break
    return {
        **_shares(left_alone),
        "trades": len(left_alone),
        "with_disturbed": {
            **_shares(everything),
            "trades": len(everything),
            "sender_late_ms": round(late_ms, 1),
        },
    }


def _trips(bench: Bench, side: Side, inputs: Inputs, rate: int) -> list[tuple[int, int]]:
    """When each trade of one run was sent and when it was there, books being loaded by then."""
    messages = min(MESSAGES, round(rate * PACED_S))
    bench.sender.frames_per_s = rate
    answer = bench.run(side, inputs, "whole" if side is bench.ours else "zmq", messages)
    bench.sender.frames_per_s = None
    sent_ns = {_trade_of(frame): at for frame, at in bench.sender.sent() if b"aggTrade" in frame}
    # What the peer's earlier runs left on the way is none of this one's.
    found = [(sent_ns.get((name, number)), at_ns) for name, number, at_ns in answer["trades"]]
    trips = [(sent, at_ns) for sent, at_ns in found if sent is not None]
    return trips[round(WARM_SHARE * len(trips)) :]


def _shares(waits_ns: list[int]) -> dict[str, float | None]:
    waits = sorted(waits_ns)
    return {
        name: round(waits[min(len(waits) - 1, int(share * len(waits)))] / 1e6, 2) if waits else None
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def _trade_of(frame: bytes) -> tuple[str, int]:
    data = json.loads(frame)["data"]
    return data["s"], data["a"]


def measure_latencies(bench: Bench, inputs: Inputs) -> tuple[dict[str, object], int]:
    """At every pace that is sustained, and the highest of them."""
    found: dict[str, object] = {}
    sustained = 0
    for rate in PACES:
        latency = measure_latency(bench, bench.ours, inputs, rate)
        print(f"   at {rate}/s: {latency}, load {os.getloadavg()[0]:.1f}", flush=True)
        p99 = latency["p99"]
        if rate > PACES[1] and not (isinstance(p99, float) and p99 <= LATE_MS):
            break
        sustained = rate
        found[str(rate)] = latency
    return found, sustained


def main() -> Mapping[str, object]:
    """Make the inputs, start everybody, and measure."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        inputs = make_inputs(Path(folder, "few"))
        bench = Bench(stack, Path(folder))
        spent = compare(bench, inputs)
        growth = measure_growth(bench, Path(folder))
        latency, sustained = measure_latencies(bench, inputs)
        theirs = {str(rate): measure_latency(bench, bench.peer, inputs, rate) for rate in PACES[:2]}

    def ratio(one: str, other: str) -> float:
        pairs = zip(spent[one], spent[other], strict=True)
        return round(statistics.median(first / second for first, second in pairs), 2)

    return {
        "ratios": {
            "vs_cryptofeed_zmq": ratio("zmq", "ours"),
            "vs_cryptofeed_callbacks": ratio("callbacks", "ours"),
        },
        "latency_ms": latency,
        "highest_sustained": sustained,
        "share_of_physical_limit": ratio("physical", "ours"),
        "cost_growth_400_symbols": growth,
        "messages_per_cpu_s": {
            name: round(MESSAGES / statistics.median(each)) for name, each in spent.items()
        },
        "peer_latency_ms": theirs,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": pinned_versions("cryptofeed", ("cryptofeed", "pyzmq")),
    }
