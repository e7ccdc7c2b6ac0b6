"""Reserves the range of a job that is being created: of two that overlap, only one is created.

Whether a range is free is read from the existing jobs, and the job is written a moment later. In
between its range is listed in a document of its market, which is changed atomically. A job whose
range overlaps with a listed one is rejected. The range is removed once its job is written or
rejected.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from penstock.errors import GapOverlaps, StorageError
from penstock.jobs.model import Job
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import JOB_SLOTS, JOBS

# A process that ended in between leaves its range in the list; it is ignored after this time.
_HELD_MS = 60_000


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges [first, end) share a part."""
    return one[0] < other[1] and other[0] < one[1]


@asynccontextmanager
async def held(
    store: StateStore, job: Job, channel: str, span: tuple[int, int]
) -> AsyncIterator[None]:
    """Reserve the range of a job: meanwhile no job with an overlapping one is written.

    Raises:
        GapOverlaps: an overlapping range of the same market and channel is reserved.
    """
    now_ms = await store.now_ms()
    of = job.exchange_id, job.type, job.symbol, channel or job.timeframe
    id_ = " ".join(["ranges", *map(str, of)])
    # In the table of job permits, but of no exchange, so that it is not claimed as a permit.
    empty = {"id": id_, "exchange_id": "", "number": 0, "until": 0, "fence": 0, "ranges": []}

    def taken(found: Document) -> Document:
        kept = [one for one in found["ranges"] if abs(now_ms - one["at"]) < _HELD_MS]
        for other in kept:
            theirs = (other["since_ms"], other["until_ms"])
            if other["job"] != job.id and overlap(span, theirs):
                raise GapOverlaps(JOBS.name, other["job"], span, theirs)
        return {**found, "ranges": [*kept, mine]}

    def given_back(found: Document) -> Document:
        return {**found, "ranges": [one for one in found["ranges"] if one != mine]}

    mine: dict[str, Any] = {
        "job": job.id, "at": now_ms, "since_ms": span[0], "until_ms": span[1],
    }  # fmt: skip
    await store.insert_if_absent(JOB_SLOTS, empty)
    await store.update(JOB_SLOTS, id_, taken)
    try:
        yield
    finally:
        # If the store fails here, the job is written or not; the range expires on its own.
        with suppress(StorageError):
            await store.update(JOB_SLOTS, id_, given_back)
