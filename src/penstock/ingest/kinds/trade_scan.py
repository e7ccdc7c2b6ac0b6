"""``trade_scan``: checks that the trades of one market that the ledger lists are stored.

What is not stored becomes a gap, for which the gap watch creates a ``gap_backfill``.
"""

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from penstock.coverage.id_runs import IdGap
from penstock.coverage.id_scan import IdScan, ScannedStores
from penstock.errors import BadJob, MissingExtra, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.ingest.context import HandlerContext
from penstock.ingest.id_ranges import Id
from penstock.jobs.kinds import JobKind, Market, RequestRate, unified_symbol
from penstock.jobs.model import Count, Job
from penstock.jobs.run import JobRun
from penstock.market.channels import TRADES
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream


class ScanTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records of one market and channel."""

    symbol: str
    channel: str


class ScanCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ids that are compared."""

    channel: str = TRADES.name
    next_id: Id | None = None
    """All recorded ids below are compared; None: begin with the first."""
    missing: Count = 0
    """Ids that were found to be missing."""
    done: bool = False


class TradeScan(JobKind[ScanTarget, ScanCursor]):
    """Compares the lowest ids first; sends no requests."""

    name = "trade_scan"
    priority = 90
    target_type = ScanTarget
    cursor_type = ScanCursor

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    @classmethod
    def target(cls, market: Market, cursor: ScanCursor) -> ScanTarget:
        """See ``JobKind``."""
        if market.symbol is None:
            raise BadJob("symbol", f"a {cls.name} needs one, such as BTC/USDT")
        if market.timeframe is not None:
            raise BadJob("timeframe", f"{cursor.channel} have none: leave it out")
        if cursor.done:
            raise BadJob("cursor.done", "only a worker can say that a job is done")
        symbol = unified_symbol(market.symbol)
        return ScanTarget(symbol=symbol, channel=cursor.channel)

    @classmethod
    def check_exchange(cls, exchange_id: str, target: ScanTarget) -> None:
        """See ``JobKind``."""
        with suppress(UnknownExchange, MissingExtra):
            known = exchanges.load(exchange_id).consecutive
            if target.channel not in known:
                which = f"; those of {' and '.join(sorted(known))} are" if known else ""
                problem = f"the ids of {exchange_id}'s {target.channel} are not consecutive{which}"
                raise BadJob("cursor.channel", problem)

    @classmethod
    def market(cls, target: ScanTarget) -> Market:
        """See ``JobKind``."""
        return Market(target.symbol)

    @classmethod
    def ended(cls, cursor: ScanCursor) -> ScanCursor:
        """See ``JobKind``."""
        return replace(cursor, done=True)

    async def run(self, job_run: JobRun[ScanTarget, ScanCursor]) -> bool:
        """See ``JobKind``."""
        context, target = self._context, job_run.target
        symbol = Symbol.parse(target.symbol).slug
        stores = ScannedStores(
            context.job_service.store, context.log, context.log_id, context.clock,
            context.lake, context.emit,
        )  # fmt: skip
        scan = await IdScan.begin(stores, Stream(job_run.job.exchange_id, target.channel, symbol))
        while (found := await scan.batch(job_run.cursor.next_id)) is not None:
            if found.gaps:
                job_run.note("missing", _words(found.gaps))
            cursor = job_run.cursor
            missing = cursor.missing + sum(gap.size for gap in found.gaps)
            moved = replace(cursor, next_id=found.next_id, missing=missing)
            if not await job_run.save(moved, rows=found.ids):
                return False
        return True

    async def request_rate(self, job: Job) -> RequestRate:  # noqa: ARG002
        """See ``JobKind``."""
        return RequestRate()


def _words(gaps: list[IdGap]) -> str:
    count = sum(gap.size for gap in gaps)
    ids = f"{count:,} ids" if count > 1 else "1 id"
    return f"{ids} from {gaps[0].first} to {gaps[-1].last}; jobs of the gap watch fetch them"


KIND = TradeScan
