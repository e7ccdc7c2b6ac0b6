"""Fixed windows: exact where an exchange counts per whole minute of its own clock.

A request is charged to the window in which it can only arrive: none is let go in the last moments
of a window (it might arrive in the next), nor in the first moments while the exchange's clock is
known only roughly. Waiters stand in one line; the first alone watches the clock, so a thousand of
them cost one timer. There is no await between looking and charging, hence no lock.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from penstock.clock import Clock
from penstock.errors import CostExceedsLimit, RateLimited
from penstock.throttle.gate import Limit


@dataclass(slots=True)
class _Window:
    """One limit and what is known of its current window."""

    limit: Limit
    index: int = -1
    spent: int = 0
    """What was granted here."""
    unanswered: int = 0
    """The part of it that the exchange's count may not include yet."""
    reported: int = 0
    """The highest count the exchange told, which others at this address add to."""
    before: int = 0
    """The level at which the previous window ended."""

    def level(self) -> int:
        return max(self.spent, self.reported + self.unanswered)

    def turn(self, index: int) -> None:
        """Begin the window ``index``, unless it is the present one or an older one."""
        if index > self.index:
            self.before = self.level() if index == self.index + 1 else 0
            self.index, self.spent, self.unanswered, self.reported = index, 0, 0, 0

    def add(self, charge: int) -> None:
        self.spent += charge
        self.unanswered += charge


@dataclass(slots=True, eq=False)
class _Waiter:
    cost: int
    category: str
    turn: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Grant:
    gate: "FixedWindowGate"
    charges: list[tuple[_Window, int, int]]
    """(window, its index then, charge)."""
    open: bool = True

    def good(self) -> bool:
        return self.gate.arrives_in((window, index) for window, index, _ in self.charges)

    def answered(self) -> None:
        self._settle(give_back=False)

    def refund(self) -> None:
        self._settle(give_back=True)

    def _settle(self, *, give_back: bool) -> None:
        if not self.open:
            return
        self.open = False
        for window, index, charge in self.charges:
            # A window that has gone took its count with it: giving back now would add room.
            if window.index == index:
                window.unanswered -= charge
                window.spent -= charge if give_back else 0
        self.gate.look_again()


