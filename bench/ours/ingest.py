"""Our side of the ingest benchmark: a worker with backfills of trades, in a process of its own.

Each line it reads is ``{"address": …, "folder": …, "symbols": […], "first_id": …, "pages": …,
"chunks": …, "ramp_s": …, "seconds": …, "per_s": …, "plan": …}``: ``pages`` of each market, one job
for each, all at a time. With ``seconds`` it stops so long after the ramp: the ramp begins when all
jobs have found the ends of their ranges. Otherwise it runs to the end. ``per_s`` raises the limit
that it keeps to; null is the exchange's own. With ``plan`` the range is planned before; ``eta_s``
is how long it should take once its ends are known, ``fetch_s`` how long it took.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._process import cpu_s, peak_rss_mb, rss_mb

from penstock.app.worker import open_worker
from penstock.clock import SystemClock
from penstock.config import Collect, Exchanges, Ingest, Jobs, Publish, Settings
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.connectors.model import new_document
from penstock.ingest.planner import plan_all
from penstock.ingest.registry import kinds
from penstock.ingest.survey import survey
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import NewJob
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.storage.state import open_store
from penstock.storage.state.schema import CONNECTORS
from penstock.throttle.gate import Limit

EXCHANGE = "coinbase"
PAGE = 1000


def settings_of(asked: dict[str, Any]) -> Settings:
    workers = len(asked["symbols"])
    return Settings(
        exchanges=Exchanges(rest_urls={EXCHANGE: asked["address"]}),
        collect=Collect(data_dir=asked["folder"]),
        jobs=Jobs(concurrency=workers, per_exchange=workers),
        ingest=Ingest(chunk_concurrency=asked["chunks"]),
        publish=Publish(urls=()),
    )


@dataclass(frozen=True)
class Surveying:
    """What a survey needs."""

    gateways: FleetGateways
    markets: Markets
    clock: SystemClock


def range_of(asked: dict[str, Any]) -> TradesCursor:
    first = asked["first_id"]
    return TradesCursor(from_id=first, to_id=first + asked["pages"] * PAGE - 1)


async def prepare(asked: dict[str, Any]) -> None:
    """Create the jobs, and the connector if its limit is raised."""
    store = await open_store(f"sqlite:{asked['folder']}/state.db")
    if asked["per_s"]:
        raised = Limit(asked["per_s"], 1000, "request", kind="paced", burst=10)
        document = new_document(EXCHANGE, [raised], None, None, await store.now_ms())
        await store.insert_if_absent(CONNECTORS, document)
    cursor = range_of(asked)
    for symbol in asked["symbols"]:
        new = NewJob(exchange_id=EXCHANGE, type="trades_backfill", symbol=symbol, cursor=cursor)
        await JobService(store, kinds()).create(new)
    await store.close()


async def planned_s(asked: dict[str, Any]) -> float:
    """How long the first market's range should take."""
    store, clock = await open_store(f"sqlite:{asked['folder']}/state.db"), SystemClock()
    gateways = FleetGateways(store, settings_of(asked), clock)
    context = Surveying(gateways, Markets(store, gateways), clock)
    wanted = range_of(asked)
    found = await survey(context, EXCHANGE, asked["symbols"][0], wanted)
    await gateways.aclose()
    await store.close()
    return plan_all([found]).eta_s or 0.0


async def until_resolved(worker: Worker, jobs: int) -> None:
    """Wait until the ends of all ranges are known."""
    while sum(each.job.cursor.is_resolved for each in worker.job_runs.values()) < jobs:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def measure(asked: dict[str, Any]) -> dict[str, float]:
    eta_s = await planned_s(asked) if asked["plan"] else 0.0
    await prepare(asked)
    pid, jobs, stop = os.getpid(), len(asked["symbols"]), asyncio.Event()
    begun_s, spent_s = time.monotonic(), cpu_s(pid)
    async with open_worker(settings_of(asked), SystemClock()) as worker:
        idle_mb = rss_mb(pid)
        working = asyncio.create_task(worker.run(stop))
        await until_resolved(worker, jobs)
        resolved_s = time.monotonic()
        if asked["seconds"]:
            await asyncio.sleep(asked["ramp_s"])
            since_ms, spent_s = time.time() * 1000, cpu_s(pid)
            await asyncio.sleep(asked["seconds"])
        else:
            since_ms = time.time() * 1000
            while worker.ended["done"] < jobs:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        until_ms, spent_s = time.time() * 1000, cpu_s(pid) - spent_s
        wall_s, fetch_s = time.monotonic() - begun_s, time.monotonic() - resolved_s
        stop.set()
        await working
    return {
        "since_ms": since_ms,
        "until_ms": until_ms,
        "wall_s": wall_s,
        "fetch_s": fetch_s,
        "eta_s": eta_s,
        "cpu_s": spent_s,
        "idle_mb": idle_mb,
        "peak_mb": peak_rss_mb(pid),
    }


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        Path(asked["folder"]).mkdir(parents=True)
        print(json.dumps(asyncio.run(measure(asked))), flush=True)


if __name__ == "__main__":
    main()
