"""``BinanceSpotThrottler`` has every public request of Binance spot, charged before it is sent.

A call waits for one of the connections, then for capacity in every limit, and is sent at once: a
granted request that waited in a queue would be sent in a window it was not charged to. The
response's headers have the exchange's count and its time; both are applied. When the exchange
orders a stop, nothing is sent until the stop ends. Requests are not retried.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from math import ceil
from typing import Any, Unpack

from penstock.clock import Clock, SystemClock
from penstock.errors import UnknownMethod
from penstock.exchanges.base import valid_at
from penstock.exchanges.binance import limits as known
from penstock.throttle import BaseThrottler, FixedWindow, Pipeline
from penstock.throttle.events import LOG
from penstock.throttle.gate import Gate, GateGrant, Limit
from penstock.throttle.offset import Offset, narrowed, seen, step_ms
from penstock.throttled.binance import costs
from penstock.throttled.binance.client import GrantExpired, RequestTrace, ThreadedClient, connect
from penstock.throttled.foreign_usage import ForeignUsage
from penstock.throttled.semaphore import Deadline, PrioritySemaphore, WaitOptions
from penstock.throttled.shared import SharedBudget

# Statuses that order a stop. 403 is a firewall's, which gives no end.
_STOPS = (403, 418, 429)
_UNNAMED_STOP_MS = 60_000
LONGEST_STOP_MS = 3 * 86_400_000
"""The longest stop that is obeyed, whatever the response requests."""
_GUARD_MS = 250
# An event loop that does not respond within this time is no longer running.
_LOOP_S = 5.0


class BinanceSpotThrottler(BaseThrottler):
    """Binance spot through binance-connector, within its limits.

    Each method has the parameters, result and exceptions of the connector's method of that name.
    Each also takes ``priority`` and ``timeout`` (see ``WaitOptions``), and raises ``WaitTimedOut``
    if it could not be sent in time.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        base_url: str | None = None,
        connections: int = 64,
        limits: Sequence[Limit] | None = None,
        gate: Gate | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``client`` is a ``binance.spot.Spot`` of your own; it stays usable, unthrottled.

        ``limits`` replaces the limits known for today. ``gate`` is a budget that is shared with
        other processes; it has its own limits, and calls are charged to it alone.

        Raises:
            MissingExtra: binance-connector is not installed.
        """
        clock = clock or SystemClock()
        limits = valid_at(known.LIMITS_FROM, clock.now_ms()) if limits is None else limits
        self._windows = [
            FixedWindow(each.amount, each.period_ms / 1000, clock, guard_ms=_GUARD_MS, answers=True)
            for each in limits
        ]
        pairs = zip(limits, self._windows, strict=True)
        super().__init__([Pipeline(_timeframe(each), w, unit=each.unit) for each, w in pairs])
        self._clock = clock
        self._offset: Offset | None = None
        weights = [each for each in limits if each.unit == "weight"]
        self._timeframes = {each.period_ms: _timeframe(each) for each in weights}
        self._foreign = {_timeframe(each): ForeignUsage(each.period_ms) for each in weights}
        self._shared = SharedBudget(gate, clock) if gate is not None else None
        self._semaphore = PrioritySemaphore(connections, clock)
        self._threaded_client = ThreadedClient(client or connect(base_url), connections, clock)

    async def call(self, method: str, cost: int, *arguments: Any, **options: Any) -> Any:
        """Call any other method of the connector, at the given cost.

        ``cost`` is the weight in the exchange's documentation. Limits on orders and on accounts are
        not enforced here.

        Raises:
            UnknownMethod: the connector has no method of that name. Nothing was spent.
        """
        known = self._threaded_client.methods()
        if method not in known:
            raise UnknownMethod("binance-connector", method, known)
        return await self._ask(cost, method, *arguments, **options)

    async def ping(self, **waiting: Unpack[WaitOptions]) -> Any:
        """GET /api/v3/ping"""
        return await self._ask(costs.PING, "ping", **waiting)

    async def get_time(self, **waiting: Unpack[WaitOptions]) -> Any:
        """GET /api/v3/time"""
        return await self._ask(known.TIME_COST, "time", **waiting)

    async def get_exchange_info(self, **options: Any) -> Any:
        """GET /api/v3/exchangeInfo, of a ``symbol``, of ``symbols``, by ``permissions``, or all."""
        return await self._ask(known.INFO_COST, "exchange_info", **options)

    async def get_depth(self, symbol: str, **options: Any) -> Any:
        """GET /api/v3/depth; a deeper book (``limit``) costs more."""
        return await self._ask(costs.depth(options.get("limit")), "depth", symbol, **options)

    async def get_trades(self, symbol: str, **options: Any) -> Any:
        """GET /api/v3/trades"""
        return await self._ask(known.TRADES_COST, "trades", symbol, **options)

    async def get_historical_trades(self, symbol: str, **options: Any) -> Any:
        """GET /api/v3/historicalTrades"""
        return await self._ask(known.TRADES_COST, "historical_trades", symbol, **options)

    async def get_agg_trades(self, symbol: str, **options: Any) -> Any:
        """GET /api/v3/aggTrades"""
        return await self._ask(costs.AGG_TRADES, "agg_trades", symbol, **options)

    async def get_kline(self, symbol: str, interval: str, **options: Any) -> Any:
        """GET /api/v3/klines"""
        return await self._ask(known.CANDLES_COST, "klines", symbol, interval, **options)

    async def get_ui_kline(self, symbol: str, interval: str, **options: Any) -> Any:
        """GET /api/v3/uiKlines"""
        return await self._ask(known.CANDLES_COST, "ui_klines", symbol, interval, **options)

    async def get_avg_price(self, symbol: str, **waiting: Unpack[WaitOptions]) -> Any:
        """GET /api/v3/avgPrice"""
        return await self._ask(costs.AVG_PRICE, "avg_price", symbol, **waiting)

    async def get_ticker_24hr(
        self, symbol: str | None = None, symbols: list[str] | None = None, **options: Any
    ) -> Any:
        """GET /api/v3/ticker/24hr, of one market, of some, or of all."""
        cost = costs.day(symbol, symbols)
        return await self._ask(cost, "ticker_24hr", symbol, symbols, **options)

    async def get_trading_day_ticker(
        self, symbol: str | None = None, symbols: list[str] | None = None, **options: Any
    ) -> Any:
        """GET /api/v3/ticker/tradingDay"""
        cost = costs.windows(symbol, symbols)
        return await self._ask(cost, "trading_day_ticker", symbol, symbols, **options)

    async def get_ticker_price(
        self,
        symbol: str | None = None,
        symbols: list[str] | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /api/v3/ticker/price"""
        return await self._ask(costs.last(symbol), "ticker_price", symbol, symbols, **waiting)

    async def get_book_ticker(
        self,
        symbol: str | None = None,
        symbols: list[str] | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /api/v3/ticker/bookTicker"""
        return await self._ask(costs.last(symbol), "book_ticker", symbol, symbols, **waiting)

    async def get_rolling_window_ticker(
        self, symbol: str | None = None, symbols: list[str] | None = None, **options: Any
    ) -> Any:
        """GET /api/v3/ticker"""
        cost = costs.windows(symbol, symbols)
        return await self._ask(cost, "rolling_window_ticker", symbol, symbols, **options)

    async def aclose(self) -> None:
        """Close every connection."""
        self._threaded_client.close()

    def block_until(self, at_ms: int) -> None:
        """Grant nothing before this time (ms since the epoch): the exchange ordered a stop."""
        super().block_until(at_ms)
        if self._shared is not None:
            self._shared.gate.block_until(at_ms)

    async def _ask(
        self,
        cost: int,
        method: str,
        *arguments: object,
        priority: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - on this clock, not the loop's
        **options: object,
    ) -> Any:
        deadline = Deadline(self._clock, timeout)
        while True:
            await self._semaphore.acquire(priority, deadline)
            try:
                grant = await self._paid(cost, priority, deadline)
            except BaseException:
                self._semaphore.release()
                raise
            at_ms = self._exchange_ms(self._clock.now_ms())
            for foreign in self._foreign.values():
                foreign.sent(cost, at_ms)
            trace = RequestTrace(self._asked_by_threads(grant))
            call = self._threaded_client.call(trace, method, arguments, options)
            call.add_done_callback(partial(self._settle, grant, trace, cost, at_ms))
            try:
                # Cancellation does not stop the thread: its call completes, and is settled then.
                return await asyncio.shield(call)
            except GrantExpired:
                continue

    async def _paid(self, cost: int, priority: int, deadline: Deadline) -> GateGrant:
        if self._shared is not None:
            return await self._shared.acquire(cost, "", priority, deadline)
        return await self.acquire(cost, None, priority, deadline.left_s)

    def _asked_by_threads(self, grant: GateGrant) -> Callable[[], bool]:
        """A function for other threads that returns whether a request may still be sent."""
        if self._shared is None:
            return grant.good
        loop = asyncio.get_running_loop()

        def good() -> bool:
            # A gate is not thread-safe, so the check runs in the event loop.
            answer: Future[bool] = Future()
            loop.call_soon_threadsafe(lambda: answer.set_result(grant.good()))
            try:
                return answer.result(_LOOP_S)
            except TimeoutError:
                return False

        return good

    def _settle(
        self,
        grant: GateGrant,
        trace: RequestTrace,
        cost: int,
        at_ms: int,
        call: "asyncio.Future[Any]",
    ) -> None:
        self._semaphore.release()
        if not trace.left:
            grant.refund()
            for foreign in self._foreign.values():
                foreign.unsent(cost, at_ms)
        error = None if call.cancelled() else call.exception()
        if not trace.status:
            return
        grant.answered()
        self._sync_clock(trace)
        self._sync_usage(trace)
        if trace.status in _STOPS:
            self._stop(trace, str(getattr(error, "error_message", "")))

    def _sync_usage(self, trace: RequestTrace) -> None:
        headers = {name.lower(): value for name, value in trace.headers.items()}
        for usage in known.usages(headers):
            if self._shared is not None:
                self._shared.gate.observe("", usage.used, usage.window_ms, trace.sent_ms)
                continue
            timeframe = self._timeframes.get(usage.window_ms)
            if timeframe is not None:
                sent_ms = self._exchange_ms(trace.sent_ms)
                planned = self._foreign[timeframe].plan(usage.used, sent_ms)
                self.observe(None, planned, timeframe, trace.sent_ms)

    def _sync_clock(self, trace: RequestTrace) -> None:
        shown_ms = _date_ms(trace.headers)
        if shown_ms is None:
            return
        new = seen(shown_ms, 1000, trace.sent_ms, trace.received_ms + 1)
        before, self._offset = self._offset, narrowed(self._offset, new)
        if by_ms := step_ms(before, self._offset):
            LOG.warning("the exchange's clock was set by %d ms: windows turn by it", by_ms)
        for window in self._windows:
            window.align(self._offset.middle_ms, self._offset.error_ms)
        if self._shared is not None:
            self._shared.gate.align(self._offset.middle_ms, self._offset.error_ms)

    def _stop(self, trace: RequestTrace, words: str) -> None:
        until_ms = 0
        retry_after = trace.headers.get("Retry-After", "")
        if retry_after.isascii() and retry_after.isdecimal():
            until_ms = trace.received_ms + int(retry_after[:9]) * 1000
        named_ms = known.ban_end_ms(words)
        if named_ms is not None:
            ahead_ms = self._offset.low_ms if self._offset else 0
            until_ms = max(until_ms, ceil(named_ms - ahead_ms))
        until_ms = until_ms or trace.received_ms + _UNNAMED_STOP_MS
        self.block_until(min(until_ms, trace.received_ms + LONGEST_STOP_MS))

    def _exchange_ms(self, at_ms: int) -> int:
        return at_ms + round(self._offset.middle_ms if self._offset else 0)


def _timeframe(limit: Limit) -> str:
    """A limit's name in events and statistics: ``REQUEST_WEIGHT 1m``, as the exchange calls it."""
    kind = "REQUEST_WEIGHT" if limit.unit == "weight" else "RAW_REQUESTS"
    seconds = limit.period_ms / 1000
    return f"{kind} {seconds / 60:g}m" if seconds % 60 == 0 else f"{kind} {seconds:g}s"


def _date_ms(headers: Mapping[str, str]) -> int | None:
    try:
        shown = parsedate_to_datetime(headers["Date"])
        # Dates in HTTP are UTC, also without a time zone.
        return int(shown.replace(tzinfo=shown.tzinfo or UTC).timestamp()) * 1000
    except (KeyError, ValueError, OverflowError):
        return None
