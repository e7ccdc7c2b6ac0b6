"""What a lease costs beside the least that could be done instead: one UPDATE of one row by hand.

Both run one after the other in one process, on the same database, through the same driver, with the
same durability, in short turns: what else the machine does then hits both alike. SQLite works
within this process and is told by its CPU time; PostgreSQL is mostly the way there and back, so by
the time that passes.
"""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from penstock.storage.state import open_store
from penstock.storage.state.budget import LeaseRequest, WindowDemand

TURNS, CALLS = 31, 200
AMOUNT = 1_000_000_000
ASK = LeaseRequest((WindowDemand("weight", AMOUNT, 3_600_000, need=1, want=10),))
TABLE = "bench_bare_update"

Call = Callable[[], Awaitable[object]]


def lease_vs_bare_update(url: str) -> float:
    """The rate of leases from this store divided by that of bare updates: 1 is as fast.

    Not from within a running loop: it runs one of its own, for some seconds.
    """
    return asyncio.run(_measured(url))


async def _measured(url: str) -> float:
    on_sqlite = url.startswith("sqlite:")
    clock = time.process_time if on_sqlite else time.perf_counter
    store = await open_store(url)
    try:
        async with (_bare_sqlite if on_sqlite else _bare_postgresql)(url) as bare:
            return await _compared(lambda: store.lease("bench", ASK), bare, clock)
    finally:
        await store.close()


async def _compared(lease: Call, bare: Call, clock: Callable[[], float]) -> float:
    ratios = []
    for turn in range(-1, TURNS):
        took_s = {}
        for call in (lease, bare) if turn % 2 else (bare, lease):
            before_s = clock()
            for _ in range(CALLS):
                assert await call(), "it was not done"
            took_s[call] = clock() - before_s
        if turn >= 0:  # the first is for warming up
            ratios.append(took_s[bare] / took_s[lease])
    return statistics.median(ratios)


@asynccontextmanager
async def _bare_sqlite(url: str) -> AsyncIterator[Call]:
    """On the same disk, in a file of its own, opened as the store opens its budgets."""
    place = Path(url.removeprefix("sqlite:").removeprefix("///")).parent
    with tempfile.TemporaryDirectory(dir=place) as folder:
        database = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("CREATE TABLE budget (id INTEGER PRIMARY KEY, used INTEGER)")
        database.execute("INSERT INTO budget VALUES (1, 0)")

        async def update() -> object:
            return database.execute(
                "UPDATE budget SET used = used + 1 WHERE id = ? AND used < ? RETURNING used",
                (1, AMOUNT),
            ).fetchone()

        yield update
        database.close()


@asynccontextmanager
async def _bare_postgresql(url: str) -> AsyncIterator[Call]:
    """In a table as forgetful as the store's, on a connection that does not wait for the disk."""
    connection = await asyncpg.connect(url, server_settings={"synchronous_commit": "off"})
    await connection.execute(
        f"DROP TABLE IF EXISTS {TABLE};"
        f" CREATE UNLOGGED TABLE {TABLE} (id int PRIMARY KEY, used bigint NOT NULL);"
        f" INSERT INTO {TABLE} VALUES (1, 0)"
    )
    statement = f"UPDATE {TABLE} SET used = used + 1 WHERE id = $1 AND used < $2 RETURNING used"
    try:
        yield lambda: connection.fetchrow(statement, 1, AMOUNT)
    finally:
        await connection.execute(f"DROP TABLE {TABLE}")
        await connection.close()
