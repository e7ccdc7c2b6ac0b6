"""Changes that clients request, checked against exchanges' listings before they are made."""

from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import asdict, replace

from penstock.config import LimitPlan
from penstock.connectors import Connector, ConnectorManager
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import UnknownInterval
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.gap_fill import Filling, fill_gap, why_not
from penstock.jobs.model import Job, NewJob
from penstock.jobs.service import JobService
from penstock.jobs.validation import admitted
from penstock.throttle.gate import Limit


class SymbolLookup(Protocol):
    """The market listings of exchanges."""

    async def of(self, exchange_id: str) -> SymbolMap:
        """The symbols of an exchange from its last listing; fetched if there is none.

        Raises:
            ExchangeError, ExchangeUnreachable: the listing cannot be fetched now.
        """
        ...


def limit_of(plan: LimitPlan) -> Limit:
    """The limit that a plan specifies."""
    return Limit(**asdict(plan))


async def checked(new: NewJob, listings: SymbolLookup) -> NewJob:
    """The same job, with its symbol in unified form.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
        ExchangeError, ExchangeUnreachable: there is no listing, and it cannot be fetched now.
    """
    exchange = registry.load(new.exchange_id)
    if new.timeframe is not None:
        check_timeframe(exchange, new.timeframe)
    if new.symbol is None:
        return new
    symbol = (await listings.of(new.exchange_id)).find(new.symbol)
    return replace(new, symbol=symbol.unified)


def check_timeframe(exchange: Exchange, timeframe: str) -> None:
    """Check that an exchange has candles of this length.

    Raises:
        UnknownInterval: it has none.
    """
    if timeframe not in exchange.intervals:
        raise UnknownInterval(timeframe, exchange.intervals)


@dataclass(frozen=True)
class FleetAdmin:
    """Administration of connectors and jobs."""

    connectors: ConnectorManager
    job_service: JobService
    listings: SymbolLookup

    async def unblock(self, exchange_id: str, until_ms: int) -> Connector:
        """Lift a stop of an exchange before it ends; jobs that wait for its end run now.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        connector = await self.connectors.unblock_connector(exchange_id, until_ms)
        if connector.blocked_until is None:
            await self.job_service.wake(exchange_id)
        return connector

    async def fill(self, gap: GapRow) -> Filling:
        """Create the jobs that fill a gap, or run the one that does; see ``fill_gap``.

        Raises:
            GapNotFillable: no job can fill it.
            JobEnded: its job ended just now.
        """
        if not why_not(gap):
            await self.connectors.ensure_connector(gap.exchange)
        return await fill_gap(self.job_service, GapRows(self.job_service.store), gap)

    async def add(self, new: NewJob, origin: str = "") -> Job:
        """Create a job, and the connector it needs if there is none.

        Raises:
            BadJob: it is invalid.
            AlreadyExists: a live job does the same work; ``existing_id`` is its id.
            UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
            ExchangeError, ExchangeUnreachable: there is no listing, and it cannot be fetched now.
        """
        new = await checked(new, self.listings)
        # An invalid job is rejected before a connector is created for it.
        admitted(new, self.job_service.kinds, job_id="", now_ms=0)
        await self.connectors.ensure_connector(new.exchange_id)
        return await self.job_service.create(new, origin)
