"""What it costs to store a tick: ours in Redis and in SQLite, next to the documented way.

The ticks of four simulated exchanges with 200 markets each are recorded first, so that all sides
get the same. The documented side (``bench/peers/documented_ticks.py``) awaits six commands a tick.
Ours hand ticks to a ``TickWriter``, which writes a batch every 10 ms: all ticks, or only the newest
of each market. All store into the same Redis or Valkey on loopback, empty at first, and in turn.
Each side is a process of its own.

``ratios`` are of the CPU time a tick costs the client, at 5,000 ticks a second for ours. The
documented side does not reach that, and runs as fast as it can. The timer that offers ticks in
time, which the documented side does not need, is measured alone (``feeder``) and subtracted;
in ``ratios_with_feeder`` it is not. In ``ratios_flooded`` ours run as fast as they can, with larger
batches, of which more is superseded. ``…_with_server`` add the CPU time of the server. SQLite
writes the newest of each market, and has no server.

``p99_ms_at_5000`` is the time from the instant at which a tick is due until a subscriber in another
process has it, or a newer one of its market, in runs of its own.
"""

import json
import os
import statistics
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench._process import cpu_s
from bench._sides import Answer, Side, in_turn, our_python, running
from bench.inputs.ticks import EXCHANGES, MARKETS, record_ticks
from redis import Redis
from tests.servers import RedisServer

ROUNDS = 5
TICKS, RATE = 20_000, 5_000
DOCUMENTED_TICKS = 3_000
"""The documented side is so slow that fewer are enough."""
WARM_TICKS = 1_000
DOCUMENTED = "documented"
FEEDER = "feeder"
SIDES = {"redis_uncoalesced": "uncoalesced", "redis_coalesced": "coalesced", "sqlite": "coalesced"}
WARM_S = 0.5
"""Latencies count from here on: connections are opened before."""
_OURS, _THEIRS = "bench.ours.ticks", "bench.peers.documented_ticks"