@dataclass
class FixedWindowGate:
    """A gate within one process. Nothing is spent by a waiter that was cancelled."""

    clock: Clock
    limits: Sequence[Limit]
    patience_ms: int = 300_000
    guard_ms: int = 250
    """How long a request may take to the exchange and still be counted where it was charged."""
    _offset_ms: int = 0
    _error_ms: int = 0
    _blocked_until_ms: int = 0
    _windows: list[_Window] = field(default_factory=list)
    _line: deque[_Waiter] = field(default_factory=deque)
    _news: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self._windows = [_Window(limit) for limit in self.limits]

    async def acquire(self, cost: int, category: str = "") -> _Grant:
        """See ``Gate``."""
        if not self._line and self._ready_ms(cost, category) <= self.clock.now_ms():
            return self._charge(cost, category)
        self._check_patience(self._estimate_ms(cost, category))
        waiter = _Waiter(cost, category, asyncio.get_running_loop().create_future())
        self._line.append(waiter)
        try:
            if self._line[0] is not waiter:
                await waiter.turn
            while (ready_ms := self._ready_ms(cost, category)) > self.clock.now_ms():
                self._check_patience(ready_ms)
                await self._sleep_until(ready_ms)
            return self._charge(cost, category)
        finally:
            self._line.remove(waiter)
            if self._line and not self._line[0].turn.done():
                self._line[0].turn.set_result(None)

    def observe(self, category: str, used: int, window_ms: int, at_ms: int) -> None:
        """See ``Gate``. A count of a window that has gone since says nothing about this one."""
        for window in self._windows:
            limit = window.limit
            if (limit.unit, limit.category, limit.period_ms) != ("weight", category, window_ms):
                continue
            index = self._index(window, at_ms)
            if index == self._index(window, self.clock.now_ms()):
                window.turn(index)
                window.reported = max(window.reported, used)
        self.look_again()

    def block_until(self, at_ms: int) -> None:
        """See ``Gate``."""
        self._blocked_until_ms = max(self._blocked_until_ms, at_ms)

    def align(self, offset_ms: float, error_ms: float) -> None:
        """See ``Gate``."""
        self._offset_ms = round(offset_ms)
        self._error_ms = ceil(error_ms + abs(offset_ms - self._offset_ms))
        self.look_again()

    def adopt(self, limits: Sequence[Limit]) -> None:
        """See ``Gate``. What was spent of late counts in the new windows too."""
        self.limits, old, now_ms = limits, self._windows, self.clock.now_ms()
        for window in old:
            window.turn(self._index(window, now_ms))
        self._windows = [_heir(limit, old) for limit in limits]
        for window in self._windows:
            if window.index < 0:
                window.index = self._index(window, now_ms)
        self.look_again()

    def used(self) -> dict[Limit, int]:
        """How much of each limit is used in its present window."""
        now_ms = self.clock.now_ms()
        for window in self._windows:
            window.turn(self._index(window, now_ms))
        return {window.limit: window.level() for window in self._windows}

    def arrives_in(self, windows: Iterable[tuple[_Window, int]]) -> bool:
        """Whether a request that leaves now arrives in these windows, by their index."""
        now_ms = self.clock.now_ms()
        return now_ms >= self._blocked_until_ms and all(
            self._open_ms(window, now_ms) == now_ms and self._index(window, now_ms) == index
            for window, index in windows
        )

    def look_again(self) -> None:
        """Room may have come: the first in line need not sleep out its wait."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _index(self, window: _Window, at_ms: int) -> int:
        return (at_ms + self._offset_ms) // window.limit.period_ms

    def _open_ms(self, window: _Window, at_ms: int) -> int:
        """The first instant from ``at_ms`` on at which what leaves surely arrives in a window."""
        period_ms = window.limit.period_ms
        # However little is known of the exchange's clock, half of each window stays open.
        opening_ms = min(self._error_ms, period_ms // 4)
        closing_ms = min(self._error_ms + self.guard_ms, period_ms // 4)
        phase_ms = (at_ms + self._offset_ms) % period_ms
        if phase_ms < opening_ms:
            return at_ms + opening_ms - phase_ms
        if phase_ms >= period_ms - closing_ms:
            return at_ms + period_ms - phase_ms + opening_ms
        return at_ms

    def _ready_ms(self, cost: int, category: str) -> int:
        """The first instant at which every limit has room, as far as is known now."""
        at_ms, asked_ms = max(self.clock.now_ms(), self._blocked_until_ms), -1
        while at_ms != asked_ms:
            asked_ms = at_ms
            for window in self._windows:
                charge = window.limit.charge(cost, category)
                if charge:
                    at_ms = self._room_ms(window, charge, at_ms)
        return at_ms

    def _room_ms(self, window: _Window, charge: int, at_ms: int) -> int:
        limit = window.limit
        if charge > limit.amount:
            raise CostExceedsLimit(charge, limit.amount, limit.period_ms)
        at_ms = self._open_ms(window, at_ms)
        if self._index(window, at_ms) <= window.index and window.level() + charge > limit.amount:
            begins_ms = (window.index + 1) * limit.period_ms - self._offset_ms
            at_ms = self._open_ms(window, begins_ms)
        return at_ms

    def _charge(self, cost: int, category: str) -> _Grant:
        now_ms, charges = self.clock.now_ms(), []
        for window in self._windows:
            if charge := window.limit.charge(cost, category):
                window.turn(self._index(window, now_ms))
                window.add(charge)
                charges.append((window, window.index, charge))
        return _Grant(self, charges)

    def _estimate_ms(self, cost: int, category: str) -> int:
        """When the last in line may go at the earliest, if all before it go too."""
        ready_ms = self._ready_ms(cost, category)
        for window in self._windows:
            limit = window.limit
            total = limit.charge(cost, category)
            total += sum(limit.charge(w.cost, w.category) for w in self._line)
            index = self._index(window, self.clock.now_ms())
            room = limit.amount - (window.level() if index <= window.index else 0)
            if limit.charge(cost, category) and total > room:
                windows = -((room - total) // limit.amount)
                begins_ms = (index + windows) * limit.period_ms - self._offset_ms
                ready_ms = max(ready_ms, begins_ms)
        return ready_ms

    def _check_patience(self, ready_ms: int) -> None:
        wait_ms = ready_ms - self.clock.now_ms()
        if wait_ms > self.patience_ms:
            raise RateLimited(f"There is no room for {wait_ms} ms", retry_at_ms=ready_ms)

    async def _sleep_until(self, at_ms: int) -> None:
        self._news = asyncio.get_running_loop().create_future()
        wait_s = (at_ms - self.clock.now_ms()) / 1000
        sleeper = asyncio.ensure_future(self.clock.sleep(wait_s))
        try:
            await asyncio.wait({sleeper, self._news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()


def _heir(limit: Limit, old: Sequence[_Window]) -> _Window:
    """A window for ``limit`` that remembers what its predecessors saw."""
    kin = [w for w in old if (w.limit.unit, w.limit.category) == (limit.unit, limit.category)]
    for window in kin:
        if window.limit.period_ms == limit.period_ms:
            window.limit = limit
            return window
    return _Window(limit, spent=max((w.level() + w.before for w in kin), default=0))
