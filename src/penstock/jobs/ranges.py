"""Ranges that are about to be taken: of two jobs made at once, one gets what both would fetch.

Whether a range is free is read from the jobs that are there, and a job is written a moment later.
In between its range stands in a document of its market, which is changed atomically. Whoever finds
an overlapping one there is refused. It is taken out once the job is written, or was refused.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from penstock.errors import GapOverlaps, StorageError
from penstock.jobs.model import Job
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import JOB_SLOTS, JOBS

# A process that ended in between leaves its range behind; it counts no longer than this.
_HELD_MS = 60_000


@asynccontextmanager
async def held(store: StateStore, job: Job) -> AsyncIterator[None]:
    """Let nobody else write a job of an overlapping range of this market meanwhile.

    Raises:
        GapOverlaps: somebody is about to.
    """
    since_ms, until_ms = job.cursor.since_ms or 0, job.cursor.until_ms or 0
    now_ms = await store.now_ms()
    id_ = f"ranges {job.exchange_id} {job.type} {job.symbol} {job.timeframe}"
    # Beside the slots of exchanges, and of none of them.
    empty = {"id": id_, "exchange_id": "", "number": 0, "until": 0, "fence": 0, "ranges": []}

    def taken(found: Document) -> Document:
        kept = [one for one in found["ranges"] if abs(now_ms - one["at"]) < _HELD_MS]
        for other in kept:
            theirs = (other["since_ms"], other["until_ms"])
            if other["job"] != job.id and since_ms < theirs[1] and theirs[0] < until_ms:
                raise GapOverlaps(JOBS.name, other["job"], (since_ms, until_ms), theirs)
        return {**found, "ranges": [*kept, mine]}

    def given_back(found: Document) -> Document:
        return {**found, "ranges": [one for one in found["ranges"] if one != mine]}

    mine: dict[str, Any] = {
        "job": job.id, "at": now_ms, "since_ms": since_ms, "until_ms": until_ms,
    }  # fmt: skip
    await store.insert_if_absent(JOB_SLOTS, empty)
    await store.update(JOB_SLOTS, id_, taken)
    try:
        yield
    finally:
        # A store that fails now has the job or has it not; the range lapses by itself.
        with suppress(StorageError):
            await store.update(JOB_SLOTS, id_, given_back)
