"""The gateway sends all REST requests to an exchange.

For each request it asks the circuit breaker, acquires a grant from the gate, sends, updates the
gate with the usage reported in the response, and reads the response. It sends nothing without a
grant; every retry needs a new one. When the exchange orders a stop, the gate is blocked before the
error reaches the caller, so that no other task sends either.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import random
from typing import TypeVar

from penstock.clock import Clock
from penstock.errors import (
    BadRequest,
    Banned,
    ExchangeError,
    ExchangeUnreachable,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnexpectedAnswer,
    is_failure,
)
from penstock.exchanges.base import ApiError, Exchange, Feed, Info, Meaning, Request
from penstock.exchanges.facts import (
    ClockStepped,
    RequestFailed,
    RequestSent,
    SendingStopped,
)
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer, SendsRaw, Transport
from penstock.resilience.backoff import Backoff
from penstock.resilience.circuit import CircuitBreaker, NoBreaker
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Gate, GateGrant
from penstock.throttle.offset import Offset, narrowed, seen, step_ms

T = TypeVar("T")

# Statuses that order a stop. 403 is from a firewall: its body is HTML and has no end time.
_TOO_FAST, _SHUT_OUT, _FIREWALL = 429, 418, 403
_UNNAMED_STOP_MS = 60_000
_LONGEST_WORDS = 300
# The share of the latest response in the average latency.
_LATEST_SHARE = 0.125
LONGEST_STOP_MS = 3 * 86_400_000


class _Lapsed(Exception):
    """Connecting took so long that the grant's window has ended. Nothing was sent."""


@dataclass(frozen=True)
class _Exchanged:
    answer: Answer
    sent_ms: int
    received_ns: int

    @property
    def received_ms(self) -> int:
        return self.received_ns // 1_000_000


