"""``trades_backfill``: the trades of one market, from an id or a time to another."""

from msgspec.structs import replace

from penstock.ingest.context import HandlerContext
from penstock.ingest.trade_backfill import TradeBackfill
from penstock.ingest.trade_range import TradesCursor, TradesTarget, target_of
from penstock.ingest.trades import has_consecutive_ids, page_rate
from penstock.jobs.kinds import JobKind, Market, RequestRate
from penstock.jobs.model import Job
from penstock.jobs.product_locks import ProductLocks
from penstock.jobs.run import JobRun
from penstock.market.channels import TRADES


class TradesBackfill(JobKind[TradesTarget, TradesCursor]):
    """Fetches the pages of its range, several at a time where ids are consecutive."""

    name = "trades_backfill"
    priority = 80
    target_type = TradesTarget
    cursor_type = TradesCursor

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    @classmethod
    def target(cls, market: Market, cursor: TradesCursor) -> TradesTarget:
        """See ``JobKind``."""
        return target_of(market, cursor, cls.name)

    @classmethod
    def market(cls, target: TradesTarget) -> Market:
        """See ``JobKind``."""
        return Market(target.symbol)

    @classmethod
    def span(cls, target: TradesTarget, cursor: TradesCursor) -> tuple[int, int] | None:  # noqa: ARG003
        """See ``JobKind``. Unknown until both ends of the range are."""
        if cursor.from_id is None or cursor.to_id is None:
            return None
        return cursor.from_id, cursor.to_id + 1

    @classmethod
    def ended(cls, cursor: TradesCursor) -> TradesCursor:
        """See ``JobKind``."""
        return replace(cursor, done=True)

    @classmethod
    def rows_left(cls, job: Job) -> float:
        """See ``JobKind``."""
        # Only consecutive ids say how many trades there are.
        if job.cursor.is_resolved and has_consecutive_ids(job.exchange_id, TRADES.name):
            return float(job.cursor.left().size)
        return 0.0

    async def run(self, job_run: JobRun[TradesTarget, TradesCursor]) -> bool:
        """See ``JobKind``."""
        with self._context.fetches.one_more(job_run.job.exchange_id):
            backfill = await TradeBackfill.begin(self._context, job_run)
            locks = ProductLocks(self._context.job_service.store, self._context.clock)
            return await locks.run(backfill.lock_key, job_run.job, backfill.go)

    async def request_rate(self, job: Job) -> RequestRate:
        """See ``JobKind``."""
        return await page_rate(self._context, job, TRADES.name, job.cursor.from_id or 0)


KIND = TradesBackfill
