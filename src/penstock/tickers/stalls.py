"""Detects ticker streams that deliver nothing on a live connection, and subscribes to them again.

It is the detector of ``collect``: a stream that is silent for longer than usual has its market
probed by REST, and if that has changed, the stream has stalled.
"""

import asyncio
from collections.abc import Iterable, Sequence

from penstock.collect.availability import RestAvailability
from penstock.collect.stall_detector import (
    ProbeContext,
    SilenceLimits,
    StallDetector,
    StreamControl,
)
from penstock.exchanges.base import Exchange
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.channels import TICKERS
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener
from penstock.tickers.facts import StallDetectionFailed
from penstock.tickers.services import TickerServices

_AGAIN_S = 5.0


class TickerStalls:
    """The stalled streams of one exchange. For one event loop."""

    def __init__(
        self, exchange: Exchange, services: TickerServices, listed: SymbolMap, emit: Listener
    ) -> None:
        name, settings = exchange.name, services.settings.collect
        gateways, self._clock, self._emit = services.gateways, services.clock, emit
        self._exchange, self._is_on = name, settings.liveness
        self._availability = RestAvailability(
            name, services.clock, lambda: gateways.check(name), emit=emit
        )
        self._detector = StallDetector(
            ProbeContext(
                name, exchange.rest(listed), gateways.open(name).fetch, self._availability
            ),
            services.clock,
            emit,
            SilenceLimits(settings.min_silence, settings.first_message_timeout),
        )

    def expect(self, symbols: Sequence[Symbol]) -> None:
        """Expect the ticks of these."""
        if self._is_on:
            self._detector.expect([TICKERS.name], symbols)

    def forget(self, symbols: Iterable[Symbol]) -> None:
        """Stop expecting the ticks of these."""
        self._detector.forget(symbols)

    def heard(self, events: Sequence[Event]) -> None:
        """Note what streams delivered."""
        self._detector.heard(events)

    async def run(self, control: StreamControl) -> None:
        """Check silent streams, for ever."""
        me = asyncio.current_task()
        assert me is not None
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._availability.run())
                    await self._detector.run(control)
            except Exception as error:
                # Whatever it is: ticks are collected without it.
                self._emit(StallDetectionFailed(exchange=self._exchange, reason=repr(error)))
                if me.cancelling():  # a group with an error raises that instead
                    raise asyncio.CancelledError from error
                await self._clock.sleep(_AGAIN_S)
