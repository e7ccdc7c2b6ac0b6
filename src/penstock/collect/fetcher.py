"""Fetches one exchange's data by REST, in loops, until it is stopped.

Every loop has the same steps: derive the next request from what is stored; wait for the operator's
limit and the shared budget; send it; record and broadcast; wait for the rest of the interval. A
failed run is retried with growing delays, and affects no other loop.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import FetchDone, FetchFailed
from penstock.collect.fetch_schedule import SECOND_NS, FetchSchedule, FetchTiming, Spacing
from penstock.collect.fetches import (
    BookFetch,
    Fetch,
    FetchContext,
    Fetched,
    InfoFetch,
    TickersFetch,
    TradesFetch,
    kinds_to_fetch,
)
from penstock.collect.listings import Listings
from penstock.collect.reporter import Reporter, reporting_the_end
from penstock.collect.status import FetchStatus
from penstock.collect.tasks import first_of, raise_first
from penstock.config import Fetch as FetchSettings
from penstock.connectors.markets import Markets
from penstock.errors import UNAVAILABLE, LogDamaged
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener

_STATUS_S = 1.0


class OperatorLimit:
    """The operator's limit on the requests of this process, evenly spaced."""

    def __init__(self, settings: FetchSettings, clock: Clock) -> None:
        self._spacing = Spacing(settings.max_requests, settings.window)
        self._clock = clock

    async def __call__(self) -> None:
        """Wait until the next request may be sent."""
        now_ns = self._clock.monotonic_ns()
        await self._clock.sleep((self._spacing.take(now_ns) - now_ns) / SECOND_NS)


class FetchLoop:
    """Repeats one fetch, for ever."""

    def __init__(self, exchange: str, fetch: Fetch, timing: FetchTiming, clock: Clock) -> None:
        self._exchange, self._fetch, self._clock = exchange, fetch, clock
        self._schedule = FetchSchedule(timing)
        self._fetches = self._records = self._errors = 0
        self._last_ms: int | None = None
        self._next_ns = clock.now_ns()
        self._reason = ""

    async def run(self, emit: Listener, availability: RestAvailability) -> None:
        """Fetch whenever it is due, except while requests are suspended."""
        while True:
            await self._clock.sleep(max(0, self._next_ns - self._clock.now_ns()) / SECOND_NS)
            await availability.resumed()
            began_ns = self._clock.now_ns()
            try:
                fetched = await self._fetch.step()
            except LogDamaged:
                raise  # nothing can be recorded before the slot is repaired
            except UNAVAILABLE as error:
                self._failed(error, emit, is_reported=availability.failed(error))
            else:
                self._succeeded(began_ns, fetched, emit)

    def status(self) -> FetchStatus:
        """The status of this loop."""
        return FetchStatus(
            what=self._fetch.what,
            symbol=self._fetch.symbol,
            fetches=self._fetches,
            records=self._records,
            errors=self._errors,
            errors_in_a_row=self._schedule.failures,
            last_ms=self._last_ms,
            next_ms=self._next_ns // 1_000_000,
            reason=self._reason,
        )

    def _succeeded(self, began_ns: int, fetched: Fetched, emit: Listener) -> None:
        now_ns = self._clock.now_ns()
        self._fetches += 1
        self._records += fetched.records
        self._last_ms, self._reason = now_ns // 1_000_000, ""
        self._next_ns = self._schedule.succeeded(began_ns, now_ns, more=fetched.more)
        emit(
            FetchDone(
                exchange=self._exchange,
                what=self._fetch.what,
                symbol=self._fetch.symbol,
                records=fetched.records,
                at_ms=self._last_ms,
            )
        )

    def _failed(self, error: Exception, emit: Listener, *, is_reported: bool) -> None:
        self._errors += 1
        self._reason = str(error)
        self._next_ns = self._schedule.failed(self._clock.now_ns())
        if is_reported:
            return
        emit(
            FetchFailed(
                exchange=self._exchange,
                what=self._fetch.what,
                symbol=self._fetch.symbol,
                reason=self._reason,
                delay_s=self._schedule.delay_s(),
            )
        )


@dataclass(frozen=True)
class FetcherServices:
    """What a fetcher's loops share."""

    reporter: Reporter
    availability: RestAvailability
    listings: Listings
    stop_timeout_s: float = 300.0
    """How long fetched records may wait for a full disk after a stop."""


@dataclass
class Fetcher:
    """Fetches from one exchange until it is stopped."""

    loops: Sequence[FetchLoop]
    context: FetchContext
    services: FetcherServices

    @property
    def reporter(self) -> Reporter:
        """The writer of the status."""
        return self.services.reporter

    async def run(self, stop: asyncio.Event) -> None:
        """Run every loop until ``stop`` is set.

        Raises:
            StorageError: it was stopped while fetched records could not be written.
        """
        self.reporter.watch_recording(self.context.recorder)
        self.reporter.write("starting")
        with reporting_the_end(self.reporter):
            await self._run(stop)
            self.reporter.write("stopped")

    async def _run(self, stop: asyncio.Event) -> None:
        recorder, services = self.context.recorder, self.services
        stopping = asyncio.create_task(stop.wait())
        background = (self._report_forever(), services.availability.run(), services.listings.run())
        loops = (loop.run(self.context.emit, services.availability) for loop in self.loops)
        tasks = [asyncio.create_task(each) for each in (*loops, *background)]
        try:
            await first_of(stopping, *tasks)
            raise_first(tasks)  # they end only with an error
        except BaseException:
            recorder.give_up()
            raise
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            # Write what was fetched and could not be written yet.
            give_up = asyncio.get_running_loop().call_later(
                services.stop_timeout_s, recorder.give_up
            )
            try:
                await recorder.settle()
            finally:
                give_up.cancel()

    async def _report_forever(self) -> None:
        while True:
            await self.reporter.report()
            await self.context.clock.sleep(_STATUS_S)


def build_fetcher(
    context: FetchContext,
    markets: Markets,
    symbols: Sequence[Symbol],
    settings: FetchSettings,
    services: FetcherServices,
) -> Fetcher:
    """A fetcher with a loop for each kind of data, and for each symbol where it is of a market.

    Raises:
        ConfigError: a kind needs a market, and none is named.
    """
    info = InfoFetch(context, markets, services.listings)
    loops = _plan_loops(context, info, symbols, settings)
    services.reporter.watch_fetches(lambda: [loop.status() for loop in loops], context.gateway)
    return Fetcher(loops, context, services)


def _plan_loops(
    context: FetchContext, info: InfoFetch, symbols: Sequence[Symbol], settings: FetchSettings
) -> list[FetchLoop]:
    fetches: list[Fetch] = []
    for kind in kinds_to_fetch(settings, symbols):
        match kind:
            case "info":
                fetches.append(info)
            case "tickers":
                fetches.append(TickersFetch(context, symbols))
            case "trades":
                fetches += [TradesFetch(context, symbol, settings.every) for symbol in symbols]
            case "book":
                fetches += [BookFetch(context, symbol, settings.book_depth) for symbol in symbols]
    return [
        FetchLoop(context.exchange.name, each, _timing(each, settings), context.clock)
        for each in fetches
    ]


def _timing(fetch: Fetch, settings: FetchSettings) -> FetchTiming:
    every_s = settings.info_every if fetch.what == "info" else settings.every
    return FetchTiming(every_s, settings.first_delay, settings.longest_delay)
