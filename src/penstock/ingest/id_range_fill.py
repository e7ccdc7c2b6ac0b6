"""Gaps of trades: what a job of a range of ids does."""

from contextlib import suppress

from msgspec.structs import replace

from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.id_ranges import IdRangeCursor, IdRangeTarget, target_of
from penstock.ingest.trades import (
    TradeWalk,
    check_fetched_by_id,
    has_consecutive_ids,
    page_rate,
)
from penstock.jobs.kinds import JobKind, Market, RequestRate
from penstock.jobs.model import Job
from penstock.jobs.run import JobRun


class IdRangeFill(JobKind[IdRangeTarget, IdRangeCursor]):
    """Fetches the records of its range that the log does not hold."""

    name = GAP_BACKFILL
    target_type = IdRangeTarget
    cursor_type = IdRangeCursor

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    @classmethod
    def target(cls, market: Market, cursor: IdRangeCursor) -> IdRangeTarget:
        """See ``JobKind``."""
        return target_of(market, cursor, cls.name)

    @classmethod
    def check_exchange(cls, exchange_id: str, target: IdRangeTarget) -> None:
        """See ``JobKind``."""
        with suppress(UnknownExchange, MissingExtra):
            check_fetched_by_id(exchanges.load(exchange_id), target.channel)

    @classmethod
    def market(cls, target: IdRangeTarget) -> Market:
        """See ``JobKind``."""
        return Market(target.symbol)

    @classmethod
    def span(cls, target: IdRangeTarget, cursor: IdRangeCursor) -> tuple[int, int]:  # noqa: ARG003
        """See ``JobKind``."""
        return cursor.first_id, cursor.last_id + 1

    @classmethod
    def ended(cls, cursor: IdRangeCursor) -> IdRangeCursor:
        """See ``JobKind``."""
        return replace(cursor, done=True)

    @classmethod
    def rows_left(cls, job: Job) -> float:
        """See ``JobKind``."""
        # Only consecutive ids say how many records there are.
        is_known = has_consecutive_ids(job.exchange_id, job.target.channel)
        return float(job.cursor.left.size) if is_known else 0.0

    async def run(self, job_run: JobRun[IdRangeTarget, IdRangeCursor]) -> bool:
        """See ``JobKind``."""
        return await (await TradeWalk.begin(self._context, job_run)).go()

    async def request_rate(self, job: Job) -> RequestRate:
        """See ``JobKind``."""
        return await page_rate(self._context, job, job.target.channel, job.cursor.first_id)
