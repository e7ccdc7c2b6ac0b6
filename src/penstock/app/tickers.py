"""Builds a ticker daemon from settings, as a process."""

import os
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from penstock.app.admin import admin_on
from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.limits import GateReport
from penstock.exchanges import registry
from penstock.runtime.process import Process
from penstock.runtime.startup import until_possible
from penstock.runtime.status import Report
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet
from penstock.tickers import TickerDaemon, TickerSymbol


@asynccontextmanager
async def open_tickers(
    settings: Settings,
    exchanges: Sequence[str] | None,
    symbols: Sequence[str],
    clock: Clock,
    listener: Listener = quiet,
    name: str | None = None,
) -> AsyncIterator[TickerDaemon]:
    """Open a ticker daemon that runs, for these exchanges or for all; stopped at the end.

    Without ``symbols`` it collects its share of those in the state store. While a store does not
    answer, the start is retried.

    Raises:
        UnknownExchange, UnknownSymbol: one of the names does not exist.
        ExchangeError, ExchangeUnreachable: symbols are given, and an exchange cannot be queried.
        ConfigError, MissingExtra, LoginRejected, NewerStore: a store cannot be opened.
    """
    for each in exchanges or ():
        registry.load(each)
    problem: list[str] = []

    def say(error: Exception) -> None:
        problem[:] = [str(error)]

    async with Process("tickers", settings, clock, listener) as process:
        process.name = f"tickers-{name or os.getpid()}"
        store = await process.open_state(say)
        given = await _found(settings, exchanges or (), symbols, store, clock) if symbols else None
        daemon = TickerDaemon(
            settings,
            exchanges=exchanges,
            symbols=given,
            name=f"{platform.node()}-{name or os.getpid()}",
            clock=clock,
            listener=listener,
            state=store,
            process_id=lambda: process.process_id,
        )
        process.gates = partial(_gates_of, daemon)
        process.running(lambda: report_of(daemon, problem))
        try:
            await until_possible(daemon.start, clock, say)
            problem.clear()
            yield daemon
        finally:
            await daemon.stop()


async def _found(
    settings: Settings,
    exchanges: Sequence[str],
    symbols: Sequence[str],
    store: StateStore,
    clock: Clock,
) -> list[TickerSymbol]:
    """The symbols of a user's input, on each of the exchanges."""
    async with admin_on(store, settings, clock) as admin:
        return [
            TickerSymbol(name, listed.find(text))
            for name in exchanges
            for listed in [await admin.listings.of(name)]
            for text in symbols
        ]


def report_of(daemon: TickerDaemon, problems: Sequence[str] = ()) -> Report:
    """What a daemon does, in short."""
    collector = daemon.collector
    if collector is None or not collector.running:
        return Report(doing="", problems=tuple(problems), state="starting")
    reasons: dict[str, int] = {}
    for reason in collector.failures.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    failed = [
        reason if count == 1 else f"{count:,} symbols: {reason}"
        for reason, count in reasons.items()
    ]
    doing = (
        f"{len(collector.symbols):,} symbols on {len(collector.exchanges):,} exchanges,"
        f" {collector.received:,} ticks"
    )
    return Report(
        doing=doing,
        problems=(*problems, *failed),
        activity=collector.received,
        exchanges=collector.activity,
        connections=collector.connections(),
    )


def _gates_of(daemon: TickerDaemon) -> Mapping[str, GateReport]:
    return daemon.collector.gates() if daemon.collector is not None else {}
