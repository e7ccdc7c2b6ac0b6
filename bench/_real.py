"""Real processes between a stand-in for the exchange and a subscriber, and what they spend.

Ours are ``penstock collect`` and ``penstock bus`` as an operator starts them, with everything a
collector does: log, status, ledger, continuity, requests over REST. The peer is cryptofeed with its
ZMQ backend. Both get the same frames from the same process. A run begins with frames that nobody
counts, in which books are loaded. CPU time is that of whole processes, read from the kernel when
nothing is on its way any more, and again when the subscriber has the last record.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._process import cpu_s, rss_mb
from bench._sides import ROOT, Side, find_python, our_python, peer_python, running
from bench.inputs.stored import Inputs

WARM, WARM_RATE = 16_000, 8_000
"""Frames before those that count, and how many a second."""
QUIET_S = 1.5
"""Nothing for so long: nothing is on its way."""
LOST_S = 10.0
"""Nothing for so long while records are missing: they are lost."""
FIRST_S = 60.0
"""Nothing at all for so much longer: there will be nothing."""
QUEUE = 4_000_000
"""Messages that may wait on the bus: in a flood more wait than by default, and none may be lost."""
CHANNELS = "agg_trades,book_deltas,tickers"
PEERS = {"cryptofeed3": 13, "cryptofeed": None}
"""Environments of the peer, newest first, and the minor version of Python that each needs."""


@dataclass(frozen=True)
class Spent:
    """What one run took: microseconds of CPU time per message, and when trades were there."""

    us: dict[str, float]
    """By process."""
    messages: int
    wall_s: float
    late_ms: float
    """How far the sender fell behind its pace, at worst."""
    trips: list[tuple[int, int]]
    """When each trade was sent and when it was there, by the monotonic clock."""

    @property
    def total_us(self) -> float:
        return sum(self.us.values())


class Market:
    """A stand-in for the exchange with its frames, which serves one side after the other."""

    def __init__(self, stack: ExitStack, inputs: Inputs) -> None:
        self.inputs = inputs
        module, folder = "bench.inputs.exchange", str(inputs.folder)
        self._exchange = stack.enter_context(running("exchange", our_python(), module, folder))
        self._ports = self._exchange.receive()

    def run(
        self, side: str, messages: int, rate: int | None, *, tell_trades: bool = False
    ) -> Spent:
        """Start a side, load its books, and measure what so many messages cost."""
        starting = self._ours() if side == "ours" else self._peer(side)
        with starting as (processes, subscriber):
            waited = self._exchange.ask("{}")
            if waited["missing"]:
                raise SystemExit(f"{side} has not subscribed to everything: {waited}")
            whole = side == "ours"
            self._warm(subscriber, whole)
            before_s = [cpu_s(process.pid) for process in processes.values()]
            began_s = time.monotonic()
            asked = {"expected": messages, "quiet_s": LOST_S, "patience_s": FIRST_S}
            subscriber.send(json.dumps({**asked, "tell_trades": tell_trades}))
            self._exchange.send(json.dumps({"first": WARM, "end": WARM + messages, "rate": rate}))
            told = subscriber.receive()
            after_s = [cpu_s(process.pid) for process in processes.values()]
            wall_s = time.monotonic() - began_s
            sent = self._exchange.receive()
        if told["records"] < messages:
            words = f"{side}: of {messages} messages {told['records']} arrived"
            if whole:
                raise SystemExit(words)
            print(f"   {words}", flush=True)
        costs = [
            1e6 * (after - before) / messages
            for before, after in zip(before_s, after_s, strict=True)
        ]
        us = dict(zip(processes, costs, strict=True))
        trips = self._trips(sent["ticks"], told["trades"]) if tell_trades else []
        return Spent(us, messages, wall_s, sent["late_ms"], trips)

    def idle(self, settle: int, end: int, rate: int) -> dict[str, float]:
        """What ours cost at a low rate: of a core, and of memory; ``settle`` messages come before.

        Streams without a frame among all of them are subscribed to, too.
        """
        with self._ours() as (processes, _):
            self._exchange.ask("{}")
            self._exchange.ask(json.dumps({"first": 0, "end": settle, "rate": rate}))
            before_s = [cpu_s(process.pid) for process in processes.values()]
            began_s = time.monotonic()
            self._exchange.ask(json.dumps({"first": settle, "end": end, "rate": rate}))
            wall_s = time.monotonic() - began_s
            found: dict[str, float] = {}
            for (name, process), before in zip(processes.items(), before_s, strict=True):
                prefix = "" if name == "collect" else f"{name}_"
                spent_s = cpu_s(process.pid) - before
                found[f"{prefix}core_share"] = round(spent_s / wall_s, 4)
                found[f"{prefix}rss_mb"] = rss_mb(process.pid)
        return found

    def _warm(self, subscriber: Side, whole: bool) -> None:
        """Send what does not count, and wait until nothing is on its way any more."""
        asked = {"expected": WARM, "quiet_s": LOST_S, "patience_s": FIRST_S}
        subscriber.send(json.dumps(asked))
        sent = self._exchange.ask(json.dumps({"first": 0, "end": WARM, "rate": WARM_RATE}))
        told = subscriber.receive()
        more = subscriber.ask(json.dumps({"expected": WARM, "quiet_s": QUIET_S}))
        if whole and told["records"] + more["records"] != WARM:
            raise SystemExit(
                f"ours: of {WARM} messages {told} and {more} arrived: {sent['unknown']}"
            )

    def _trips(
        self, ticks: Sequence[tuple[int, int]], trades: Sequence[tuple[str, int, int]]
    ) -> list[tuple[int, int]]:
        frames, first = self.inputs.frames(), WARM
        sent_ns: dict[tuple[str, int], int] = {}
        for end, at_ns in ticks:
            for frame in frames[first:end]:
                if b"aggTrade" in frame:
                    data = json.loads(frame)["data"]
                    sent_ns[data["s"], data["a"]] = at_ns
            first = end
        found = [(sent_ns.get((name, number)), at_ns) for name, number, at_ns in trades]
        return [(sent, at_ns) for sent, at_ns in found if sent is not None]

    @contextmanager
    def _ours(self) -> Iterator[tuple[dict[str, subprocess.Popen[str]], Side]]:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-data-") as folder, ExitStack() as s:
            names = Path(folder, "markets.txt")
            names.write_text("\n".join(each.native for each in self.inputs.markets()))
            bus = s.enter_context(_penstock(folder, {}, "bus", "--json"))
            assert bus.stdout is not None
            bus.stdout.readline()
            words = "bench.inputs.subscriber", "ours", folder, str(QUEUE)
            subscriber = s.enter_context(running("subscriber", our_python(), *words))
            subscriber.receive()
            addresses = {
                "PENSTOCK_EXCHANGES_REST_URLS": f"binance=http://127.0.0.1:{self._ports['rest']}",
                "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance=ws://127.0.0.1:{self._ports['stream']}",
                # The stand-in has books of the beginning only, and nothing to compare them with.
                "PENSTOCK_COLLECT_AUDIT_EVERY": "0",
            }
            options = "--symbols-file", str(names), "--channels", CHANNELS
            collect = _penstock(folder, addresses, "collect", "binance", *options)
            yield {"collect": s.enter_context(collect), "bus": bus}, subscriber

    @contextmanager
    def _peer(self, name: str) -> Iterator[tuple[dict[str, subprocess.Popen[str]], Side]]:
        python = peer_python(name, PEERS[name])
        with running("subscriber", our_python(), "bench.inputs.subscriber", "peer") as subscriber:
            port = subscriber.receive()["port"]
            address = f"ws://127.0.0.1:{self._ports['stream']}"
            words = [str(python), "-m", "bench.peers.cryptofeed_stream", str(self.inputs.folder)]
            with subprocess.Popen(
                [*words, address, str(port)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                text=True,
            ) as process:
                try:
                    yield {name: process}, subscriber
                finally:
                    process.kill()


@contextmanager
def _penstock(
    folder: str, settings: dict[str, str], *words: str
) -> Iterator[subprocess.Popen[str]]:
    """A command of penstock in a data folder; killed in the end."""
    outside = {name: text for name, text in os.environ.items() if name[:9] != "PENSTOCK_"}
    bus = {"PENSTOCK_BUS_QUEUE": str(QUEUE)}
    with (
        Path(folder, f"{words[0]}.err").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "penstock", *words, "--data-dir", folder],
            cwd=folder,
            env={**outside, **bus, **settings},
            stdout=subprocess.PIPE if words[0] == "bus" else subprocess.DEVNULL,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def peers() -> list[str]:
    """The peer's environments that can be built here, newest first."""
    return [
        name for name, minor in PEERS.items() if minor is None or find_python(minor) is not None
    ]


def describe(spent: Spent) -> dict[str, Any]:
    """A run in short."""
    return {**{name: round(us, 2) for name, us in spent.us.items()}, "s": round(spent.wall_s, 1)}
