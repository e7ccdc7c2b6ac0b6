"""Jobs that do nothing, claimed and finished: ours next to pgqueuer and procrastinate.

All on one PostgreSQL with its default durability, each in a database and a process of its own, in
turn; a ratio is our jobs a second divided by the peer's. Ours are fenced: whoever lost a lease
writes nothing. Neither peer has that. Each has what served it best when it was tried here, in
batches of 100 to 1,000 and with one to four workers: ours four workers, pgqueuer two, both batches
of 500; procrastinate, which has no batches, two jobs at once (one to twenty made little
difference). Workers are tasks of one process with a connection each. Beside it stands what ours do
on SQLite, and through the job service, which also keeps each job's events.
"""

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from urllib.parse import urlsplit

import asyncpg
from bench._sides import Answer, Side, in_turn, our_python, peer_python, pinned_versions, running
from tests import servers

ROUNDS = 5
BATCH = 500
WORKERS = {"ours": 4, "pgqueuer": 2, "procrastinate": 2}
PEERS = ("pgqueuer", "procrastinate")
JOBS = {"ours": 16_000, "pgqueuer": 16_000, "procrastinate": 300}
WARM = {"ours": 6_000, "pgqueuer": 6_000, "procrastinate": 30}
"""The first so many are not counted: PostgreSQL makes its plans, and connections are opened."""


async def fresh_database(server: str, name: str) -> str:
    """An empty database of this name on the server."""
    connection = await asyncpg.connect(server)
    await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def rate(side: Side, question: Mapping[str, object], jobs: int) -> float:
    """Jobs a second, once it is certain that all were done."""
    asked = {"jobs": jobs, "warm": WARM[side.name], **question}
    answer: Answer = side.ask(json.dumps(asked))
    if answer["done"] < jobs or answer["left"]:
        raise SystemExit(f"{side.name} did {answer['done']} of {jobs}, {answer['left']} are left")
    return float(answer["measured"]) / float(answer["wall_s"])


def ask_ours(side: Side, url: str, *, job_service: bool = False) -> float:
    question = {"url": url, "batch": BATCH, "workers": WORKERS["ours"], "service": job_service}
    return rate(side, question, JOBS["ours"])


def ask_ours_on_postgresql(side: Side, server: str, *, job_service: bool = False) -> float:
    return ask_ours(
        side, asyncio.run(fresh_database(server, "bench_ours")), job_service=job_service
    )


def ask_ours_on_sqlite(side: Side) -> float:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return ask_ours(side, f"sqlite:{folder}/state.db")


def compare(server: str, sides: list[Side]) -> dict[str, list[float]]:
    """All in turn; the rates of each."""
    questions = {
        "pgqueuer": {"batch": BATCH, "workers": WORKERS["pgqueuer"]},
        "procrastinate": {"at_once": WORKERS["procrastinate"]},
    }
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(ROUNDS):
        for side in in_turn(sides, turn):
            found = (
                ask_ours_on_postgresql(side, server)
                if side.name == "ours"
                else rate(side, questions[side.name], JOBS[side.name])
            )
            rates[side.name].append(found)
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
            rates = compare(server, [ours, pgqueuer, third])
            sqlite = ask_ours_on_sqlite(ours)
            job_service = ask_ours_on_postgresql(ours, server, job_service=True)
    return {
        "ratios": {
            f"vs_{name}": round(
                statistics.median(a / b for a, b in zip(rates["ours"], rates[name], strict=True)), 2
            )
            for name in PEERS
        },
        "sqlite_per_s": round(sqlite),
        "per_s": {name: round(statistics.median(found)) for name, found in rates.items()},
        "service_per_s": round(job_service),
        "batch": {"ours": BATCH, "pgqueuer": BATCH, "procrastinate": 1},
        "workers": WORKERS,
        "peers": pinned_versions("jobs", PEERS),
    }
