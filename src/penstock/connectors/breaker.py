"""The circuit breaker of an exchange, which all processes share through the state store.

Results are written to the store only while requests fail; otherwise a process just reads whether
the breaker is closed, a few times a second while it sends. A process that sees enough failures
stops at once, before the store knows. While the store is away the last known state applies.
"""

import asyncio
import os
import platform
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import random

import msgspec

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.facts import (
    BreakerClosed,
    BreakerForced,
    BreakerHalfOpen,
    BreakerOpened,
)
from penstock.errors import (
    CircuitOpen,
    ExchangeError,
    ExchangeUnreachable,
    StorageError,
    is_failure,
)
from penstock.resilience.breaker import (
    Breaker,
    BreakerRules,
    ProbeReport,
    Tally,
    in_flight_limit,
    joined,
    with_probe,
    with_probe_result,
    with_results,
)
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import BREAKERS
from penstock.telemetry import Listener, quiet

_READ_MS = 250
_RETRY_S = 0.5
# A probe's lease beyond what its request can take.
_PROBE_SPARE_MS = 5_000
# While requests fail, processes whose requests succeed write that too, this often.
_SUCCESSES_EVERY_MS = 1_000
# When to retry while another probes, and while an operator keeps the breaker open.
_PROBING_MS, _FORCED_MS = 1_000, 5_000


