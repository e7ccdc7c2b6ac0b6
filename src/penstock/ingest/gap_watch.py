"""The gap watch: every few seconds, a job for each gap of trades that no job fills.

Every worker runs it. Two workers that create a job for the same gap at the same time get one: the
second is rejected as a duplicate, and notes the first at the gap. Gaps of one market that one
page covers share a job, and a long gap gets several.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, zip_longest
from typing import NamedTuple

from penstock.coverage.model import GapRow
from penstock.errors import AlreadyExists, JobEnded, StorageError, UnknownJob
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.facts import GapWatchFailed
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.id_ranges import FETCHED_BY_ID, IdRange, IdRangeCursor
from penstock.jobs.model import Job, NewJob
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

PAGE = 1000
"""Trades that exchanges return at once."""
MOST_PAGES = 20
"""Pages of one job."""
_MOST_JOBS = 200
"""Live gap jobs of an exchange, above which no more are created for now."""
_FIRST_RETRY_MS = 600_000
_LONGEST_RETRY_MS = 86_400_000
_LISTED = 500


class GapBatch(NamedTuple):
    """Ids that one job fetches, and the market time of the record before them, if known."""

    stream: Stream
    ids: IdRange
    since_ms: int | None


class GapWatch:
    """Creates jobs for open gaps, and retries those that failed."""

    def __init__(self, context: HandlerContext, every_s: float) -> None:
        self._context, self._every_s = context, every_s

    async def run(self) -> None:
        """Check at intervals, for as long as the task lives."""
        while True:
            try:
                await self.check()
            except StorageError:
                pass  # the worker reports a store that does not answer
            except Exception as error:
                self._context.tell(GapWatchFailed(error=repr(error)))
            await self._context.clock.sleep(self._every_s)

    async def check(self) -> int:
        """Create jobs for gaps without a live one; return how many.

        Raises:
            StorageError: the store does not answer.
        """
        rows = [row for row in await self._context.gaps.find(state="open") if is_fetched(row)]
        if not rows:
            return 0
        live = {job.id: job async for job in self._live()}
        await self._retry(live.values())
        made = 0
        for exchange, of_exchange in groupby(rows, lambda row: row.exchange):
            room = _MOST_JOBS - sum(job.exchange_id == exchange for job in live.values())
            series = [
                batches(list(of_stream), live)
                for _, of_stream in groupby(of_exchange, lambda row: row.stream)
            ]
            # The first of each market, then the second of each.
            for batch in (each for turn in zip_longest(*series) for each in turn if each):
                if room <= 0:
                    break
                room -= 1
                made += await self._create(batch)
        return made

    async def _live(self) -> AsyncIterator[Job]:
        after: str | None = None
        while page := await self._context.job_service.find(
            type=GAP_BACKFILL, limit=_LISTED, after=after
        ):
            for job in page:
                yield job
            after = page[-1].id

    async def _retry(self, jobs: Iterable[Job]) -> None:
        """Resume jobs that failed for good, later each time."""
        now_ms = await self._context.job_service.store.now_ms()
        for job in jobs:
            if job.origin == GAP_WATCH and job.state == "failed" and job.status == "active":
                resumed = sum(event.what == "resumed" for event in job.events)
                wait_ms = min(_LONGEST_RETRY_MS, _FIRST_RETRY_MS << resumed)
                if now_ms >= job.updated_at + wait_ms:
                    with suppress(JobEnded, UnknownJob):
                        await self._context.job_service.resume(job.id)

    async def _create(self, batch: GapBatch) -> bool:
        """Create a job and note it at its gaps; False if there is one for them already."""
        stream, (first, last), since_ms = batch
        new = NewJob(
            exchange_id=stream.exchange,
            type=GAP_BACKFILL,
            symbol=Symbol.parse(stream.symbol).unified,
            cursor=IdRangeCursor(
                channel=stream.channel, first_id=first, last_id=last, since_ms=since_ms
            ),
        )
        try:
            job_id = (await self._context.job_service.create(new, GAP_WATCH)).id
            is_new = True
        except AlreadyExists as error:
            job_id, is_new = error.existing_id, False
        await self._context.gaps.attach(stream, "id", first, last, job_id)
        return is_new


def is_fetched(row: GapRow) -> bool:
    """Whether the records of a gap can be requested by id."""
    return row.by == "id" and row.channel in FETCHED_BY_ID


def batches(rows: Iterable[GapRow], live: Mapping[str, object]) -> Iterator[GapBatch]:
    """Ranges for jobs that fill the open gaps of one stream, except those with a live job.

    Gaps are joined if that takes fewer pages than one by one.
    """
    waiting: GapBatch | None = None
    for row in rows:
        if row.job_id in live:
            # A range across it would overlap with that job.
            if waiting is not None:
                yield from _split(waiting)
            waiting = None
            continue
        ids = IdRange(row.first, row.last)
        if waiting is not None:
            both = IdRange(waiting.ids.first, ids.last)
            if _pages(both) < _pages(waiting.ids) + _pages(ids):
                waiting = waiting._replace(ids=both)
                continue
            yield from _split(waiting)
        waiting = GapBatch(row.stream, ids, row.since_ms)
    if waiting is not None:
        yield from _split(waiting)


def _pages(ids: IdRange) -> int:
    return -(-ids.size // PAGE)


def _split(batch: GapBatch) -> Iterator[GapBatch]:
    first, last = batch.ids
    for start in range(first, last + 1, MOST_PAGES * PAGE):
        yield batch._replace(ids=IdRange(start, min(last, start + MOST_PAGES * PAGE - 1)))
