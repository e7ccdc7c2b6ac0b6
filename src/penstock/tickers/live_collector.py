"""Collects the ticks of symbols, of any number of exchanges, into the tick cache."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.connectors.limits import GateReport
from penstock.errors import PenstockError
from penstock.exchanges.base import Exchange
from penstock.live import ProcessType
from penstock.market.symbol import Symbol
from penstock.runtime.reports import ConnectionReport
from penstock.runtime.status import ExchangeActivity
from penstock.telemetry import Listener, log_facts
from penstock.tickers.credentials import CredentialProvider, access_to
from penstock.tickers.exchange_tickers import ExchangeTickers, OnTick
from penstock.tickers.facts import TicksMeasured, symbols_failed
from penstock.tickers.model import TickerSymbol, exchange_of
from penstock.tickers.services import TickerServices, open_services
from penstock.tickers.store_watch import StoreWatch

_MEASURE_S = 2.0
_SETTLE_S = 5.0
"""How long the start waits for exchanges that do not answer."""


class LiveTickerCollector:
    """Collects until it is stopped. Making one opens nothing. For one event loop."""

    def __init__(  # noqa: PLR0913 (all are optional)
        self,
        symbols: Sequence[TickerSymbol] | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        listener: Listener = log_facts,
        credentials: CredentialProvider | None = None,
        on_tick: OnTick | None = None,
        services: TickerServices | None = None,
    ) -> None:
        """Without ``symbols``, ``start_collection`` collects those of the state store.

        With open ``services`` these are used, and not closed.
        """
        self._given = symbols
        self._settings, self._clock = settings or Settings(), clock or SystemClock()
        self._listener, self._credentials, self._on_tick = listener, credentials, on_tick
        self._services = self._shared = services
        self._stack = AsyncExitStack()
        self._exchanges: dict[str, ExchangeTickers] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._skipped: set[str] = set()
        self._turn = asyncio.Lock()
        self.running = False

    @property
    def symbols(self) -> list[TickerSymbol]:
        """All that are to be collected."""
        return [
            TickerSymbol(name, symbol)
            for name, each in self._exchanges.items()
            for symbol in each.wanted
        ]

    @property
    def exchanges(self) -> list[str]:
        """The exchanges with a symbol that is subscribed, by name."""
        return sorted(name for name, each in self._exchanges.items() if each.collecting)

    @property
    def failures(self) -> dict[TickerSymbol, str]:
        """Those that cannot be collected now, and why; they are retried."""
        return {
            TickerSymbol(name, symbol): str(error)
            for name, each in self._exchanges.items()
            for symbol, error in each.failures.items()
        }

    @property
    def received(self) -> int:
        """How many ticks were received."""
        return sum(each.received for each in self._exchanges.values())

    @property
    def activity(self) -> tuple[ExchangeActivity, ...]:
        """What was received of each exchange."""
        return tuple(each.activity() for _, each in sorted(self._exchanges.items()))

    def connections(self) -> list[ConnectionReport]:
        """Its connections, of all exchanges."""
        return [found for each in self._exchanges.values() for found in each.connections()]

    def gates(self) -> Mapping[str, GateReport]:
        """What is known of its requests, by exchange."""
        return self._services.gateways.reports() if self._services is not None else {}

    async def start_collection(self) -> None:
        """Start to collect all symbols, and wait until each was attempted, for a few seconds.

        A symbol that fails, or takes longer, is retried, and does not affect others.

        Raises:
            BadSymbol, UnknownExchange: one of the given symbols is invalid. Nothing was started.
            ConfigError, MissingExtra, StorageError: a store cannot be opened.
        """
        for symbol in self._given or ():
            exchange_of(symbol)
        async with self._turn:
            services = await self._open()
            given = self._given
            self.add(await services.symbols.get_all() if given is None else given)
        settling = [asyncio.create_task(each.settled()) for each in self._exchanges.values()]
        if settling:
            try:
                await asyncio.wait(settling, timeout=_SETTLE_S)
            finally:
                for task in settling:
                    task.cancel()

    async def start_symbol(self, symbol: TickerSymbol) -> None:
        """Start to collect one symbol, and wait until it is subscribed; others are not affected.

        Raises:
            BadSymbol, UnknownExchange: it is invalid. Nothing was started.
            UnknownSymbol, UnknownChannel: the exchange does not have it.
            ConnectorPaused, ExchangeError, ExchangeUnreachable: it is not available now.
            ConfigError, MissingExtra, StorageError: a store cannot be used.
        """
        exchange = exchange_of(symbol)
        async with self._turn:
            await self._open()
            tickers = self._tickers_of(exchange)
            tickers.want([symbol.symbol])
        await tickers.settled()
        error = tickers.refuse(symbol.symbol)
        if error is not None:
            raise error

    def is_collecting(self, symbol: TickerSymbol) -> bool:
        """Whether a symbol is subscribed."""
        tickers = self._exchanges.get(symbol.exchange)
        return tickers is not None and symbol.symbol in tickers.collecting

    def add(self, symbols: Iterable[TickerSymbol]) -> None:
        """Collect these too, soon. Those of an unknown exchange are logged and skipped."""
        by_exchange: dict[str, list[Symbol]] = {}
        for each in symbols:
            by_exchange.setdefault(each.exchange, []).append(each.symbol)
        for name, some in by_exchange.items():
            try:
                exchange = exchange_of(TickerSymbol(name, some[0]))
            except PenstockError as error:
                self._skip(name, some, error)
            else:
                self._tickers_of(exchange).want(some)

    def remove(self, symbols: Iterable[TickerSymbol]) -> None:
        """Collect these no longer, soon."""
        for each in symbols:
            if each.exchange in self._exchanges:
                self._exchanges[each.exchange].drop([each.symbol])

    async def reclaim_entries(self) -> None:
        """Register symbols again whose entry another daemon took over and then ended.

        Raises:
            StorageError: the store does not answer.
        """
        if self._services is not None:
            processes = await self._services.processes.get_processes(ProcessType.TICK)
            found = {each.component: each for each in processes}
            for tickers in self._exchanges.values():
                tickers.entries.reclaim(found)

    async def stop_collection(self) -> None:
        """Close all connections, and show all symbols as stopped. Does nothing twice."""
        async with self._turn:
            self.running = False
            tasks, self._tasks, self._exchanges = list(self._tasks.values()), {}, {}
            tasks += self._background
            self._background = []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._services = self._shared
            await self._stack.aclose()

    async def _open(self) -> TickerServices:
        if self._services is None:
            opening = open_services(self._settings, self._clock, self._listener)
            self._services = await self._stack.enter_async_context(opening)
        services = self._services
        if not self._background:
            watch = StoreWatch(services.live, services.clock, self._listener, self._write_again)
            running = (watch.run(), self._measure(services))
            self._background = [asyncio.create_task(each) for each in running]
        self.running = True
        return services

    async def _measure(self, services: TickerServices) -> None:
        """Report what became of ticks, for ever."""
        while True:
            counts = services.writer.counts
            self._listener(
                TicksMeasured(
                    store=services.live.where,
                    exchanges={name: each.measured() for name, each in self._exchanges.items()},
                    written=counts.written,
                    superseded=counts.superseded,
                    expired=counts.expired,
                    dropped=counts.dropped,
                    failures=counts.failures,
                    waiting=services.writer.waiting,
                )
            )
            await services.clock.sleep(_MEASURE_S)

    def _write_again(self) -> None:
        for tickers in self._exchanges.values():
            tickers.write_again()

    def _tickers_of(self, exchange: Exchange) -> ExchangeTickers:
        name = exchange.name
        if name not in self._exchanges:
            assert self._services is not None, "it is open"
            access = access_to(exchange, self._credentials, self._listener)
            tickers = ExchangeTickers(exchange, self._services, access, self._on_tick)
            self._exchanges[name] = tickers
            self._tasks[name] = asyncio.create_task(tickers.run())
        return self._exchanges[name]

    def _skip(self, exchange: str, symbols: Sequence[Symbol], error: PenstockError) -> None:
        if exchange not in self._skipped:
            self._skipped.add(exchange)
            self._listener(symbols_failed(exchange, symbols, str(error)))
