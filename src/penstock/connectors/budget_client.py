"""Reads the budget and connector that the fleet shares, and writes what this process observed.

Reads are cheap and frequent, and their age is recorded. What the exchange reports to this process,
above all a stop, is written to the store at once, and retried until it is stored.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil

from penstock.clock import Clock
from penstock.connectors.clocks import Clocks
from penstock.connectors.facts import BudgetReachable, BudgetUnreachable
from penstock.connectors.limits import (
    NO_SERVER_COUNT,
    ServerCount,
    asked_of,
    in_force,
    name_of,
    restored,
    server_demand,
    stored,
)
from penstock.errors import StorageError
from penstock.exchanges.facts import CapacityLow, ClockStepped
from penstock.storage.state import Budget, Document, LeaseReply, LeaseRequest, StateStore
from penstock.storage.state.budget import PacedDemand, WindowDemand, window_use
from penstock.storage.state.schema import CONNECTORS
from penstock.telemetry import Listener
from penstock.throttle.gate import Limit

NEVER = float("-inf")
# The document is read less often than the budget: it has operators' decisions. Nothing is granted
# by one that was read longer ago.
CONNECTOR_AGE_MS = 100
_RETRY_S = 0.5
_SEEN_EVERY_MS = 100
_FOREIGN_AHEAD_MS = 1_000
# How often a process that only waits reads the store's clock: it may have been stepped.
_STORE_CLOCK_MS = 1_000
# The offset in the connector is for new processes and for display: it may be slightly off.
_OFFSET_MS, _OFFSET_EVERY_MS = 20, 10_000


class BudgetClient:
    """The budget and the connector of one exchange, as read by one process."""

    def __init__(
        self, store: StateStore, exchange_id: str, clocks: Clocks, clock: Clock, listener: Listener
    ) -> None:
        self.exchange_id = exchange_id
        self.limits: tuple[Limit, ...] = ()
        self.of_key: tuple[Limit, ...] | None = None
        """The exchange's limits for this process, where they depend on its API key."""
        self.status = "active"
        self.blocked_until_ms = NEVER
        self.budget = Budget()
        self.budget_at_ms = self.document_at_ms = self.block_checked_at_ms = NEVER
        """When the budget, the document, and whether there is a stop were last read."""
        self._store, self._clocks, self._clock, self._emit = store, clocks, clock, listener
        self._chosen: tuple[Limit, ...] | None = None
        self._announced: tuple[Limit, ...] = ()
        self._stop_ms = self._stop_at_ms = NEVER
        """The end of a stop that this process received and the store does not have yet; and when
        it was received."""
        self._block_ms = 0
        """The stop in the store, as last read."""
        self._lifted_at: int | None = None
        self._to_announce = self._to_show_offset = self._to_store_seen = False
        self._seen: dict[str, tuple[Limit, ServerCount]] = {}
        self._stored_seen: dict[str, ServerCount] = {}
        self._taken: dict[str, tuple[Limit, ServerCount]] = {}
        """A lower bound of a window's usage: the exchange's count plus the tokens held here."""
        self._shown_offset_ms = 0
        self._offset_at_ms = self._seen_at_ms = self._store_at_ms = NEVER
        self._low_in: dict[str, int] = {}
        self._is_lost = False
        self._reporting: asyncio.Task[None] | None = None

    async def read_store(self) -> None:
        """Read what other processes may have changed.

        Raises:
            StorageError: the store cannot be read.
        """
        with self._reaching():
            sent_ms = self._clocks.now_ms()
            if sent_ms - self._store_at_ms >= _STORE_CLOCK_MS:
                await self._read_clock()
            if sent_ms - self.document_at_ms >= CONNECTOR_AGE_MS:
                self._take_document(await self._store.get(CONNECTORS, self.exchange_id))
                self.document_at_ms = self._clocks.now_ms()
            self._take_budget(await self._store.budget(self.exchange_id))
            self.budget_at_ms = self.block_checked_at_ms = self._clocks.now_ms()

    async def check(self) -> None:
        """Check whether the store can be read and written.

        Raises:
            StorageError: it cannot.
        """
        await self.read_store()
        with self._reaching():
            # An empty lease: a store that another process keeps locked can still be read.
            ask = self._ask((), (), _shortest_ms(self.limits))
            await self._store.lease(self.exchange_id, ask)

    async def lease(
        self, windows: Sequence[WindowDemand], paces: Sequence[PacedDemand] = ()
    ) -> LeaseReply:
        """Lease capacity, all of it or nothing, and store what was observed.

        Raises:
            StorageError: the store cannot be reached. The capacity may have been leased.
        """
        periods_ms = [w.period_ms for w in windows] + [p.period_ms for p in paces]
        news = [*self._news({window.limit for window in windows})]
        asked = (*windows, *(server_demand(*each) for each in news))
        ask = self._ask(asked, tuple(paces), min(periods_ms))
        sent_ms = self._clocks.now_ms()
        with self._reaching():
            grant = await self._store.lease(self.exchange_id, ask)
        self._saw_store(grant.now_ms, sent_ms)
        if grant.ok:
            self.block_checked_at_ms = self._clocks.now_ms()
        self._mark_stored(ask, news)
        return grant

    def asked(self, limit: Limit, need: int, want: int) -> WindowDemand:
        """The demand on an aligned limit, with the count known so far."""
        name, nothing = name_of(limit), (limit, NO_SERVER_COUNT)
        seen = self._taken.get(name, nothing)[1]
        # If foreign clients use it all, one request per window is still sent, to get the count.
        amount = min(max(self.open_to_us(limit), need, 1), limit.amount)
        return asked_of(replace(limit, amount=amount), need, want, seen)

    def open_to_us(self, limit: Limit) -> int:
        """A limit's amount, without the foreign usage that is still expected."""
        use = window_use(self.budget.uses.get(name_of(limit)))
        if use is None:
            return limit.amount
        position = self._clocks.position(limit.period_ms, self._clocks.now_ms())
        reserved = 0
        if position.window == use.number:
            # Until the next response shows it, foreign usage continues to grow.
            share = min(position.left_share, _FOREIGN_AHEAD_MS / limit.period_ms)
            reserved = max(use.expected - use.foreign, ceil(use.projected * share))
        elif position.window == use.number + 1:
            reserved = use.next_expected()
        return max(0, limit.amount - max(0, reserved))

    def used(self, name: str, window: int) -> int:
        """The fleet's usage of a window, as last read."""
        use = self.budget.uses.get(name)
        return use[1] if use and use[0] == window else 0

    def record_server_count(self, limit: Limit, seen: ServerCount, held: int) -> None:
        """Record the exchange's count in a window, and the unspent tokens held here for it."""
        name, known = name_of(limit), (limit, NO_SERVER_COUNT)
        self._seen[name] = (limit, _higher(self._seen.get(name, known)[1], seen))
        taken = ServerCount(seen.window, seen.used + held)
        self._taken[name] = (limit, _higher(self._taken.get(name, known)[1], taken))
        now_ms, is_more = self._clocks.now_ms(), taken.used > self.used(name, seen.window)
        if is_more and now_ms - self._seen_at_ms >= _SEEN_EVERY_MS:
            # More than the fleet is known to have leased: there may be a foreign client.
            self._seen_at_ms, self._to_store_seen = now_ms, True
            self._report()

    def block_until(self, at_ms: float) -> None:
        """Record a stop ordered by the exchange, and write it to the store."""
        self.blocked_until_ms = max(self.blocked_until_ms, at_ms)
        self._stop_ms, self._stop_at_ms = max(self._stop_ms, at_ms), self._clocks.now_ms()
        self._report()

    def announce(self, limits: Sequence[Limit]) -> None:
        """Apply limits that the exchange announced, and write them to the store."""
        if tuple(limits) == self._announced:
            return
        before = self.limits
        self._announced, self._to_announce = tuple(limits), True
        self.limits = in_force(self._chosen, self._announced)
        for limit in self.limits:
            self._inherit(limit, before)
        self._report()

    def publish_offset(self) -> None:
        """Write a new measurement of the exchange's clock to the store, if it differs."""
        now_ms = self._clocks.now_ms()
        if now_ms - self._offset_at_ms >= _OFFSET_EVERY_MS and self._offset_is_news():
            self._offset_at_ms, self._to_show_offset = now_ms, True
            self._report()

    async def aclose(self) -> None:
        """Wait for a pending write, for a short time."""
        reporting = self._reporting
        if reporting is not None:
            await asyncio.wait({reporting}, timeout=_RETRY_S)
            reporting.cancel()

    async def _read_clock(self) -> None:
        sent_ms = self._clocks.now_ms()
        self._saw_store(await self._store.now_ms(), sent_ms)
        if self._clocks.doubts_store:
            sent_ms = self._clocks.now_ms()
            self._saw_store(await self._store.now_ms(), sent_ms)

    def _saw_store(self, shown_ms: int, sent_ms: float) -> None:
        self._store_at_ms = sent_ms
        if by_ms := self._clocks.saw_store(shown_ms, sent_ms):
            self._emit(ClockStepped(exchange=self.exchange_id, clock="store", by_ms=by_ms))
            if self._clocks.measured:
                # New processes use the offset between exchange and store, and that has changed.
                self._to_show_offset = True
                self._report()
            else:
                # Only processes with a response from the exchange have its time now. Once they
                # have stored it, or the current window has ended, nothing is leased twice.
                periods_ms = [each.period_ms for each in self.limits if each.kind == "aligned"]
                waits_ms = self._clocks.now_ms() + max(periods_ms, default=0)
                self.blocked_until_ms = max(self.blocked_until_ms, waits_ms)

    def _take_document(self, document: Document | None) -> None:
        if document is None:  # There is no connector yet: the gate's own limits apply.
            return
        self.status = document["status"]
        self._take_lift(document.get("lifted_at", 0))
        self._shown_offset_ms = document["exchange_offset_ms"]
        self._clocks.assume(self._shown_offset_ms)
        self._chosen = restored(document["chosen"]) if document["chosen"] else None
        if self.of_key is not None:
            self._announced = self.of_key
        elif not self._to_announce:  # Else this document does not have the latest yet.
            self._announced = restored(document["announced"])
        limits = in_force(self._chosen, self._announced)
        if limits != self.limits:
            self.limits = limits

    def _take_lift(self, lifted_at: int) -> None:
        """Drop stops from before the time at which an operator lifted them."""
        if self._lifted_at not in (None, lifted_at):
            if self._stop_at_ms <= self._clocks.of_store(lifted_at):
                self._stop_ms = NEVER
            # Later stops are in the store, which is read after this.
            self.blocked_until_ms, self._block_ms = self._stop_ms, 0
        self._lifted_at = lifted_at

    def _take_budget(self, budget: Budget) -> None:
        if budget.blocked_until_ms != self._block_ms:
            # Converted once: a later step of the store's clock does not move an earlier stop.
            self._block_ms = budget.blocked_until_ms
            blocked_ms = self._clocks.of_store(budget.blocked_until_ms)
            self.blocked_until_ms = max(self.blocked_until_ms, blocked_ms)
        self.budget = budget
        for limit in self.limits:
            name = name_of(limit)
            window, used = budget.uses.get(name, (-1, 0))[:2]
            is_low = limit.kind == "aligned" and 2 * used >= limit.amount
            if is_low and self._low_in.get(name) != window:
                self._low_in[name] = window
                left = max(0, limit.amount - used)
                frame = f"{limit.period_ms}ms"
                self._emit(CapacityLow(exchange=self.exchange_id, timeframe=frame, remaining=left))

    def _ask(
        self, windows: tuple[WindowDemand, ...], paces: tuple[PacedDemand, ...], period_ms: int
    ) -> LeaseRequest:
        opening_ms, closing_ms = self._clocks.margins_ms(period_ms)
        is_stopped = self._stop_ms > self._clocks.now_ms()
        blocked_ms = self._clocks.to_store(self._stop_ms) if is_stopped else 0
        offset_ms = self._clocks.offset_ms()
        exchange_ms = self._clocks.exchange_ms()
        return LeaseRequest(
            windows, paces, offset_ms, opening_ms, closing_ms, blocked_ms, exchange_ms
        )

    def _inherit(self, limit: Limit, before: Sequence[Limit]) -> None:
        """Count the usage of related windows in a window of another length."""
        name = name_of(limit)
        if limit.kind == "paced" or name in map(name_of, before):
            return
        now_ms, spent = self._clocks.now_ms(), 0
        for earlier in before:
            is_same = (earlier.unit, earlier.category) == (limit.unit, limit.category)
            if is_same and earlier.kind == "aligned":
                window = self._clocks.position(earlier.period_ms, now_ms).window
                spent = max(spent, self.used(name_of(earlier), window))
        window = self._clocks.position(limit.period_ms, now_ms).window
        self._taken[name] = (limit, ServerCount(window, spent))

    def _report(self) -> None:
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._report_until_stored())

    async def _report_until_stored(self) -> None:
        try:
            while self._has_news():
                try:
                    await self._report_once()
                except StorageError:
                    await self._clock.sleep(_RETRY_S)
        finally:
            self._reporting = None

    def _has_news(self) -> bool:
        stop = self._stop_ms > self._clocks.now_ms()
        return stop or self._to_store_seen or self._to_announce or self._to_show_offset

    async def _report_once(self) -> None:
        self._to_store_seen, news = False, [*self._news()]
        with self._reaching():
            if not self._clocks.knows_store:
                await self._read_clock()
            windows = (asked_of(limit, 0, 0, seen) for limit, seen in self._taken.values())
            shown = (server_demand(*each) for each in news)
            ask = self._ask((*windows, *shown), (), _shortest_ms(self.limits))
            await self._store.lease(self.exchange_id, ask)
            self._mark_stored(ask, news)
            if self._to_announce or self._to_show_offset:
                await self._write_document()

    async def _write_document(self) -> None:
        now_ms, offset_ms = await self._store.now_ms(), self._clocks.offset_ms()
        announced, is_measured = self._announced, self._clocks.measured
        changes: Document = {"announced": stored(announced)} if self._to_announce else {}
        if is_measured:
            changes["exchange_offset_ms"] = offset_ms

        def changed(found: Document) -> Document | None:
            same = all(found[name] == value for name, value in changes.items())
            return None if same else {**found, **changes, "updated_at": now_ms}

        await self._store.update(CONNECTORS, self.exchange_id, changed)
        self._to_announce = self._announced is not announced
        self._to_show_offset = False
        if is_measured:
            self._shown_offset_ms = offset_ms

    def _offset_is_news(self) -> bool:
        off_ms = abs(self._clocks.offset_ms() - self._shown_offset_ms)
        return self._clocks.measured and off_ms > max(_OFFSET_MS, self._clocks.error_ms() / 2)

    def _news(self, among: set[str] | None = None) -> Iterator[tuple[Limit, ServerCount]]:
        """The exchange's counts in current windows that are not stored yet."""
        now_ms = self._clocks.now_ms()
        for name, (limit, seen) in self._seen.items():
            is_present = self._clocks.position(limit.period_ms, now_ms).window == seen.window
            if is_present and self._stored_seen.get(name) != seen and (not among or name in among):
                yield limit, seen

    def _mark_stored(self, ask: LeaseRequest, news: Sequence[tuple[Limit, ServerCount]]) -> None:
        if self._stop_ms > NEVER and self._clocks.to_store(self._stop_ms) <= ask.blocked_until_ms:
            self._stop_ms = NEVER
        self._stored_seen |= {name_of(limit): seen for limit, seen in news}

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if not self._is_lost:
                self._is_lost = True
                self._emit(BudgetUnreachable(exchange=self.exchange_id, reason=str(error)))
            raise
        if self._is_lost:
            self._is_lost = False
            self._emit(BudgetReachable(exchange=self.exchange_id))


def _higher(known: ServerCount, new: ServerCount) -> ServerCount:
    """The higher count of the same window, else the new one: the known window may be ahead."""
    return max(known, new) if known.window == new.window else new


def _shortest_ms(limits: Sequence[Limit]) -> int:
    return min((limit.period_ms for limit in limits), default=1)