class SharedBreaker:
    """A ``CircuitBreaker`` of one exchange, in one process."""

    def __init__(  # noqa: PLR0913 - a store, and what varies in tests
        self,
        store: StateStore,
        exchange_id: str,
        clock: Clock,
        rules: BreakerRules,
        listener: Listener = quiet,
        *,
        who: str = "",
        draw: Callable[[], float] = random,
    ) -> None:
        self._store, self._exchange_id, self._clock = store, exchange_id, clock
        self._rules, self._emit, self._draw = rules, listener, draw
        self._who = who or f"{platform.node()}/{os.getpid()}"
        self._shared = Breaker()
        self._ahead_ms = 0
        """How far the store's clock is ahead of this one."""
        self._read_ms = -_READ_MS
        self._reading: asyncio.Task[None] | None = None
        self._unsent = self._sending = Tally()
        """Results that are not in the store yet; and those that are being written."""
        self._probes: deque[ProbeReport] = deque()
        self._reported_ms = 0
        self._reporting: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._ramping: deque[asyncio.Future[None]] = deque()

    async def check(self) -> None:
        """See ``CircuitBreaker``."""
        await self._read_if_old()
        self._may_send()

    async def admit(self) -> AbstractContextManager[None]:
        """See ``CircuitBreaker``."""
        await self._read_if_old()
        if self._may_send():
            await self._wait_for_ramp()
            return self._sent()
        leased = await self._change(self._leased, create=False)
        if leased is None:
            self._may_send()
            raise self._open(self._store_ms() + _PROBING_MS, "another process probes it")
        return self._probed(leased.fence)

    async def aclose(self) -> None:
        """See ``CircuitBreaker``."""
        if self._reporting is not None:
            await asyncio.wait({self._reporting}, timeout=_RETRY_S)
            self._reporting.cancel()

    def _may_send(self) -> bool:
        """Whether it is closed; False if a probe is due.

        Raises:
            CircuitOpen: it is open, and no probe is due.
        """
        breaker, now_ms = self._current(), self._store_ms()
        if breaker.is_closed():
            return True
        if breaker.forced:
            raise self._open(now_ms + _FORCED_MS, "an operator opened it")
        if breaker.phase == "half_open" and now_ms < breaker.probe_until_ms:
            raise self._open(now_ms + _PROBING_MS, "another request probes it")
        if now_ms < breaker.probe_due_ms():
            raise self._open(breaker.retry_at_ms, breaker.reason)
        return False

    def _open(self, retry_at_ms: int, reason: str) -> CircuitOpen:
        here_ms = retry_at_ms - self._ahead_ms
        return CircuitOpen(self._exchange_id, retry_at_ms=here_ms, reason=reason)

    def _current(self) -> Breaker:
        """The shared breaker, with the results of this process that the store lacks."""
        breaker = self._shared
        for tally in (self._sending, self._unsent):
            if tally.in_a_row:
                breaker = with_results(breaker, tally, self._store_ms(), self._rules, 0.0)
        return breaker

    def _store_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    # Requests

    @contextmanager
    def _sent(self) -> Iterator[None]:
        self._in_flight += 1
        try:
            yield
        except (ExchangeError, ExchangeUnreachable) as error:
            if is_failure(error):
                self._add(succeeded=False, reason=str(error))
            raise
        else:
            self._add(succeeded=True)
        finally:
            self._in_flight -= 1
            self._wake_ramping()

    @contextmanager
    def _probed(self, fence: int) -> Iterator[None]:
        report = ProbeReport(fence, "unknown")
        try:
            yield
            report = ProbeReport(fence, "succeeded")
        except (ExchangeError, ExchangeUnreachable) as error:
            if is_failure(error):
                report = ProbeReport(fence, "failed", str(error))
            raise
        finally:
            self._probes.append(report)
            self._report()

    def _add(self, *, succeeded: bool, reason: str = "") -> None:
        if self._shared.forced:
            return
        self._unsent = self._unsent.added(succeeded, reason, self._store_ms(), self._rules)
        since_ms = self._clock.now_ms() - self._reported_ms
        if not succeeded or (self._shared.tally.failed and since_ms >= _SUCCESSES_EVERY_MS):
            self._report()

    async def _wait_for_ramp(self) -> None:
        """Wait until fewer requests are in flight than are allowed after it closed."""
        while True:
            limit = in_flight_limit(self._shared, self._store_ms(), self._rules)
            if limit is None or self._in_flight < limit:
                return
            free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ramping.append(free)
            step = asyncio.ensure_future(self._clock.sleep(self._rules.ramp_ms / 6000))
            try:
                await asyncio.wait({free, step}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                step.cancel()
                free.cancel()

    def _wake_ramping(self) -> None:
        while self._ramping:
            free = self._ramping.popleft()
            if not free.done():
                free.set_result(None)
                return

    # The store

    async def _read_if_old(self) -> None:
        if self._clock.now_ms() - self._read_ms < _READ_MS:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            found = await self._store.get(BREAKERS, self._exchange_id)
            if found is not None:
                await self._read_clock()
        except StorageError:
            return  # The gate reports it: nothing is sent without the store.
        self._read_ms = self._clock.now_ms()
        before, self._shared = self._shared, _breaker_of(found) if found else Breaker()
        if before.forced != self._shared.forced:
            to = self._shared.forced or "automatic"
            self._emit(BreakerForced(exchange=self._exchange_id, to=to))

    async def _read_clock(self) -> int:
        store_ms = await self._store.now_ms()
        self._ahead_ms = store_ms - self._clock.now_ms()
        return store_ms

    def _report(self) -> None:
        if self._reporting is None or self._reporting.done():
            self._reporting = asyncio.get_running_loop().create_task(self._report_until_stored())

    async def _report_until_stored(self) -> None:
        while self._probes or self._unsent.buckets:
            self._sending, self._unsent = self._unsent, Tally()
            probes = tuple(self._probes)
            try:
                await self._change(partial(self._with_news, probes))
            except StorageError:
                self._unsent, self._sending = joined(self._sending, self._unsent), Tally()
                await self._clock.sleep(_RETRY_S)
                continue
            for _ in probes:
                self._probes.popleft()
            self._sending, self._reported_ms = Tally(), self._clock.now_ms()
            if not (self._probes or self._unsent.failed):
                return

    def _with_news(self, probes: tuple[ProbeReport, ...], found: Breaker) -> Breaker:
        now_ms, draw = self._store_ms(), self._draw()
        breaker = with_results(found, self._sending, now_ms, self._rules, draw)
        for probe in probes:
            breaker = with_probe_result(breaker, probe, now_ms, self._rules, draw)
        return breaker

    def _leased(self, found: Breaker) -> Breaker | None:
        return with_probe(found, self._who, self._store_ms(), self._rules)

    async def _change(
        self, change: Callable[[Breaker], Breaker | None], *, create: bool = True
    ) -> Breaker | None:
        """Change the breaker in the store, and emit what changed; None if nothing did."""
        await self._read_clock()
        before, after = await changed(self._store, self._exchange_id, change, create=create)
        self._shared, self._read_ms = after, self._clock.now_ms()
        self._emit_change(before, after)
        return after if after is not before else None

    def _emit_change(self, before: Breaker, after: Breaker) -> None:
        exchange = self._exchange_id
        if before.phase == after.phase:
            return
        match after.phase:
            case "open":
                reason, retry_at_ms = after.reason, after.retry_at_ms
                self._emit(BreakerOpened(exchange=exchange, reason=reason, retry_at_ms=retry_at_ms))
            case "half_open":
                self._emit(BreakerHalfOpen(exchange=exchange, probe_by=after.probe_by))
            case "closed":
                self._emit(BreakerClosed(exchange=exchange))


def rules_of(settings: Settings) -> BreakerRules:
    """The operator's rules."""
    breaker = settings.breaker
    return BreakerRules(
        failures=breaker.failures,
        failure_rate=breaker.failure_rate,
        window_ms=round(breaker.window * 1000),
        min_requests=breaker.min_requests,
        cooldown_ms=round(breaker.cooldown * 1000),
        longest_cooldown_ms=round(breaker.longest_cooldown * 1000),
        successes=breaker.successes,
        probe_ms=round(settings.requests.total_timeout * 1000) + _PROBE_SPARE_MS,
        ramp_ms=round(breaker.ramp * 1000),
    )


async def breaker_of(store: StateStore, exchange_id: str) -> Breaker:
    """The breaker of an exchange, as stored."""
    found = await store.get(BREAKERS, exchange_id)
    return _breaker_of(found) if found else Breaker()


async def all_breakers(store: StateStore, limit: int = 1000) -> dict[str, Breaker]:
    """The breakers that were ever used, by exchange."""
    found = await store.find(BREAKERS, limit=limit)
    return {document["id"]: _breaker_of(document) for document in found}


async def changed(
    store: StateStore,
    exchange_id: str,
    change: Callable[[Breaker], Breaker | None],
    *,
    create: bool = True,
) -> tuple[Breaker, Breaker]:
    """Change a breaker in the store; return it before and after, the same if nothing changed.

    Without ``create``, a breaker that is not in the store is not changed.

    Raises:
        StorageError: the store cannot be written. It may have been changed.
    """
    before = after = Breaker()

    def apply(found: Document) -> Document | None:
        nonlocal before, after
        before = _breaker_of(found)
        after = change(before) or before
        if after == before:
            after = before
            return None
        return {**found, "breaker": msgspec.to_builtins(after)}

    if create:
        new = {"id": exchange_id, "exchange_id": exchange_id, "breaker": {}}
        await store.insert_if_absent(BREAKERS, new)
    await store.update(BREAKERS, exchange_id, apply)
    return before, after


def _breaker_of(document: Document) -> Breaker:
    return msgspec.convert(document["breaker"], Breaker)
