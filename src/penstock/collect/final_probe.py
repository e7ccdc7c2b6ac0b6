"""Fetches the latest trades of every market before a collector stops.

The time allowed is derived from the budget. All markets are requested concurrently, as fast as the
gate grants tokens. Markets that could not be fetched in time, or because the exchange does not
answer, are reported.
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
"""Requests in flight or waiting at the gate, at most."""
_SPARE_S, _SPARE_SHARE = 30.0, 3.0
"""A reserve: other processes use the budget too, and an exchange may be slow."""
_FAILURES = 3
"""After this many failures in a row the remaining markets are skipped."""


@dataclass
class FinalProber:
    """Fetches from all markets once, as fast as the budget allows."""

    gateway: ExchangeClient
    availability: RestAvailability
    most_s: float
    emit: Listener
    note: Callable[[str], None]
    """Receives the progress, and at the end what could not be fetched, or ""."""

    async def ask(
        self,
        symbols: Sequence[Symbol],
        request: Callable[[Symbol], Request[list[Trade]]],
        take: Callable[[Symbol, list[Trade]], Awaitable[object]],
    ) -> None:
        """Send a request for every market, and pass the responses to ``take``."""
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
            round_.reason = "stopped at once by a second signal"
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
        self.emit(FinalProbe(exchange=exchange, asked=round_.asked, markets=markets, reason=reason))

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
        """The time allowed: what the limits require, with a reserve, at most ``most_s``."""
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
        """Note a failure; skip the remaining markets if their requests would fail too."""
        self.reason = str(error)
        self.failures += 1
        if isinstance(error, (ExchangeUnreachable, *SUSPENDED)) or self.failures >= _FAILURES:
            self.left.clear()
