"""``markets_refresh``: an exchange's market listing, and the limits that it announces."""

from penstock.ingest.context import HandlerContext
from penstock.jobs.kinds import MARKETS_REFRESH
from penstock.jobs.run import JobRun


class MarketsRefresh:
    """Fetches an exchange's listing and limits."""

    kind = MARKETS_REFRESH

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def run(self, job_run: JobRun) -> bool:
        """See ``Handler``."""
        exchange_id = job_run.job.exchange_id
        gateway = await self._context.gateways.of(exchange_id)
        await self._context.markets.refresh(exchange_id, await gateway.learn())
        return True


HANDLER = MarketsRefresh
