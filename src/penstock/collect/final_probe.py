"""The final probe: before a collector stops, every market is asked for its newest trades.

The budget says how long that takes. All markets are asked at once, and those that the gate lets go
leave; what could not be asked in time, or because the exchange does not answer, is said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from penstock.collect.availability import RestAvailability
from penstock.collect.facts import FinalProbe
from penstock.errors import SUSPENDED, UNAVAILABLE, ExchangeUnreachable
from penstock.exchanges.base import ExchangeClient, Request
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener

_AT_ONCE = 32
"""Requests that may be under way or wait at the gate."""
_SPARE_S, _SPARE_SHARE = 30.0, 3.0
"""Others use the budget too, and an exchange may take its time."""
_FAILURES = 3
"""After so many failures in a row the others are not tried."""


@dataclass
class FinalProber:
    """Asks all markets once, as fast as the budget allows."""

    gateway: ExchangeClient
    availability: RestAvailability
    most_s: float
    tell: Listener
    note: Callable[[str], None]
    """Is told how far it is, and in the end what could not be asked, if anything."""

    async def ask(
        self,
        symbols: Sequence[Symbol],
        request: Callable[[Symbol], Request[list[Trade]]],
        take: Callable[[Symbol, list[Trade]], Awaitable[object]],
    ) -> None:
        """Ask every market, and hand over what it answers."""
        round_ = _Round(list(symbols))
        workers = [
            self._work(round_, request, take) for _ in range(min(_AT_ONCE, len(round_.left)))
        ]
        try:
            async with asyncio.timeout(self._time_s(symbols, request)):
                await asyncio.gather(*workers)
        except TimeoutError:
            round_.reason = "the time for it is over"
        except asyncio.CancelledError:
            round_.reason = "told to stop at once"
            raise
        finally:
            self._conclude(round_, len(symbols))

    def _conclude(self, round_: "_Round", markets: int) -> None:
        failed, reason = markets - round_.asked, round_.reason
        self.note(
            f"the final probe of the exchange failed: {failed} of {markets} markets were not asked:"
            f" {reason}"
            if failed
            else ""
        )
        exchange = self.gateway.exchange.name
        self.tell(FinalProbe(exchange=exchange, asked=round_.asked, markets=markets, reason=reason))

    async def _work(
        self,
        round_: "_Round",
        request: Callable[[Symbol], Request[list[Trade]]],
        take: Callable[[Symbol, list[Trade]], Awaitable[object]],
    ) -> None:
        while round_.left:
            symbol = round_.left.pop()
            try:
                trades = await self.gateway.fetch(request(symbol))
            except UNAVAILABLE as error:
                self.availability.failed(error)
                round_.failed(error)
                continue
            await take(symbol, trades)
            round_.asked, round_.failures = round_.asked + 1, 0
            self.note(f"stopping: {round_.asked} of {round_.markets} markets had their final probe")

    def _time_s(
        self, symbols: Sequence[Symbol], request: Callable[[Symbol], Request[list[Trade]]]
    ) -> float:
        """How long it may take: by the limits, with some to spare, and no longer than is set."""
        if not symbols:
            return 0.0
        one = request(symbols[0])
        needed_s = max(
            (
                limit.charge(one.cost, one.category) * len(symbols) * limit.period_ms / 1000
                / limit.amount
                for limit in self.gateway.gate.used()
                if not limit.is_for_each
            ),
            default=0.0,
        )  # fmt: skip
        return min(self.most_s, _SPARE_S + _SPARE_SHARE * needed_s)


class _Round:
    def __init__(self, symbols: list[Symbol]) -> None:
        self.left, self.markets = symbols[::-1], len(symbols)
        self.asked = self.failures = 0
        self.reason = ""

    def failed(self, error: Exception) -> None:
        """Note a failure; those left are not asked where that would be in vain."""
        self.reason = str(error)
        self.failures += 1
        if isinstance(error, (ExchangeUnreachable, *SUSPENDED)) or self.failures >= _FAILURES:
            self.left.clear()
