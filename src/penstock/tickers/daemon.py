"""The ticker daemon: collects the ticks of its share of the symbols until it is stopped.

    stopped ── start, process_ticker ──→ running ── stop ──→ stopped
                                            │ start fails
                                            └──→ error ── start, process_ticker ──→ running
                                                       └── stop ──→ stopped

There is one state. ``running`` begins when ``start`` is called. One operation runs at a time, and
others wait for it, except ``stop``, which ends it.
"""

import asyncio
import os
import platform
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from random import getrandbits
from typing import Any, Literal

from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.exchanges import registry
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, log_facts
from penstock.tickers.assignment import Assignment
from penstock.tickers.credentials import CredentialProvider
from penstock.tickers.daemon_entry import DaemonEntry
from penstock.tickers.exchange_tickers import OnTick
from penstock.tickers.facts import DaemonFailed, DaemonStarted, DaemonStopped
from penstock.tickers.live_collector import LiveTickerCollector
from penstock.tickers.model import TickerSymbol, exchange_of
from penstock.tickers.partition import Member
from penstock.tickers.services import TickerServices, open_services

State = Literal["stopped", "running", "error"]


class TickerDaemon:
    """Collects the symbols of the state store, shared with all other daemons of the stores.

    Making one opens nothing. For one event loop.
    """

    def __init__(  # noqa: PLR0913 (all are optional)
        self,
        settings: Settings | None = None,
        *,
        exchanges: Sequence[str] | None = None,
        symbols: Sequence[TickerSymbol] | None = None,
        name: str = "",
        clock: Clock | None = None,
        listener: Listener = log_facts,
        credentials: CredentialProvider | None = None,
        on_tick: OnTick | None = None,
        state: StateStore | None = None,
        process_id: Callable[[], str | None] | None = None,
    ) -> None:
        """``exchanges`` limits it to these. With ``symbols`` it collects these, and shares none.

        ``process_id`` returns the id of the entry that its process has in the process cache;
        without it the daemon registers itself.
        """
        self.name = name or f"{platform.node()}-{os.getpid()}"
        self._settings, self._clock = settings or Settings(), clock or SystemClock()
        self._exchanges = None if exchanges is None else tuple(exchanges)
        self._given = symbols
        self._listener, self._credentials, self._on_tick = listener, credentials, on_tick
        self._store, self._process_id = state, process_id
        self._state: State = "stopped"
        self._collector: LiveTickerCollector | None = None
        self._entry: DaemonEntry | None = None
        self._stack = AsyncExitStack()
        self._pinned: set[TickerSymbol] = set()
        """Those of ``process_ticker``: they are collected whatever the others do."""
        self._turn = asyncio.Lock()
        self._operation: asyncio.Task[None] | None = None
        self._stops = 0

    @property
    def collector(self) -> LiveTickerCollector | None:
        """Its collector; None unless it runs."""
        return self._collector

    async def start(self) -> None:
        """Collect this daemon's share of all symbols. Does nothing while it runs.

        If it is stopped meanwhile, it returns, and the daemon is stopped.

        Raises:
            BadSymbol, UnknownExchange: a given name is invalid. Nothing was opened.
            ConfigError, MissingExtra, StorageError: a store cannot be opened. The state is error.
        """
        for name in self._exchanges or ():
            registry.load(name)
        for symbol in self._given or ():
            exchange_of(symbol)
        await self._run(self._start())

    async def process_ticker(self, symbol: TickerSymbol) -> None:
        """Collect one more symbol; if the daemon does not run, it is started for this symbol only.

        A symbol that is collected already is left alone. If it fails, the daemon and all other
        symbols go on.

        Raises:
            BadSymbol, UnknownExchange: it is invalid. Nothing was changed.
            UnknownSymbol, UnknownChannel: the exchange does not have it.
            ConnectorPaused, ExchangeError, ExchangeUnreachable: it is not available now.
            ConfigError, MissingExtra, StorageError: a store cannot be opened. The state is error.
        """
        exchange_of(symbol)
        await self._run(self._process(symbol))

    async def stop(self) -> None:
        """Unsubscribe from everything, close all connections, and unregister. Always.

        An operation in progress is ended. Does nothing if it is stopped.
        """
        self._stops += 1
        if self._operation is not None:
            self._operation.cancel()
        async with self._turn:
            was_running = self._state == "running"
            try:
                await self._close()
            finally:
                self._state = "stopped"
        if was_running:
            self._listener(DaemonStopped(daemon=self.name))

    async def get_health(self) -> dict[str, Any]:
        """How it is."""
        collector = self._collector
        return {
            "status": self._state,
            "running": self._state == "running",
            "process_id": self._entry_id(),
            "collector": "active" if collector is not None and collector.running else "inactive",
            "exchanges": collector.exchanges if collector is not None else [],
            "symbol_count": len(collector.symbols) if collector is not None else 0,
        }

    async def _run(self, operation: Coroutine[Any, Any, None]) -> None:
        """Run an operation after those before it, unless ``stop`` is called meanwhile."""
        stops, caller = self._stops, asyncio.current_task()
        assert caller is not None
        try:
            async with self._turn:
                if self._stops != stops:
                    return
                task = self._operation = asyncio.ensure_future(operation)
                try:
                    await task
                except asyncio.CancelledError:
                    if self._stops == stops or caller.cancelling():  # not by ``stop`` alone
                        raise
                finally:
                    self._operation = None
        finally:
            operation.close()

    async def _start(self) -> None:
        if self._state == "running":
            return
        try:
            services, collector = await self._open()
            if self._given is not None:
                collector.add(self._given)
            else:
                # The name alone might be that of another daemon, by mistake.
                own = Member(f"{self.name}/{getrandbits(32):08x}", self._exchanges)
                assignment = Assignment(own, services, collector, self._pinned)
                await self._stack.enter_async_context(assignment.kept())
            await collector.start_collection()
        except BaseException as error:
            await self._failed(error)
            raise
        self._listener(DaemonStarted(daemon=self.name, symbols=len(collector.symbols)))

    async def _process(self, symbol: TickerSymbol) -> None:
        if self._collector is None:
            try:
                _, collector = await self._open()
            except BaseException as error:
                await self._failed(error)
                raise
        else:
            collector = self._collector
        if collector.is_collecting(symbol):
            return
        self._pinned.add(symbol)
        try:
            await collector.start_symbol(symbol)
        except BaseException:
            self._pinned.discard(symbol)
            raise

    async def _open(self) -> tuple[TickerServices, LiveTickerCollector]:
        """Open the stores, register this daemon, and make its collector."""
        self._state = "running"
        opening = open_services(self._settings, self._clock, self._listener, self._store)
        services = await self._stack.enter_async_context(opening)
        if self._process_id is None:
            entry = DaemonEntry(services.processes, self.name, self._clock, self._doing)
            self._entry = entry
            exchanges = "all" if self._exchanges is None else list(self._exchanges)
            await self._stack.enter_async_context(entry.registered({"exchanges": exchanges}))
        collector = self._collector = LiveTickerCollector(
            (),
            listener=self._listener,
            credentials=self._credentials,
            on_tick=self._on_tick,
            services=services,
        )
        self._stack.push_async_callback(collector.stop_collection)
        return services, collector

    def _entry_id(self) -> str | None:
        if self._process_id is not None:
            return self._process_id() if self._state == "running" else None
        return self._entry.process_id if self._entry is not None else None

    def _doing(self) -> str:
        collector = self._collector
        if collector is None:
            return "Starting"
        return f"{len(collector.symbols):,} symbols on {len(collector.exchanges):,} exchanges"

    async def _failed(self, error: BaseException) -> None:
        """Close everything after a failed start, or one whose caller was cancelled."""
        try:
            await self._close()
        finally:
            self._state = "error" if isinstance(error, Exception) else "stopped"
        if isinstance(error, Exception):
            self._listener(DaemonFailed(daemon=self.name, reason=str(error)))

    async def _close(self) -> None:
        """Close everything that is open, in reverse order; an error ends none of the others."""
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            # Shielded: whoever is cancelled while it closes must not leave connections open.
            await asyncio.shield(asyncio.ensure_future(stack.aclose()))
        finally:
            self._collector = self._entry = None
            self._pinned.clear()
