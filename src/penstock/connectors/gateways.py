"""Opens one gateway per exchange, each on the fleet's budget.

Every request of a process is charged to that budget, whether there is a connector yet or not.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.breaker import SharedBreaker, rules_of
from penstock.connectors.counters import FleetCounters
from penstock.connectors.gate import SharedGate
from penstock.connectors.limits import GateReport
from penstock.connectors.stops import StopRecorder
from penstock.exchanges import registry
from penstock.exchanges.base import ExchangeClient
from penstock.exchanges.clients import client_for, limits_for
from penstock.exchanges.facts import RequestsSigned
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, fan_out, quiet


class _Opened(NamedTuple):
    client: ExchangeClient
    gate: SharedGate
    breaker: SharedBreaker


class FleetGateways:
    """One gateway per exchange, for one process; ``aclose`` closes them all."""

    def __init__(
        self, store: StateStore, settings: Settings, clock: Clock, listener: Listener = quiet
    ) -> None:
        self._store, self._settings = store, settings
        self._clock = clock
        self.counters = FleetCounters(store, clock)
        """Counts every request; other facts to be counted have to be passed to it."""
        self._stops = StopRecorder(store, clock)
        self._listener = fan_out([self.counters, self._stops, listener])
        self._opened: dict[str, _Opened] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def open(self, exchange_id: str) -> ExchangeClient:
        """The client of an exchange. Nothing is sent yet.

        Raises:
            UnknownExchange: there is none of that name.
            ConfigError: there is an API key for it, which cannot be used.
        """
        if exchange_id not in self._opened:
            self._opened[exchange_id] = self._made(exchange_id)
        return self._opened[exchange_id].client

    async def of(self, exchange_id: str) -> ExchangeClient:
        """The client of an exchange, with its clock measured.

        Raises:
            UnknownExchange: there is none of that name.
            StorageError: the store of the budget cannot be reached.
            ExchangeError, ExchangeUnreachable, ConnectorPaused: it is not available now.
        """
        gateway = self.open(exchange_id)
        async with self._turns[exchange_id]:
            if gateway.offset is None:
                await gateway.measure_clock()
        return gateway

    async def check(self, exchange_id: str) -> None:
        """Check whether requests to an exchange are possible now. Nothing is sent.

        Raises:
            ConnectorPaused, StorageError: they are not.
        """
        self.open(exchange_id)
        await self._opened[exchange_id].gate.check()

    def reports(self) -> Mapping[str, GateReport]:
        """What this process knows of its requests, by exchange."""
        return {name: opened.gate.report() for name, opened in self._opened.items()}

    async def aclose(self) -> None:
        """Close every connection, and write to the store what is still pending."""
        for client, gate, breaker in self._opened.values():
            await client.aclose()
            await gate.aclose()
            await breaker.aclose()
        await self._stops.aclose()
        await self.counters.aclose()

    def _made(self, exchange_id: str) -> _Opened:
        exchange = registry.load(exchange_id)
        requests = self._settings.requests
        limits = limits_for(exchange, self._settings, self._clock.now_ms())
        if exchange.keyed and limits is exchange.keyed.limits:
            words = (f"{x.amount} per {x.period_ms / 1000:g} s, burst {x.most}" for x in limits)
            self._listener(RequestsSigned(exchange=exchange_id, limits=tuple(words)))
        gate = SharedGate(
            self._store,
            exchange_id,
            limits,
            self._clock,
            acquire_timeout_ms=round(requests.acquire_timeout * 1000),
            guard_ms=requests.guard_ms,
            listener=self._listener,
            depends_on_key=exchange.keyed is not None,
        )
        rules = rules_of(self._settings)
        breaker = SharedBreaker(self._store, exchange_id, self._clock, rules, self._listener)
        client = client_for(exchange, self._settings, self._clock, self._listener, gate, breaker)
        return _Opened(client, gate, breaker)