class Bench:
    """The server, and all sides, running."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        start, python = stack.enter_context, our_python()
        self._server = start(RedisServer())
        self._redis = start(Redis.from_url(self._server.url))
        documented = start(running(DOCUMENTED, python, _THEIRS, str(folder), self._server.url))
        ours = [
            start(running(name, python, _OURS, how, str(folder))) for name, how in SIDES.items()
        ]
        self.writers = ours
        self.sides = [
            documented,
            start(running(FEEDER, python, _OURS, "nothing", str(folder))),
            *ours,
        ]
        self._reader = start(running("reader", python, _OURS, "reader"))

    def run(self, side: Side, ticks: int, rate: int | None = None) -> Answer:
        """One run on an empty store, with what it made the server do."""
        with self._empty_store(side) as url:
            server_s = cpu_s(self._server.pid)
            question = {"url": url, "ticks": ticks, "rate": rate}
            answer = side.ask(str(ticks) if side.name == DOCUMENTED else json.dumps(question))
            answer["server_s"] = cpu_s(self._server.pid) - server_s
            answer["commands"] = self._commands(side)
        return answer

    def watch(self, side: Side) -> list[float]:
        """Milliseconds from when each tick was due until a subscriber had it or a newer one."""
        with self._empty_store(side) as url:
            self._reader.ask(url)
            question = {"url": url, "ticks": TICKS, "rate": RATE}
            due = side.ask(json.dumps(question))["due"]
            seen = self._reader.ask(str(due[-1][1]))["seen"]
        return list(latencies(due, seen))

    @contextmanager
    def _empty_store(self, side: Side) -> Iterator[str]:
        self._redis.flushall()
        self._redis.config_resetstat()
        if side.name == "sqlite":
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                yield f"sqlite:{folder}/live.db"
            return
        yield self._server.url

    def _commands(self, side: Side) -> int:
        """Commands that the client sent to write; those in a script are part of it."""
        counted = self._redis.info("commandstats")
        names = ("ping", "hset", "set", "publish") if side.name == DOCUMENTED else ("eval",)
        return sum(counted.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)


def latencies(
    due: Iterable[tuple[str, int]], seen: Iterable[tuple[str, int, int]]
) -> Iterator[float]:
    """The time until each tick, or a newer one of its market, was seen; without those at first."""
    by_key = defaultdict[str, list[tuple[int, int]]](list)
    for key, due_ns, seen_ns in seen:
        by_key[key].append((due_ns, seen_ns))
    due = list(due)
    from_ns = due[0][1] + round(WARM_S * 1e9)
    for key, due_ns in due:
        place = bisect_left(by_key[key], (due_ns, 0))
        if place == len(by_key[key]):
            raise SystemExit(f"a tick of {key} was never seen")
        if due_ns >= from_ns:
            yield (by_key[key][place][1] - due_ns) / 1e6


def measure(bench: Bench) -> dict[str, dict[str, list[Answer]]]:
    """All sides in turn: flooded, and at a rate."""
    for side in bench.sides:
        bench.run(side, WARM_TICKS)
    answers: dict[str, dict[str, list[Answer]]] = {
        how: {side.name: [] for side in bench.sides} for how in ("flooded", "paced")
    }
    for turn in range(ROUNDS):
        for side in in_turn(bench.sides, turn):
            if side.name == DOCUMENTED:
                answer = bench.run(side, DOCUMENTED_TICKS)
                answers["flooded"][side.name].append(answer)
                answers["paced"][side.name].append(answer)
            else:
                answers["flooded"][side.name].append(bench.run(side, TICKS))
                answers["paced"][side.name].append(bench.run(side, TICKS, RATE))
        spent = ", ".join(
            f"{name} {_us(each[-1]):.1f} µs" for name, each in answers["paced"].items()
        )
        print(f"   round {turn + 1} of {ROUNDS}: {spent} a tick, load {os.getloadavg()[0]:.1f}")
    return answers


def _us(answer: Answer, spent: Sequence[str] = ("cpu_s",)) -> float:
    """Microseconds of CPU for one tick."""
    return 1e6 * sum(float(answer[each]) for each in spent) / float(answer["ticks"])


def ratios(
    answers: Mapping[str, list[Answer]], *spent: str, with_feeder: bool = False
) -> dict[str, float]:
    """How many times as much a tick costs the documented side, the medians of the rounds."""
    documented = [_us(each, spent) for each in answers[DOCUMENTED]]
    feeder = [0.0 if with_feeder else _us(each) for each in answers[FEEDER]]
    return {
        name: round(
            statistics.median(
                theirs / (_us(each, spent) - fed)
                for theirs, each, fed in zip(documented, answers[name], feeder, strict=True)
            ),
            1,
        )
        for name in SIDES
    }


def figures(answers: list[Answer]) -> dict[str, float]:
    """What one side took, the medians."""

    def median(values: Iterable[float]) -> float:
        return round(statistics.median(values), 4)

    return {
        "cpu_us": median(map(_us, answers)),
        "server_cpu_us": median(1e6 * each["server_s"] / each["ticks"] for each in answers),
        "ticks_per_s": round(median(each["ticks"] / each["wall_s"] for each in answers)),
        "commands_per_tick": median(each["commands"] / each["ticks"] for each in answers),
        "superseded": median(each["superseded"] / each["ticks"] for each in answers),
    }


def percentiles(waits_ms: list[float]) -> dict[str, float]:
    waits_ms.sort()
    return {
        f"p{share}": round(waits_ms[min(len(waits_ms) * share // 100, len(waits_ms) - 1)], 2)
        for share in (50, 99, 100)
    }


def main() -> Mapping[str, object]:
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        print(f"   recording {TICKS} ticks of {len(EXCHANGES)} exchanges", flush=True)
        record_ticks(folder, TICKS)
        bench = Bench(stack, folder)
        answers = measure(bench)
        waits_ms: dict[str, list[float]] = {name: [] for name in SIDES}
        for turn in range(ROUNDS):
            for side in in_turn(bench.writers, turn):
                waits_ms[side.name] += bench.watch(side)
    latency_ms = {name: percentiles(each) for name, each in waits_ms.items()}
    paced, flooded = (
        {name: figures(each) for name, each in answers[how].items()} for how in ("paced", "flooded")
    )
    return {
        "ratios": ratios(answers["paced"], "cpu_s"),
        "ratios_with_feeder": ratios(answers["paced"], "cpu_s", with_feeder=True),
        "ratios_with_server": ratios(answers["paced"], "cpu_s", "server_s"),
        "ratios_flooded": ratios(answers["flooded"], "cpu_s", with_feeder=True),
        "ratios_flooded_with_server": ratios(
            answers["flooded"], "cpu_s", "server_s", with_feeder=True
        ),
        "coalesced_share": paced["redis_coalesced"]["superseded"],
        "p99_ms_at_5000": latency_ms["redis_coalesced"]["p99"],
        "commands_per_tick": {
            name: paced[name]["commands_per_tick"]
            for name in (DOCUMENTED, "redis_uncoalesced", "redis_coalesced")
        },
        "latency_ms_at_5000": latency_ms,
        "at_5000": paced,
        "flooded": flooded,
        "markets": len(EXCHANGES) * MARKETS,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
    }
