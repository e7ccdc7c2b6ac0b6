"""``markets_refresh``: learn what an exchange lists, and which limits it announces."""

from penstock.ingest.means import Means
from penstock.jobs.kinds import MARKETS_REFRESH
from penstock.jobs.turn import Turn


class MarketsRefresh:
    """Asks an exchange about itself."""

    kind = MARKETS_REFRESH

    def __init__(self, means: Means) -> None:
        self._means = means

    async def run(self, turn: Turn) -> bool:
        """See ``Handler``."""
        exchange_id = turn.job.exchange_id
        gateway = await self._means.gateways.of(exchange_id)
        await self._means.markets.refresh(exchange_id, await gateway.learn())
        return True


HANDLER = MarketsRefresh
