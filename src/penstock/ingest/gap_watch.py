"""The gap watch: every few seconds, a job for each gap that no job fills.

Every worker runs it. Two workers that create a job for the same gap at the same time get one: the
second is rejected as a duplicate, and notes the first at the gap. Gaps of one market that one
page covers share a job, and a long gap gets several.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, zip_longest
from typing import NamedTuple

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import By, GapRow
from penstock.errors import AlreadyExists, JobEnded, StorageError, UnknownJob
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.facts import GapWatchFailed
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.history import length_ms
from penstock.ingest.id_ranges import FETCHED_BY_ID, IdRange, IdRangeCursor
from penstock.ingest.timed_gaps import ids_between
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.jobs.service import JobService
from penstock.market.channels import CANDLES
from penstock.market.interval import Interval
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
_WHOLE = 1 << 63


class GapBatch(NamedTuple):
    """Positions of a stream that one job fetches, and the market times beside them, if known."""

    stream: Stream
    by: By
    ids: IdRange
    since_ms: int | None = None
    until_ms: int | None = None


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
                self._context.emit(GapWatchFailed(error=repr(error)))
            await self._context.clock.sleep(self._every_s)

    async def check(self) -> int:
        """Create jobs for gaps without a live one; return how many.

        Raises:
            StorageError: the store does not answer.
        """
        rows = await self._context.gaps.find(state="open")
        if not rows:
            return 0
        live = {job.id: job async for job in self._live()}
        await self._retry(live.values())
        made = 0
        for exchange, of_exchange in groupby(rows, lambda row: row.exchange):
            room = _MOST_JOBS - sum(job.exchange_id == exchange for job in live.values())
            series = [
                batches(list(of_series), live, page)
                for (stream, by), of_series in groupby(
                    of_exchange, lambda row: (row.stream, row.by)
                )
                if (page := page_size(stream, by))
            ]
            # The first of each market, then the second of each.
            for batch in (each for turn in zip_longest(*series) for each in turn if each):
                if room <= 0:
                    break
                if (new := new_job(batch)) is not None:
                    room -= 1
                    context = self._context
                    job = await create_job(context.job_service, context.gaps, batch, new)
                    made += job.is_new
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


class GapJob(NamedTuple):
    """The job of a gap."""

    id: str
    is_new: bool
    """Whether it was created by this call."""


async def create_job(
    job_service: JobService, gaps: GapRows, batch: GapBatch, new: NewJob
) -> GapJob:
    """Create a job and note it at its gaps, unless there is one for them already.

    Raises:
        StorageError: the store does not answer.
    """
    try:
        made = GapJob((await job_service.create(new, GAP_WATCH)).id, is_new=True)
    except AlreadyExists as error:
        made = GapJob(error.existing_id, is_new=False)
    await gaps.attach(batch.stream, batch.by, *batch.ids, made.id)
    return made


def new_job(batch: GapBatch) -> NewJob | None:
    """The job that fetches a batch; None if its records cannot be requested."""
    exchange, channel, symbol = batch.stream
    first, last = batch.ids
    cursor: Cursor | IdRangeCursor
    match batch.by:
        case "id" if channel in FETCHED_BY_ID:
            cursor = IdRangeCursor(
                channel=channel, first_id=first, last_id=last, since_ms=batch.since_ms
            )
        case "open_ms":
            cursor = Cursor(since_ms=first, until_ms=last + 1)
        case "received_ns" if ids := ids_between(batch.stream, batch.since_ms, batch.until_ms):
            cursor = IdRangeCursor(channel=channel, first_id=ids.first, last_id=ids.last)
        case _:
            return None
    return NewJob(
        exchange_id=exchange,
        type=GAP_BACKFILL,
        symbol=Symbol.parse(symbol).unified,
        timeframe=CANDLES.suffix_in(channel) if batch.by == "open_ms" else None,
        cursor=cursor,
    )


def batches(
    rows: Iterable[GapRow], live: Mapping[str, object], page: int = PAGE
) -> Iterator[GapBatch]:
    """Ranges for jobs that fill the open gaps of one stream, except those with a live job.

    ``page`` is the number of positions in one page. Gaps are joined if that takes fewer pages than
    one by one.
    """
    waiting: GapBatch | None = None
    for row in rows:
        if row.job_id in live:
            # A range across it would overlap with that job.
            if waiting is not None:
                yield from _split(waiting, page)
            waiting = None
            continue
        ids = IdRange(row.first, row.last)
        if waiting is not None:
            both = IdRange(waiting.ids.first, ids.last)
            if _pages(both, page) < _pages(waiting.ids, page) + _pages(ids, page):
                waiting = waiting._replace(ids=both, until_ms=row.until_ms)
                continue
            yield from _split(waiting, page)
        waiting = GapBatch(row.stream, row.by, ids, row.since_ms, row.until_ms)
    if waiting is not None:
        yield from _split(waiting, page)


def page_size(stream: Stream, by: By) -> int:
    """How many positions of a stream one page has; a gap by time is fetched as it is."""
    match by:
        case "id":
            return PAGE
        case "open_ms":
            return PAGE * length_ms(Interval.parse(CANDLES.suffix_in(stream.channel)))
        case "received_ns":
            return _WHOLE


def _pages(ids: IdRange, page: int) -> int:
    # Gaps by receive time are not joined.
    return -(-ids.size // page) if page < _WHOLE else ids.size


def _split(batch: GapBatch, page: int) -> Iterator[GapBatch]:
    (first, last), step = batch.ids, MOST_PAGES * page
    for start in range(first, last + 1, step):
        yield batch._replace(ids=IdRange(start, min(last, start + step - 1)))
