"""``markets_refresh``: an exchange's market listing, and the limits that it announces."""

from msgspec import Struct

from penstock.errors import BadJob
from penstock.ingest.context import HandlerContext
from penstock.jobs.kinds import JobKind, Market, RequestRate
from penstock.jobs.model import Cursor, Job
from penstock.jobs.run import JobRun
from penstock.market.interval import HOUR_MS


class WholeExchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All markets of an exchange."""


class MarketsRefresh(JobKind[WholeExchange, Cursor]):
    """Fetches an exchange's listing and limits."""

    name = "markets_refresh"
    priority = 40
    target_type = WholeExchange

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    @classmethod
    def target(cls, market: Market, cursor: Cursor) -> WholeExchange:
        """See ``JobKind``."""
        for field, value in market._asdict().items():
            if value is not None:
                raise BadJob(field, f"a {cls.name} has none: it is for the whole exchange")
        if cursor != Cursor():
            raise BadJob("cursor", f"a {cls.name} has none")
        return WholeExchange()

    @classmethod
    def interval_ms(cls, target: WholeExchange) -> int:  # noqa: ARG003
        """See ``JobKind``."""
        return 12 * HOUR_MS

    async def run(self, job_run: JobRun[WholeExchange, Cursor]) -> bool:
        """See ``JobKind``."""
        exchange_id = job_run.job.exchange_id
        gateway = await self._context.gateways.of(exchange_id)
        await self._context.markets.refresh(exchange_id, await gateway.learn())
        return True

    async def request_rate(self, job: Job) -> RequestRate:  # noqa: ARG002
        """See ``JobKind``."""
        return RequestRate()


KIND = MarketsRefresh
