"""procrastinate's side of the jobs benchmark, in its own environment: jobs that do nothing.

Its worker on psycopg, with as many jobs at a time as was asked for and a connection for each; it
has no batches. Each line it reads is ``{"jobs": …, "at_once": …, "warm": …}``. The clock starts
once the first ``warm`` jobs were called and stops when the worker has found no more.
"""

import json
import logging
import sys
import time

import uvloop
from procrastinate import App, PsycopgConnector


async def work(url, jobs, at_once, warm):
    app = App(connector=PsycopgConnector(conninfo=url, min_size=at_once + 2, max_size=at_once + 2))
    called = []

    @app.task(name="noop")
    async def noop():
        called.append(time.perf_counter())

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*[{} for _ in range(jobs)])
        await app.connector.execute_query_async("ANALYZE")
        await app.run_worker_async(
            wait=False, concurrency=at_once, listen_notify=False, install_signal_handlers=False
        )
        took_s = time.perf_counter() - called[warm]
        left = await app.connector.execute_query_one_async(
            "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status <> 'succeeded'"
        )
        await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
    return {"done": len(called), "left": left["jobs"], "measured": jobs - warm, "wall_s": took_s}


def main(url):
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        print(json.dumps(uvloop.run(work(url, **json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
