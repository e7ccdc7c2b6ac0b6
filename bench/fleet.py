"""A fleet with ten thousand jobs: what its API and its workers wait for.

SQLite and PostgreSQL, each with one store of 10,000 jobs and one of 1,000, of three exchanges and
three types; a third of the jobs is due, the others later. The API runs in a process of its own and
is asked over HTTP. ``pause_p99_ms`` and ``metrics_ms`` (the median) are asked one after the other,
by one client; the mix of pauses, resumes, new jobs, connectors, lists and metrics by 50 clients at
once, of which no answer may be a 5xx. ``next_due_ms`` (the median) is what a worker asks before it
sleeps. Claims are measured in turn on both stores, each claimed and finished by one worker; the
ratio is the median of the rounds. ``claim_ms`` stands beside it, and ``commit_ms``: the median of a
write of one job by its id, since every claim and every pause ends in one such commit.
"""

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count

import aiohttp
import asyncpg
from bench._sides import our_python, running
from bench.jobs import fresh_database
from tests import servers

from penstock.connectors import ConnectorManager
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, NewJob
from penstock.jobs.service import JobService
from penstock.storage.state import StateStore, Write, open_store
from penstock.storage.state.schema import JOBS

MANY, FEW = 10_000, 1_000
EXCHANGES = ("binance", "kraken", "upbit")
TYPES = ("ohlcv_incremental", "ohlcv_backfill", "gap_backfill")
DUE_EVERY = 3
HOUR_MS, LEASE_MS = 3_600_000, 30_000
ASKED, ROUNDS, CLAIMS, CLIENTS, CLIENT_ASKS = 300, 40, 5, 50, 20
AT_ONCE = 16


async def fill(store: StateStore, jobs: int) -> list[str]:
    """Jobs of which every third is due; their ids."""
    job_service, manager, numbers = (
        JobService(store, kinds()),
        ConnectorManager(store),
        iter(range(jobs)),
    )
    for exchange in EXCHANGES:
        await manager.ensure_connector(exchange)
    made: list[str] = []

    async def create() -> None:
        for number in numbers:
            type_ = TYPES[number // 3 % 3]
            gap = Cursor(since_ms=0, until_ms=HOUR_MS) if type_ == "gap_backfill" else None
            job = await job_service.create(
                NewJob(
                    exchange_id=EXCHANGES[number % 3], type=type_, symbol=f"A{number}/USDT",
                    timeframe="1h", cursor=gap,
                )
            )  # fmt: skip
            made.append(job.id)
            if number % DUE_EVERY:
                wake_at = job.next_run_at + HOUR_MS + number
                due = {"wake_at": wake_at, "next_run_at": wake_at}
                await store.write(JOBS, [Write(job.id, {}, due)])

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))
    return made


