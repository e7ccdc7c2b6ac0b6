"""From an exchange to a subscriber, in the processes that users run, next to cryptofeed.

Ours is ``penstock collect`` with all it does (it decodes, checks continuity, keeps the books,
writes every event to RocksDB so that it survives ``kill -9``, keeps status and ledger, publishes
under its number, as exact decimals) and ``penstock bus``, the broker between it and the subscriber.
The peer is cryptofeed's feed handler with its ZMQ backend: it decodes, keeps the books, and
publishes floats; it stores nothing and needs no broker. Newest version and 2.4.1, which is the last
one for our Python. What each process spends is told apart; a ratio is the peer's CPU time per
message over that of our two processes together, the median over the rounds. What arrives is
counted by the subscriber: of ours nothing may be lost.

``real`` is at a pace, with few markets and with many: growth is what a message costs with many in
terms of what it costs with few, books being loaded by then. ``flood`` is as fast as frames are
taken. ``latency_ms`` counts from the moment the sender hands a frame to the kernel until the
subscriber has the trade in it. Trades on their way while the host took the processor away are left
out (``bench/_steal.py``), and a pace is tried again until enough others were seen. ``long`` is the
log alone, over ten million records, with all the merging that RocksDB does
(``bench/ours/long.py``).

``bench/run stream --case NAME`` runs one case alone, and ``--side ours`` only our side of it.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._real import WARM, Market, Spent, describe, peers
from bench._sides import our_python, pinned_versions, running
from bench._steal import Steal
from bench.inputs import binance

FEW, MANY = 8, 400
"""Markets."""
LONG_RECORDS = int(os.environ.get("BENCH_LONG_RECORDS", "10000000"))
LONG_FLUSH = 50
"""Records in one write: about what a collector writes at once at 10,000 messages a second."""
LATENCY_RATES = (1_000, 10_000, 20_000)
LATENCY_S, LATENCY_MOST = 6.0, 50_000
"""How long, and how many messages at most."""
ENOUGH, TRIES = 500, 4
"""Undisturbed trades that are enough, and in how many runs at most they are looked for."""


@dataclass(frozen=True)
class Case:
    """One comparison: how many markets, how many messages, how many a second, how often."""

    markets: int
    messages: int
    rate: int | None
    rounds: int


CASES = {
    "real-10k-8": Case(FEW, 50_000, 10_000, 3),
    "real-10k-400": Case(MANY, 50_000, 10_000, 2),
    "real-2k-8": Case(FEW, 12_000, 2_000, 1),
    "real-2k-400": Case(MANY, 12_000, 2_000, 1),
    "flood-8": Case(FEW, 60_000, None, 2),
    "flood-400": Case(MANY, 60_000, None, 1),
}
Runs = Mapping[str, Sequence[Spent]]
"""The rounds of a case, by side."""


class Bench:
    """Both exchanges, with few and with many markets; each is started when it is needed."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self.folder, self._markets = stack, folder, dict[int, Market]()

    def market(self, markets: int) -> Market:
        if markets not in self._markets:
            most = max(case.messages for case in CASES.values() if case.markets == markets)
            made = binance.make_inputs(self.folder / str(markets), WARM + most, markets=markets)
            self._markets[markets] = Market(self._stack, made)
        return self._markets[markets]

    def run(self, name: str, sides: Sequence[str]) -> Runs:
        """A case: all sides in turn, another one first in each round."""
        case, market = CASES[name], self.market(CASES[name].markets)
        found: dict[str, list[Spent]] = {side: [] for side in sides}
        for turn in range(case.rounds):
            first = turn % len(sides)
            for side in (*sides[first:], *sides[:first]):
                found[side].append(market.run(side, case.messages, case.rate))
            told = {side: describe(each[-1]) for side, each in found.items()}
            print(f"   {name}: {json.dumps(told)}, load {os.getloadavg()[0]:.1f}", flush=True)
        return found

    def latency(self, side: str, rate: int) -> dict[str, object]:
        """Milliseconds from the sender to the subscriber, at a pace."""
        market = self.market(FEW)
        left_alone: list[int] = []
        everything: list[int] = []
        late_ms = 0.0
        for _ in range(TRIES):
            steal = Steal()
            messages = round(min(LATENCY_MOST, rate * LATENCY_S))
            spent = market.run(side, messages, rate, tell_trades=True)
            steal.stop()
            late_ms = max(late_ms, spent.late_ms)
            everything += (there - sent for sent, there in spent.trips)
            left_alone += (
                there - sent for sent, there in spent.trips if not steal.between(sent, there)
            )
            if len(left_alone) >= ENOUGH:
                break
        disturbed = {**_shares(everything), "trades": len(everything)}
        found = {**_shares(left_alone), "trades": len(left_alone), "sender_late_ms": round(late_ms)}
        print(f"   latency of {side} at {rate}/s: {found}", flush=True)
        return {**found, "with_disturbed": disturbed}

    def long(self) -> dict[str, float]:
        """The log alone; see ``bench/ours/long.py``."""
        inputs = binance.make_inputs(self.folder / "long")
        with tempfile.TemporaryDirectory(prefix="penstock-bench-log-") as folder:
            asked = {"folder": folder, "inputs": str(inputs.folder), "records": LONG_RECORDS}
            with running("long", our_python(), "bench.ours.long") as side:
                told = side.ask(json.dumps({**asked, "flush": LONG_FLUSH}))
        if told["records"] < LONG_RECORDS:
            raise SystemExit(f"of {LONG_RECORDS} records {told['records']} are in the log")
        print(f"   long: {told}, load {os.getloadavg()[0]:.1f}", flush=True)
        return {name: round(value, 2) for name, value in told.items()}


