"""``UpbitSpotThrottler`` has every public request of Upbit, each in the group that counts it.

Groups are independent: a full one delays no other, and a rejection in one stops only that one.
It is not documented when Upbit's seconds begin and end, so in no second, wherever it begins, does
more than the limit arrive. A request arrives at some time between its sending and its response; it
is counted from its response on, so that its second has ended there before it ends here. Every
response has the number of requests that remain in its group.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

import msgspec
from msgspec import Struct

from penstock.clock import Clock, SystemClock
from penstock.errors import BadRequest, Banned, ExchangeError, RateLimited
from penstock.exchanges.base import valid_at
from penstock.exchanges.upbit.limits import remaining
from penstock.throttle import BaseThrottler, Pipeline, SlidingWindow
from penstock.throttle.gate import Gate
from penstock.throttle.gate import GateGrant as Paid
from penstock.throttled.semaphore import Deadline, WaitOptions
from penstock.throttled.shared import SharedBudget
from penstock.throttled.upbit.client import ADDRESS, Answer, Client, UpbitClient
from penstock.throttled.upbit.limits import ALIASES, LIMITS_FROM

_TOO_FAST, _SHUT_OUT = 429, 418
# The length of a ban is only in the response's text; each further ban is longer.
_FIRST_BAN_MS, _LONGEST_BAN_MS = 60_000, 3_600_000
LONGEST_STOP_MS = 3 * 86_400_000
"""The longest stop that is obeyed, whatever the response requests."""


class _GrantExpired(Exception):
    """Connecting took so long that the charge has expired. Nothing was sent."""


Value: TypeAlias = str | int | Sequence[str] | None


class UpbitSpotThrottler(BaseThrottler):
    """Upbit's public API, within its limits.

    Each method returns the response unchanged, with fractions as Decimal. Each takes ``priority``
    and ``timeout`` (see ``WaitOptions``), and raises ``WaitTimedOut`` if it could not be sent in
    time. The limits of private groups can be used too, for orders that are sent by other means:
    ``await it.acquire(category="order")``.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        base_url: str = ADDRESS,
        gate: Gate | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``gate`` is a budget shared with other processes; calls are charged to it alone.

        It has its own limits, in categories named like the groups.
        """
        clock = clock or SystemClock()
        self._limits = valid_at(LIMITS_FROM, clock.now_ms())
        groups = {
            group: Pipeline(
                group,
                SlidingWindow(amount, period_s, clock),
                # A second is too short for pacing: the rest is used on demand.
                max_soft_delay=0,
            )
            for group, (amount, period_s) in self._limits.items()
        }
        categories: dict[str | None, list[Pipeline]] = {name: [groups[name]] for name in groups}
        for alias, meant in ALIASES.items():
            categories[alias] = [groups[group] for group in meant]
        super().__init__(categories)
        self._clock = clock
        self._client = client or UpbitClient(base_url)
        self._shared = SharedBudget(gate, clock) if gate is not None else None
        self._bans = 0

    async def get_markets(self, *, is_details: bool = False, **waiting: Unpack[WaitOptions]) -> Any:
        """GET /v1/market/all"""
        return await self._ask(waiting, "market", "/market/all", is_details=is_details or None)

    async def get_candles_seconds(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/seconds, newest first; so are all candles. ``to`` is not included."""
        return await self._ask(
            waiting, "candle", "/candles/seconds", market=market, to=to, count=count
        )

    async def get_candles_minutes(
        self,
        market: str,
        unit: int = 1,
        *,
        to: str | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/minutes/{unit}, of 1, 3, 5, 10, 15, 30, 60 or 240 minutes."""
        path = f"/candles/minutes/{unit:d}"
        return await self._ask(waiting, "candle", path, market=market, to=to, count=count)

    async def get_candles_days(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        converting_price_unit: str | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/days"""
        return await self._ask(
            waiting,
            "candle",
            "/candles/days",
            market=market,
            to=to,
            count=count,
            converting_price_unit=converting_price_unit,
        )

    async def get_candles_weeks(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/weeks"""
        return await self._ask(
            waiting, "candle", "/candles/weeks", market=market, to=to, count=count
        )

    async def get_candles_months(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/months"""
        return await self._ask(
            waiting, "candle", "/candles/months", market=market, to=to, count=count
        )

    async def get_candles_years(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/candles/years"""
        return await self._ask(
            waiting, "candle", "/candles/years", market=market, to=to, count=count
        )

    async def get_trades(
        self,
        market: str,
        *,
        to: str | None = None,
        count: int | None = None,
        cursor: int | None = None,
        days_ago: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/trades/ticks, newest first; ``cursor`` is the last sequential id of a page."""
        return await self._ask(
            waiting,
            "trade",
            "/trades/ticks",
            market=market,
            to=to,
            count=count,
            cursor=cursor,
            days_ago=days_ago,
        )

    async def get_ticker(self, markets: Sequence[str], **waiting: Unpack[WaitOptions]) -> Any:
        """GET /v1/ticker"""
        return await self._ask(waiting, "ticker", "/ticker", markets=markets)

    async def get_ticker_all(
        self, quote_currencies: Sequence[str], **waiting: Unpack[WaitOptions]
    ) -> Any:
        """GET /v1/ticker/all: every market quoted in one of these."""
        return await self._ask(waiting, "ticker", "/ticker/all", quote_currencies=quote_currencies)

    async def get_orderbook(
        self,
        markets: Sequence[str],
        *,
        level: str | int | None = None,
        count: int | None = None,
        **waiting: Unpack[WaitOptions],
    ) -> Any:
        """GET /v1/orderbook"""
        return await self._ask(
            waiting, "orderbook", "/orderbook", markets=markets, level=level, count=count
        )

    async def get_orderbook_instruments(
        self, markets: Sequence[str], **waiting: Unpack[WaitOptions]
    ) -> Any:
        """GET /v1/orderbook/instruments: tick sizes and levels of books."""
        return await self._ask(waiting, "orderbook", "/orderbook/instruments", markets=markets)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    def block_until(self, at_ms: int) -> None:
        """Grant nothing before this time (ms since the epoch): the exchange ordered a stop."""
        super().block_until(at_ms)
        if self._shared is not None:
            self._shared.gate.block_until(at_ms)

    async def _ask(self, waiting: WaitOptions, group: str, path: str, **params: Value) -> Any:
        priority, deadline = (
            waiting.get("priority", 0),
            Deadline(self._clock, waiting.get("timeout")),
        )
        while True:
            try:
                answer = await self._paid_and_sent(group, priority, deadline, path, params)
            except _GrantExpired:
                continue
            left = remaining(answer.headers)
            if left is not None:
                amount, _ = self._limits[group]
                # The caller's group: the exchange's spelling of it has changed before.
                self.observe(group, amount - left[1], group)
            return self._checked(group, answer)

    async def _paid_and_sent(
        self,
        group: str,
        priority: int,
        deadline: Deadline,
        path: str,
        params: Mapping[str, Value],
    ) -> Answer:
        if self._shared is not None:
            shared = await self._shared.acquire(1, group, priority, deadline)
            answer = await self._send(shared, shared.good, f"/v1{path}", _written(params))
            shared.answered()
            return answer
        grant = await self.acquire(1, group, priority, deadline.left_s)
        answer = await self._send(grant, grant.count_from_now, f"/v1{path}", _written(params))
        grant.answered()
        return answer

    async def _send(
        self, grant: Paid, goes: Callable[[], bool], path: str, params: Mapping[str, str]
    ) -> Answer:
        left = False

        def leaving() -> None:
            nonlocal left
            if not goes():
                raise _GrantExpired
            left = True

        try:
            return await self._client.get(path, params, leaving)
        finally:
            # Also after a cancellation: a request that was not sent by then never will be.
            if left:
                goes()
            else:
                grant.refund()

    def _checked(self, group: str, answer: Answer) -> Any:
        """The decoded response; raises the error for a status other than 200."""
        if answer.status == 200:
            self._bans = 0
            return answer.read()
        words = _words(answer)
        if answer.status == _TOO_FAST:
            raise RateLimited(
                f"Upbit blocks requests of group {group}: {words}",
                retry_at_ms=self._fill(group),
                status=answer.status,
            )
        if answer.status == _SHUT_OUT:
            until_ms = self._shut(answer)
            raise Banned("Upbit", until_ms=until_ms, status=answer.status, words=words)
        if answer.status >= 500:
            message = f"Upbit failed to answer {answer.path} ({answer.status}). {words}"
            raise ExchangeError(message, status=answer.status)
        raise BadRequest(answer.path, status=answer.status, code=answer.status, message=words)

    def _fill(self, group: str) -> int:
        """Block this group for a whole window; the end of the block."""
        amount, period_s = self._limits[group]
        # Twice the limit: it stays full while our own usage is freed.
        self.observe(group, 2 * amount, group)
        until_ms = self._clock.now_ms() + round(period_s * 1000)
        if self._shared is not None:
            self._shared.gate.block_until(until_ms)
        return until_ms

    def _shut(self, answer: Answer) -> int:
        """Block all groups, for longer each time in a row; the end of the block."""
        retry_after = answer.headers.get("Retry-After", "")
        if retry_after.isascii() and retry_after.isdecimal():
            wait_ms = int(retry_after[:9]) * 1000
        else:
            wait_ms = min(_FIRST_BAN_MS << self._bans, _LONGEST_BAN_MS)
        self._bans = min(self._bans + 1, 10)
        until_ms = self._clock.now_ms() + min(wait_ms, LONGEST_STOP_MS)
        self.block_until(until_ms)
        return until_ms


def _written(params: Mapping[str, Value]) -> dict[str, str]:
    """Parameters as text for a query, without those that are None."""
    return {name: _spelled(value) for name, value in params.items() if value is not None}


def _spelled(value: str | int | Sequence[str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ",".join(value)


class _ErrorReason(Struct):
    message: str


class _ErrorBody(Struct):
    """{"error":{"name":"validation_error","message":"…"}}"""

    error: _ErrorReason


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def _words(answer: Answer) -> str:
    """The message of a rejection; older servers send plain text."""
    try:
        return _decode_error(answer.body).error.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return answer.body[:300].decode(errors="replace")