async def times_ms(ask: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """How long each of so many calls took, sorted."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - begun) * 1000)
    return sorted(took)


async def claims_per_s(leases: Leases) -> float:
    """Jobs claimed one at a time and given back, due as before: the queue stays as it is."""
    begun = time.perf_counter()
    for _ in range(CLAIMS):
        (job,) = await leases.claim("bench", 1, LEASE_MS)
        await leases.release(job, job.next_run_at, "measured", job.next_run_at)
    return CLAIMS / (time.perf_counter() - begun)


async def workers_figures(many: StateStore, few: StateStore, ids: list[str]) -> dict[str, float]:
    """What workers wait for."""
    leases = Leases(many, kinds())
    commits = await times_ms(lambda: many.write(JOBS, [Write(ids[0], {}, {"priority": 50})]), 50)
    ratios, rates, next_due = [], [], []
    for turn in range(ROUNDS):
        stores = (many, few) if turn % 2 else (few, many)
        found = {store: await claims_per_s(Leases(store, kinds())) for store in stores}
        ratios.append(found[many] / found[few])
        rates.append(found[many])
        next_due += await times_ms(leases.next_due_ms, ASKED // ROUNDS)
    return {
        "next_due_ms": round(statistics.median(next_due), 3),
        "claims_per_s_10k_vs_1k": round(statistics.median(ratios), 2),
        "claim_ms": round(500 / statistics.median(rates), 2),
        "commit_ms": round(statistics.median(commits), 2),
    }


async def api_figures(url: str, ids: list[str]) -> dict[str, object]:
    """What people and Prometheus wait for."""
    statuses: Counter[int] = Counter()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:

        async def ask(method: str, path: str, json: object = None) -> None:
            async with session.request(method, url + path, json=json) as answer:
                await answer.read()
                statuses[answer.status] += 1

        turns, numbers = count(), count(MANY)

        async def pause() -> None:
            number = next(turns)
            what = "resume" if number % 2 else "pause"
            await ask("POST", f"/api/v1/jobs/{ids[number // 2 % len(ids)]}/{what}")

        pauses = await times_ms(pause, ASKED)
        metrics = await times_ms(lambda: ask("GET", "/metrics"), 50)
        connector = await times_ms(lambda: ask("GET", "/api/v1/connectors/kraken"), 50)
        if statuses.keys() != {200}:
            raise SystemExit(f"answers that were not expected: {dict(statuses)}")
        statuses.clear()

        async def client(number: int) -> None:
            new = {"exchange_id": "upbit", "type": "ohlcv_backfill", "timeframe": "1h"}
            for turn in range(CLIENT_ASKS):
                job = ids[(number * CLIENT_ASKS + turn) * 7 % len(ids)]
                asks: list[tuple[str, str, object]] = [
                    ("POST", f"/api/v1/jobs/{job}/pause", None),
                    ("POST", f"/api/v1/jobs/{job}/resume", None),
                    ("POST", "/api/v1/jobs", {**new, "symbol": f"A{next(numbers)}/USDT"}),
                    ("POST", "/api/v1/connectors", {"exchange_id": "kraken"}),
                    ("GET", "/api/v1/connectors/binance", None),
                    ("GET", "/api/v1/jobs?exchange_id=kraken", None),
                    ("GET", "/metrics", None),
                ]
                await ask(*asks[(number + turn) % len(asks)])

        begun = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
        took_s = time.perf_counter() - begun
    return {
        "pause_p99_ms": round(pauses[len(pauses) * 99 // 100], 1),
        "pause_ms": round(statistics.median(pauses), 1),
        "metrics_ms": round(statistics.median(metrics), 1),
        "connector_ms": round(statistics.median(connector), 1),
        "mixed_50_clients_5xx": sum(n for status, n in statuses.items() if status >= 500),
        "mixed_per_s": round(sum(statuses.values()) / took_s),
    }


async def measure(urls: Mapping[int, str]) -> dict[str, object]:
    """Fill both stores of a database and measure."""
    async with AsyncExitStack() as stack:
        stores: dict[int, StateStore] = {}
        ids: dict[int, list[str]] = {}
        for jobs, url in urls.items():
            stores[jobs] = await open_store(url)
            stack.push_async_callback(stores[jobs].close)
            ids[jobs] = await fill(stores[jobs], jobs)
            await settle(url)
        print(f"   filled {urls[MANY].partition(':')[0]}", flush=True)
        workers = await workers_figures(stores[MANY], stores[FEW], ids[MANY])
        markets = str(MANY + CLIENTS * CLIENT_ASKS)
        with running("ours", our_python(), "bench.ours.fleet", urls[MANY], markets) as side:
            listens = await asyncio.to_thread(side.receive)
            return {**await api_figures(listens["url"], ids[MANY]), **workers}


async def settle(url: str) -> None:
    """What PostgreSQL does by itself a minute after so many writes."""
    if url.startswith("postgresql:"):
        connection = await asyncpg.connect(url)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()


async def databases(server: str) -> dict[int, str]:
    return {jobs: await fresh_database(server, f"bench_fleet_{jobs}") for jobs in (MANY, FEW)}


def main() -> Mapping[str, object]:
    """Measure on a file, then on a server."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        files = {jobs: f"sqlite:{folder}/{jobs}.db" for jobs in (MANY, FEW)}
        sqlite = asyncio.run(measure(files))
    with servers.postgresql() as server:
        postgresql = asyncio.run(measure(asyncio.run(databases(server))))
    return {"sqlite": sqlite, "postgresql": postgresql}
