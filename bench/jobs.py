"""Jobs that do nothing, run by what users call: ours next to pgqueuer and procrastinate.

All on one PostgreSQL with its default durability, each in a database and a process of its own, in
turn; a ratio is our jobs a second divided by the peer's. pgqueuer's ``QueueManager`` calls an
entrypoint for each job, procrastinate's worker a task. Ours by two ways: ``JobService`` creates
jobs and ``Leases`` claim and finish them in batches, as a program of one's own would
(``service``); and ``Worker`` runs them, which is what ``penstock work`` does (``worker``), with a
task, a permit and a heartbeat for each. Ours are fenced (whoever lost a lease writes nothing), and
each job's events are kept; neither peer has the first. By ``service`` four workers claim batches of
500, by ``worker`` two run 100 jobs at once; pgqueuer has what served it best when it was tried here
in batches of 100 to 1,000 and with one to four workers, two and 500; procrastinate, which has no
batches, two jobs at once. Workers are tasks of one process. Beside it stands what the functions of
the store beneath do by themselves, on PostgreSQL and on SQLite; that is less work than the peers'
and not compared with it.
"""

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlsplit

import asyncpg
from bench._sides import Answer, Side, our_python, peer_python, pinned_versions, running
from tests import servers

ROUNDS = 3
WAYS = {"service": (500, 4), "worker": (100, 2), "store": (500, 4)}
"""Ours: how many jobs at once, and how many workers."""
BATCH = 500
WORKERS = {"pgqueuer": 2, "procrastinate": 2}
PEERS = ("pgqueuer", "procrastinate")
JOBS = {"service": 9_000, "worker": 4_000, "store": 16_000, "pgqueuer": 16_000,
        "procrastinate": 300}  # fmt: skip
WARM = {"service": 3_000, "worker": 1_000, "store": 6_000, "pgqueuer": 6_000, "procrastinate": 30}
"""The first so many are not counted: PostgreSQL makes its plans, and connections are opened."""


async def fresh_database(server: str, name: str) -> str:
    """An empty database of this name on the server."""
    connection = await asyncpg.connect(server)
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def rate(side: Side, name: str, question: Mapping[str, object]) -> float:
    """Jobs a second, once it is certain that all were done."""
    jobs = JOBS[name]
    answer: Answer = side.ask(json.dumps({"jobs": jobs, "warm": WARM[name], **question}))
    if answer["done"] < jobs or answer["left"]:
        raise SystemExit(f"{name} did {answer['done']} of {jobs}, {answer['left']} are left")
    return float(answer["measured"]) / float(answer["wall_s"])


def ask_ours(side: Side, url: str, how: str) -> float:
    batch, workers = WAYS[how]
    return rate(side, how, {"url": url, "batch": batch, "workers": workers, "how": how})


def ask_ours_on_postgresql(side: Side, server: str, how: str) -> float:
    return ask_ours(side, asyncio.run(fresh_database(server, "bench_ours")), how)


def ask_ours_on_sqlite(side: Side) -> float:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return ask_ours(side, f"sqlite:{folder}/state.db", "store")


def compare(server: str, ours: Side, pgqueuer: Side, procrastinate: Side) -> dict[str, list[float]]:
    """All in turn; the rates of each."""
    asking: dict[str, Callable[[], float]] = {
        "service": partial(ask_ours_on_postgresql, ours, server, "service"),
        "worker": partial(ask_ours_on_postgresql, ours, server, "worker"),
        "pgqueuer": partial(
            rate, pgqueuer, "pgqueuer", {"batch": BATCH, "workers": WORKERS["pgqueuer"]}
        ),
        "procrastinate": partial(
            rate, procrastinate, "procrastinate", {"at_once": WORKERS["procrastinate"]}
        ),
    }
    rates: dict[str, list[float]] = {name: [] for name in asking}
    names = list(asking)
    for turn in range(ROUNDS):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            rates[name].append(asking[name]())
        told = ", ".join(f"{name} {found[-1]:,.0f}/s" for name, found in rates.items())
        print(f"   round {turn + 1} of {ROUNDS}: {told}, load {os.getloadavg()[0]:.1f}", flush=True)
    return rates


def main() -> Mapping[str, object]:
    """Start the server and all sides, and measure."""
    python = peer_python("jobs")
    with servers.postgresql() as server:
        theirs = [asyncio.run(fresh_database(server, f"bench_{name}")) for name in PEERS]
        with (
            running("ours", our_python(), "bench.ours.jobs") as ours,
            running("pgqueuer", python, "bench.peers.pgqueuer_jobs", theirs[0]) as pgqueuer,
            running("procrastinate", python, "bench.peers.procrastinate_jobs", theirs[1]) as third,
        ):
            rates = compare(server, ours, pgqueuer, third)
            store = ask_ours_on_postgresql(ours, server, "store")
            sqlite = ask_ours_on_sqlite(ours)
    return {
        "ratios": {
            f"{how}_vs_{name}": round(
                statistics.median(a / b for a, b in zip(rates[how], rates[name], strict=True)), 2
            )
            for how in ("service", "worker")
            for name in PEERS
        },
        "per_s": {name: round(statistics.median(found)) for name, found in rates.items()},
        "store_per_s": {"postgresql": round(store), "sqlite": round(sqlite)},
        "batch_and_workers": {**WAYS, "pgqueuer": (BATCH, WORKERS["pgqueuer"])},
        "load": round(os.getloadavg()[0], 2),
        "peers": pinned_versions("jobs", PEERS),
    }