def _shares(waits_ns: list[int]) -> dict[str, float | None]:
    waits = sorted(waits_ns)
    return {
        name: round(waits[min(len(waits) - 1, int(share * len(waits)))] / 1e6, 2) if waits else None
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def _median(runs: Sequence[Spent], of: Callable[[Spent], float]) -> float:
    return round(statistics.median(map(of, runs)), 2)


def _ratio(some: Sequence[Spent], others: Sequence[Spent]) -> float:
    """What the first ones cost in terms of the others, round by round."""
    pairs = zip(some, others, strict=True)
    return round(statistics.median(one.total_us / other.total_us for one, other in pairs), 2)


def _growth(few: Sequence[Spent], many: Sequence[Spent]) -> float:
    few_us, many_us = (_median(runs, lambda spent: spent.total_us) for runs in (few, many))
    return round(many_us / few_us, 2)


def _costs(runs: Runs) -> dict[str, float]:
    """Microseconds of CPU per message, by process."""
    return {
        process: _median(rounds, lambda spent, process=process: spent.us[process])  # type: ignore[misc]
        for rounds in runs.values()
        for process in rounds[0].us
    }


def _versions() -> dict[str, str]:
    return {name: pinned_versions(name, ("cryptofeed",))["cryptofeed"] for name in peers()}


def _real(found: Mapping[str, Runs], newest: str, older: str) -> dict[str, object]:
    few, many = found["real-10k-8"], found["real-10k-400"]
    costs = _costs(few)
    return {
        "vs_cryptofeed_zmq_10k": _ratio(few[newest], few["ours"]),
        "vs_cryptofeed_zmq_2k": _ratio(found["real-2k-8"][newest], found["real-2k-8"]["ours"]),
        "vs_cryptofeed_zmq_10k_400": _ratio(many[newest], many["ours"]),
        "vs_cryptofeed_2_zmq_10k": _ratio(few[older], few["ours"]),
        "collect_us_10k": costs["collect"],
        "bus_us_10k": costs["bus"],
        "growth_400": _growth(few["ours"], many["ours"]),
        "growth_400_collect": round(_costs(many)["collect"] / costs["collect"], 2),
        "growth_400_peer": _growth(few[newest], many[newest]),
        "growth_400_peer_2": _growth(few[older], many[older]),
    }


def main() -> Mapping[str, object]:
    """Every case, one after the other."""
    load, versions = os.getloadavg()[0], _versions()
    newest, older = next(iter(versions)), "cryptofeed"
    if newest == older:
        print("   there is no Python 3.13, which cryptofeed 3 needs: only 2.4.1 is measured")
    sides = ["ours", *versions]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        bench = Bench(stack, Path(folder))
        found = {name: bench.run(name, sides) for name in CASES}
        latency = {str(rate): bench.latency("ours", rate) for rate in LATENCY_RATES}
        theirs = {str(rate): bench.latency(newest, rate) for rate in LATENCY_RATES[:1]}
        long = bench.long()
    flood = found["flood-8"]
    return {
        "real": {
            **_real(found, newest, older),
            "long_us_per_record": long["us"],
            "long_rocksdb_threads_us_per_record": long["rocksdb_threads_us"],
        },
        "flood": {
            "vs_cryptofeed_zmq": _ratio(flood[newest], flood["ours"]),
            "vs_cryptofeed_2_zmq": _ratio(flood[older], flood["ours"]),
            "messages_per_s": round(
                statistics.median(s.messages / s.wall_s for s in flood["ours"])
            ),
        },
        "latency_ms": latency,
        "peer_latency_ms": theirs,
        "long": long,
        "us_per_message": {name: _costs(runs) for name, runs in found.items()},
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": versions,
    }


def run_case(name: str, side: str | None) -> Mapping[str, object]:
    """One case alone: its costs."""
    sides = ["ours", *_versions()] if side is None else [side]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        bench = Bench(stack, Path(folder))
        if name == "long":
            return {"long": bench.long()}
        if name.startswith("latency-"):
            rate = int(name.partition("-")[2])
            return {"latency_ms": {each: bench.latency(each, rate) for each in sides}}
        if name not in CASES:
            raise SystemExit(f"there is no case {name}: {', '.join(CASES)}, latency-RATE, long")
        runs = bench.run(name, sides)
    found: dict[str, Any] = {"us_per_message": _costs(runs)}
    if "ours" in runs:
        others = {each: _ratio(runs[each], runs["ours"]) for each in runs if each != "ours"}
        found |= {"total_us": _median(runs["ours"], lambda spent: spent.total_us), "ratios": others}
    return found