@dataclass
class Gateway:
    """Sends REST requests to one exchange, each with a grant from the gate."""

    exchange: Exchange
    transport: Transport
    gate: Gate
    clock: Clock
    backoff: Backoff = field(default_factory=Backoff)
    listener: Listener = quiet
    random: Callable[[], float] = random
    offset: Offset | None = None
    """How far the exchange's clock is ahead, once known."""
    latency_ms: float | None = None
    """How long a response takes, on average of the latest requests; None before the first."""
    breaker: CircuitBreaker = field(default_factory=NoBreaker)
    longest_stop_ms: int = LONGEST_STOP_MS
    """The longest stop that is accepted from the exchange."""

    async def fetch(self, request: Request[T]) -> T:
        """Send a request, after waiting for the gate if necessary, and retry if it fails.

        Raises:
            RateLimited: the exchange ordered a stop, or there is no capacity within the timeout.
            Banned: the exchange banned this address.
            CircuitOpen: requests failed too often, so none are sent for some time.
            BadRequest: the exchange rejects this request; a retry does not help.
            ExchangeError: the exchange failed in every attempt.
            ExchangeUnreachable: there was no response in any attempt.
            UnexpectedAnswer: the response is not as documented.
        """
        exchanged = await self._ask_patiently(request)
        return request.read(exchanged.answer.body, exchanged.received_ns)

    async def learn(self) -> Info:
        """Measure the exchange's clock, fetch what it announces, and adopt its limits."""
        if self.exchange.time is not None:
            await self.measure_clock()
        request, names = self.exchange.info, self.exchange.asset_names
        if names is not None:
            request = names.info(await self.fetch(names.request))
        exchanged = await self._ask_patiently(request)
        info = request.read(exchanged.answer.body, exchanged.received_ns)
        if info.limits:
            self.gate.adopt(info.limits)
            # Only now does the gate have the window whose usage this response reports.
            self._sync_usage(exchanged)
        return info._replace(timeframes=self.exchange.intervals)

    async def measure_clock(self) -> Offset | None:
        """Request the exchange's time; the response was made about half way.

        Without a request for the time, the ``Date`` of a response is used, if it has one.
        """
        request = self.exchange.time
        if request is None:
            await self._ask_patiently(self.exchange.info)
            return self.offset
        exchanged = await self._ask_patiently(request)
        shown_ms = request.read(exchanged.answer.body, exchanged.received_ns)
        step_ms = self.exchange.time_step_ms
        return self._align(seen(shown_ms, step_ms, exchanged.sent_ms, exchanged.received_ms + 1))

    def feed(self, _symbols: SymbolMap) -> Feed | None:
        """None: the exchange's dialect reads its streams."""
        return None

    async def aclose(self) -> None:
        """Close every connection."""
        await self.transport.close()

    async def _ask_patiently(self, request: Request[T]) -> _Exchanged:
        delays = self.backoff.delays(self.random)
        while True:
            try:
                return await self._ask(request)
            except (ExchangeUnreachable, ExchangeError) as error:
                if not is_failure(error) or (delay_s := next(delays, None)) is None:
                    raise
            await self.clock.sleep(delay_s)

    async def _ask(self, request: Request[T]) -> _Exchanged:
        while True:
            await self.breaker.check()
            grant = await self._pay(request)
            # Once more: it may have opened while this request waited for the gate.
            with suppress(_Lapsed), await self._admitted(grant):
                exchanged = await self._send(request, grant)
                grant.answered()
                if request is not self.exchange.time:
                    # The body of ``time`` is more exact than a header, which a proxy may have set.
                    self._sync_clock(exchanged)
                self._sync_usage(exchanged)
                self._check(request, exchanged)
                return exchanged

    async def _admitted(self, grant: GateGrant) -> AbstractContextManager[None]:
        try:
            return await self.breaker.admit()
        except BaseException:
            grant.refund()
            raise

    async def _pay(self, request: Request[T]) -> GateGrant:
        """Acquire all tokens of a request, in parts; return the grant of the last part."""
        cost = request.cost
        while 0 < request.part < cost:
            (await self.gate.acquire(request.part, request.category)).answered()
            cost -= request.part
        return await self.gate.acquire(cost, request.category)

    async def _send(self, request: Request[T], grant: GateGrant) -> _Exchanged:
        sent_ms = self.clock.now_ms()
        left = False

        def leaving() -> None:
            nonlocal sent_ms, left
            if not grant.good():
                raise _Lapsed
            sent_ms, left = self.clock.now_ms(), True

        try:
            answer = await self._carry(request, leaving)
        except (NeverSent, NoAnswer) as error:
            self._emit_failure(request, error)
            raise
        finally:
            # Also when this task was cancelled: a request that was not sent by then is never sent.
            if not left:
                grant.refund()
        exchanged = _Exchanged(answer, sent_ms, self.clock.now_ns())
        took_ms = exchanged.received_ms - sent_ms
        known_ms = took_ms if self.latency_ms is None else self.latency_ms
        self.latency_ms = known_ms + _LATEST_SHARE * (took_ms - known_ms)
        self.listener(
            RequestSent(
                exchange=self.exchange.name,
                path=request.path,
                cost=request.cost,
                status=answer.status,
                took_ms=took_ms,
            )
        )
        return exchanged

    async def _carry(self, request: Request[T], leaving: Callable[[], None]) -> Answer:
        if request.raw is None:
            return await self.transport.send(request.path, self._params(request), leaving)
        assert isinstance(self.transport, SendsRaw), "this transport cannot send raw requests"
        return await self.transport.send_raw(request.raw, leaving)

    def exchange_ms(self) -> int:
        """The exchange's time, as far as it is known."""
        return round(self.clock.now_ms() + (self.offset.middle_ms if self.offset else 0))

    def _params(self, request: Request[T]) -> Mapping[str, str | int]:
        return request.params_at(self.exchange_ms())

    def _emit_failure(self, request: Request[T], error: ExchangeUnreachable) -> None:
        self.listener(
            RequestFailed(
                exchange=self.exchange.name,
                path=request.path,
                cost=request.cost,
                sent=isinstance(error, NoAnswer),
                reason=str(error),
            )
        )

    def _sync_usage(self, exchanged: _Exchanged) -> None:
        for usage in self.exchange.usages(exchanged.answer.headers):
            self.gate.observe(usage.category, usage.used, usage.window_ms, exchanged.sent_ms)

    def _sync_clock(self, exchanged: _Exchanged) -> None:
        shown_ms = _date_ms(exchanged.answer)
        if shown_ms is not None:
            self._align(seen(shown_ms, 1000, exchanged.sent_ms, exchanged.received_ms + 1))

    def _align(self, new: Offset) -> Offset:
        before, self.offset = self.offset, narrowed(self.offset, new)
        if by_ms := step_ms(before, self.offset):
            self.listener(ClockStepped(exchange=self.exchange.name, clock="exchange", by_ms=by_ms))
        self.gate.align(self.offset.middle_ms, self.offset.error_ms)
        return self.offset

    def _check(self, request: Request[T], exchanged: _Exchanged) -> None:
        """Raise the error of a response with a status other than 200, or an error in its body."""
        status, name = exchanged.answer.status, self.exchange.name
        api_error = self._api_error(request, exchanged.answer)
        if status == 200 and api_error is None:
            return
        words = api_error.message if api_error else ""
        meaning = (api_error.meaning if api_error else None) or _meaning(status)
        if status == _SHUT_OUT or (status == _FIREWALL and api_error is None):
            until_ms = self._stop(request, exchanged, api_error)
            raise Banned(name, until_ms=until_ms, status=status, words=words)
        if meaning == "too_fast":
            until_ms = self._stop(request, exchanged, api_error)
            reason = f"{name} blocks this address: {words or 'too many requests'}"
            raise RateLimited(reason, retry_at_ms=until_ms, status=status)
        if meaning == "failed":
            raise ExchangeError(
                f"{name} failed to answer {request.path} ({status}). {words}", status=status
            )
        if api_error is None:
            start = exchanged.answer.body[:80].decode(errors="replace")
            raise UnexpectedAnswer(f"{request.path} was answered with {status} and {start!r}")
        raise BadRequest(
            f"{request.path} {dict(self._params(request))}",
            status=status,
            code=api_error.code,
            message=api_error.message,
        )

    def _api_error(self, request: Request[T], answer: Answer) -> ApiError | None:
        if request.refusal is not None:
            return request.refusal(answer.status, answer.headers, answer.body)
        if answer.status == 200 and not self.exchange.refuses_with_200:
            return None
        return self.exchange.read_api_error(answer.body)

    def _stop(self, request: Request[T], exchanged: _Exchanged, api_error: ApiError | None) -> int:
        """Block the gate until the stop ends; return that time."""
        now_ms, until_ms = exchanged.received_ms, 0
        named_ms = api_error.until_ms if api_error else None
        retry_after = exchanged.answer.headers.get("retry-after", "")
        if retry_after.isascii() and retry_after.isdecimal():
            until_ms = now_ms + int(retry_after[:9]) * 1000
        if named_ms is not None:
            offset_ms = self.offset.low_ms if self.offset else 0
            until_ms = max(until_ms, round(named_ms - offset_ms))
        if api_error is not None and api_error.wait_ms is not None:
            until_ms = max(until_ms, now_ms + api_error.wait_ms)
        asked_ms = until_ms or now_ms + _UNNAMED_STOP_MS
        # Limited, so that a single response cannot stop all requests for years.
        until_ms = min(asked_ms, now_ms + self.longest_stop_ms)
        self.gate.block_until(until_ms)
        self.listener(
            SendingStopped(
                exchange=self.exchange.name,
                path=request.path,
                status=exchanged.answer.status,
                until_ms=until_ms,
                asked_ms=asked_ms,
                words=api_error.message[:_LONGEST_WORDS] if api_error else "",
            )
        )
        return until_ms


def _meaning(status: int) -> Meaning:
    if status == _TOO_FAST:
        return "too_fast"
    return "failed" if status >= 500 else "refused"


def _date_ms(answer: Answer) -> int | None:
    try:
        shown = parsedate_to_datetime(answer.headers["date"])
        # Dates in HTTP are UTC, also without a time zone.
        return int(shown.replace(tzinfo=shown.tzinfo or UTC).timestamp()) * 1000
    except (KeyError, ValueError, OverflowError):
        return None
