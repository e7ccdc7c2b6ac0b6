"""Fills one gap on request, by the job that the gap watch would create for it."""

from functools import lru_cache
from typing import NamedTuple

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import GapNotFillable, MissingExtra, PenstockError, UnknownExchange
from penstock.exchanges import registry
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.gap_watch import GapBatch, GapJob, batches, create_job, new_job, page_size
from penstock.ingest.id_ranges import IdRange
from penstock.jobs.model import Job
from penstock.jobs.service import JobService
from penstock.market.symbol import Symbol

_MOST_JOBS = 200


class Filling(NamedTuple):
    """The job that fills a gap; of several, the first."""

    job: Job
    is_new: bool


def why_not(gap: GapRow) -> str:
    """Why no job can fill a gap; empty if one can."""
    if gap.state == "filled":
        return "it is filled"
    if gap.state == "unfillable":
        return ": ".join(filter(None, ["the exchange does not serve it", gap.reason]))
    if reason := _why_unknown(gap.exchange):
        return reason
    ids = IdRange(gap.first, gap.last)
    batch = GapBatch(gap.stream, gap.by, ids, gap.since_ms, gap.until_ms)
    try:
        is_fetched = page_size(gap.stream, gap.by) and new_job(batch) is not None
    except PenstockError:  # a symbol or candle length that this version does not know
        is_fetched = False
    return "" if is_fetched else f"old records of {gap.channel} cannot be requested"


@lru_cache(100)
def _why_unknown(exchange: str) -> str:
    """Why an exchange cannot be asked; empty if it can. Finding its module takes a while."""
    try:
        registry.load(exchange)
    except (UnknownExchange, MissingExtra) as error:
        return str(error)
    return ""


async def fill_gap(job_service: JobService, gaps: GapRows, gap: GapRow) -> Filling:
    """Create the jobs that fill a gap; one that exists is run now, unless it is running.

    Raises:
        GapNotFillable: no job can fill it.
        JobEnded: its job ended just now.
        StorageError: the store does not answer.
    """
    if reason := why_not(gap):
        raise GapNotFillable(gap.id, reason)
    exchange, channel, symbol = gap.stream
    found = await job_service.find(
        exchange_id=exchange, type=GAP_BACKFILL, symbol=Symbol.parse(symbol).unified, limit=1000
    )
    live = {job.id: job for job in found}
    rows = await gaps.find(exchange=exchange, channel=channel, symbol=symbol, state="open")
    rows = [row for row in rows if row.by == gap.by]
    for row in rows:
        if row.job_id in live and row.first <= gap.last and gap.first <= row.last:
            return Filling(await _made_due(job_service, live[row.job_id]), is_new=False)
    made: list[GapJob] = []
    for batch in batches(rows, live, page_size(gap.stream, gap.by)):
        is_wanted = batch.ids.first <= gap.last and gap.first <= batch.ids.last
        new = new_job(batch) if is_wanted and len(made) < _MOST_JOBS else None
        if new is not None:
            made.append(await create_job(job_service, gaps, batch, new))
    if not made:
        raise GapNotFillable(gap.id, "it was closed meanwhile")
    job_id, is_new = made[0]
    job = await job_service.get(job_id)
    return Filling(job if is_new else await _made_due(job_service, job), is_new)


async def _made_due(job_service: JobService, job: Job) -> Job:
    """A job that runs now, or is the next to run."""
    is_running = job.state == "running" and job.status == "active"
    return job if is_running else await job_service.run(job.id)
