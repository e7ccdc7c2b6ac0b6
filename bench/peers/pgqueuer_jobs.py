"""pgqueuer's side of the jobs benchmark, in its own environment: jobs that do nothing.

Its queue managers drain the queue, on uvloop and asyncpg as its own command does, each on a
connection of its own and in batches of the size that was asked for; what is done is logged in
batches as well, which is its default. Each line it reads is ``{"jobs": …, "batch": …, "workers": …,
"warm": …}``. The clock starts once the first ``warm`` jobs were called and stops when the last is
logged.
"""

import asyncio
import json
import sys
import time

import asyncpg
import uvloop
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries


async def drain(url, batch, called):
    connection = await asyncpg.connect(url)
    manager = QueueManager(Queries(AsyncpgDriver(connection)))

    @manager.entrypoint("noop")
    async def noop(_):
        called.append(time.perf_counter())

    await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
    await connection.close()


async def work(url, jobs, batch, warm, workers):
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    if not await queries.schema_is_installed():
        await queries.install()
    await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    await connection.execute("ANALYZE")
    called = []
    await asyncio.gather(*(drain(url, batch, called) for _ in range(workers)))
    took_s = time.perf_counter() - called[warm]
    left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
    await connection.execute("TRUNCATE pgqueuer, pgqueuer_log")
    await connection.close()
    return {"done": len(called), "left": left, "measured": jobs - warm, "wall_s": took_s}


def main(url):
    for line in sys.stdin:
        print(json.dumps(uvloop.run(work(url, **json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
