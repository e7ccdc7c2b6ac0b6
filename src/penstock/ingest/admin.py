"""Changes people ask for, checked against what exchanges list before anything is changed."""

from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import asdict, replace

from penstock.config import LimitPlan
from penstock.connectors import Connector, ConnectorManager
from penstock.errors import UnknownInterval
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange, SymbolMap
from penstock.jobs.model import Job, NewJob
from penstock.jobs.service import JobService
from penstock.jobs.validation import admitted
from penstock.throttle.gate import Limit


class SymbolLookup(Protocol):
    """What exchanges list."""

    async def of(self, exchange_id: str) -> SymbolMap:
        """An exchange's symbols, as it last told them; asked of it if it never did.

        Raises:
            ExchangeError, ExchangeUnreachable: it cannot be asked just now.
        """
        ...


def limit_of(plan: LimitPlan) -> Limit:
    """A limit that somebody wrote down."""
    return Limit(**asdict(plan))


async def checked(new: NewJob, listings: SymbolLookup) -> NewJob:
    """The same job, its market spelt as it is kept.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
        ExchangeError, ExchangeUnreachable: nobody knows yet what the exchange lists.
    """
    exchange = registry.load(new.exchange_id)
    if new.timeframe is not None:
        check_timeframe(exchange, new.timeframe)
    if new.symbol is None:
        return new
    symbol = (await listings.of(new.exchange_id)).find(new.symbol)
    return replace(new, symbol=symbol.unified)


def check_timeframe(exchange: Exchange, timeframe: str) -> None:
    """See that an exchange has candles of this length.

    Raises:
        UnknownInterval: it has not.
    """
    if timeframe not in exchange.intervals:
        raise UnknownInterval(timeframe, exchange.intervals)


@dataclass(frozen=True)
class FleetAdmin:
    """Connectors and jobs, as people administer them."""

    connectors: ConnectorManager
    job_service: JobService
    listings: SymbolLookup

    async def unblock(self, exchange_id: str, until_ms: int) -> Connector:
        """Send to an exchange again before a stop ends; jobs that wait for its end run now.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        connector = await self.connectors.unblock_connector(exchange_id, until_ms)
        if connector.blocked_until is None:
            await self.job_service.wake(exchange_id)
        return connector

    async def add(self, new: NewJob, origin: str = "") -> Job:
        """A new job, and the connector it needs if there is none.

        Raises:
            BadJob: it makes no sense.
            AlreadyExists: the same work is being done; ``existing_id`` says by which job.
            UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
            ExchangeError, ExchangeUnreachable: nobody knows yet what the exchange lists.
        """
        new = await checked(new, self.listings)
        # Whatever is wrong with it shall be said before a connector is made for it.
        admitted(new, self.job_service.kinds, job_id="", now_ms=0)
        await self.connectors.ensure_connector(new.exchange_id)
        return await self.job_service.create(new, origin)
