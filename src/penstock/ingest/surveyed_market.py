"""One market while it is surveyed."""

from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.clock import Clock
from penstock.errors import BadJob, UnexpectedAnswer
from penstock.exchanges.base import Exchange, ExchangeClient, Request, Rest
from penstock.exchanges.paged import PagedEndpoint
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.exchange_time import exchange_ms
from penstock.ingest.history import complete_until
from penstock.ingest.planned_time import Budget
from penstock.ingest.planner import Survey
from penstock.market.channels import CANDLES
from penstock.market.events import Candle
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

T = TypeVar("T")


@dataclass
class SurveyedMarket:
    """The requests of a survey, which are counted."""

    gateway: ExchangeClient
    symbols: SymbolMap
    symbol: Symbol
    clock: Clock
    requests: int = 0

    @property
    def exchange(self) -> Exchange:
        """The exchange of the market."""
        return self.gateway.exchange

    @property
    def rest(self) -> Rest:
        """The requests that the exchange supports."""
        return self.exchange.rest(self.symbols)

    @property
    def now_ms(self) -> int:
        """The exchange's time."""
        return exchange_ms(self.gateway, self.clock)

    async def fetch(self, request: Request[T]) -> T:
        """Send a request."""
        self.requests += 1
        return await self.gateway.fetch(request)

    async def candles(self, interval: Interval, start_ms: int, end_ms: int) -> list[Candle]:
        """A page of candles that begin in [start, end)."""
        return await self.fetch(self.rest.candles(self.symbol, interval, start_ms, end_ms))

    async def all_candles(self, interval: Interval, start_ms: int, end_ms: int) -> list[Candle]:
        """All candles that begin in [start, end)."""
        found, at_ms = list[Candle](), start_ms
        while at_ms < end_ms:
            page = await self.candles(interval, at_ms, end_ms)
            found += page
            next_ms = complete_until(self.exchange, interval, (at_ms, end_ms), page)
            if next_ms <= at_ms:
                raise UnexpectedAnswer(f"candles from {at_ms} on begin before it")
            at_ms = next_ms
        return found

    def endpoints(self, channel: str) -> tuple[PagedEndpoint, ...]:
        """The endpoints for old records of a channel.

        Raises:
            BadJob: there are none.
        """
        found = tuple(each for each in self.exchange.paged if each.channel == channel)
        if not found:
            raise BadJob("symbol", f"{self.exchange.name} has no pages of old {channel}")
        return found

    @property
    def candle_page(self) -> int:
        """The most candles in a page."""
        return max(each.costs[-1].rows for each in self.endpoints(CANDLES.name))

    def surveyed(self, **known: Any) -> Survey:
        """A survey that ends now."""
        return Survey(
            exchange_id=self.exchange.name,
            symbol=self.symbol.unified,
            latency_ms=self.gateway.latency_ms or 0.0,
            budget=Budget(self.gateway.gate.used(), self.now_ms),
            requests=self.requests,
            **known,
        )
