"""A window consists of a rule, a usage and a clock.

The rule is immutable and does the arithmetic (``rules.py``); a window holds the usage and reads the
clock. Time is monotonic, so a wall clock that is stepped back by an hour has no effect: no budget
is freed early and none is frozen. Where windows follow an exchange's clock, the offset is measured
once, and again with each call of ``align``.

A timestamp is a time of the monotonic clock in nanoseconds; ``refund`` takes it as an argument.
"""

from dataclasses import replace
from math import ceil
from typing import Any, Generic

from penstock.clock import Clock, SystemClock
from penstock.errors import BadCost, BadLimit, CostExceedsLimit, NeverGranted, RateLimited
from penstock.throttle.rules import FAR, FixedRule, FixedUsage, Rule, U
from penstock.throttle.sliding import SlidingRule, SlidingUsage

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


class Window(Generic[U]):
    """One limit within this process: the public interface of all kinds of windows."""

    __slots__ = ("_receipts", "clock", "period_s", "rule", "take", "usage")

    def __init__(self, rule: Rule[U], period_s: float, clock: Clock) -> None:
        self.clock = clock
        self.period_s = period_s
        self.usage = rule.fresh()
        self._receipts: dict[tuple[int, int], int] = {}
        self.keep(rule)

    def keep(self, rule: Rule[U]) -> None:
        """Continue with another rule of the same kind; used capacity stays used."""
        self.rule = rule
        self.take = rule.take

    @property
    def limit(self) -> int:
        """The most that can be used at once."""
        return self.rule.limit

    @property
    def remaining(self) -> int:
        """What can be used now: never below zero, never above the limit."""
        return self.remaining_at(self.clock.monotonic_ns())

    @property
    def used(self) -> int:
        """How much is used now, foreign usage included."""
        used: int = self.rule.as_of(self.usage, self.clock.monotonic_ns())[0]
        return used

    def remaining_at(self, now: int) -> int:
        """What can be used at a time that is not before the latest one seen."""
        used: int = self.rule.as_of(self.usage, now)[0]
        return max(0, self.rule.limit - used)

    def can_send(self, cost: int = 1) -> bool:
        """Whether a request of this cost may be sent now. Spends nothing."""
        return not self._look(cost)

    def wait_time(self, cost: int = 1) -> float:
        """Seconds until a request of this cost fits, if no other goes first. Spends nothing.

        Raises:
            CostExceedsLimit: no wait would ever be long enough.
        """
        self.check(cost)
        return self._look(cost) / SECOND_NS

    def wait_behind(self, ahead: int, cost: int) -> float:
        """The minimum seconds until a request may be sent, if ``ahead`` is spent before it."""
        return self.rule.wait(self.usage, ahead + cost, self.clock.monotonic_ns()) / SECOND_NS

    def consume(self, cost: int = 1) -> int:
        """Spend ``cost`` now; the timestamp with which it can be refunded.

        Raises:
            RateLimited: there is no capacity now. Nothing was spent.
            CostExceedsLimit: there will never be enough capacity.
        """
        self.check(cost)
        now = self.clock.monotonic_ns()
        usage, wait = self.take(self.usage, cost, now)
        if wait:
            retry_at_ms = self.clock.now_ms() + ceil(wait / MS_NS)
            raise RateLimited(
                f"The limit has no capacity for {wait // MS_NS} ms", retry_at_ms=retry_at_ms
            )
        self.usage = usage
        self._forget_gone(now)
        self._receipts[now, cost] = self._receipts.get((now, cost), 0) + 1
        return now

    def refund(self, timestamp: int, cost: int) -> None:
        """Refund one ``consume``, if its request was never sent: a sent request counts.

        Capacity that has been freed since is not freed twice.

        Raises:
            NeverGranted: nothing of that cost was taken then, or it was refunded before.
        """
        now, receipt = self.clock.monotonic_ns(), (timestamp, cost)
        if self.rule.gone(timestamp, now) and timestamp <= now:
            return
        if not self._receipts.get(receipt):
            raise NeverGranted(timestamp, cost)
        self._receipts[receipt] -= 1
        self.give_back(timestamp, cost, now)

    def give_back(self, at: int, cost: int, now: int) -> None:
        """Refund what is known to have been taken."""
        self.usage = self.rule.refund(self.usage, at, cost, now)

    def observe(self, used: int, at: int | None = None) -> None:
        """Apply the exchange's own count; the higher of both counts is used."""
        now = self.clock.monotonic_ns()
        self.usage = self.rule.observe(self.usage, used, now if at is None else at, now)

    def soft_delay(self, cost: int = 1) -> float:
        """Seconds between requests of this cost that would spread the rest evenly."""
        now = self.clock.monotonic_ns()
        return self.rule.spacing(self.rule.as_of(self.usage, now), cost, now) / SECOND_NS

    def check(self, cost: int) -> None:
        """Raise if a request of this cost could never be granted."""
        if type(cost) is not int or cost < 1:
            raise BadCost(cost)
        if cost > self.limit:
            raise CostExceedsLimit(cost, self.limit, round(self.period_s * 1000))

    def _look(self, cost: int) -> int:
        if type(cost) is not int or cost < 1:
            raise BadCost(cost)
        return self.rule.wait(self.usage, cost, self.clock.monotonic_ns())

    def _forget_gone(self, now: int) -> None:
        while self._receipts:
            at, cost = next(iter(self._receipts))
            if not self.rule.gone(at, now):
                return
            del self._receipts[at, cost]

    def __repr__(self) -> str:
        name, limit = type(self).__name__, self.limit
        return f"<{name} {limit} per {self.period_s:g} s, {self.remaining} remaining>"


class FixedWindow(Window[FixedUsage]):
    """All capacity is freed at once, at times aligned to the exchange's clock.

    Use it where the exchange counts this way; elsewhere twice the limit can be sent in one period,
    half of it on either side of a window's end. The last ``guard_ms`` of each window are not used:
    a request sent then might arrive, and count, in the next.
    """

    __slots__ = ("guard_ms",)

    rule: FixedRule

    def __init__(
        self,
        limit: int,
        period_s: float,
        clock: Clock | None = None,
        *,
        guard_ms: float = 0,
        answers: bool = False,
    ) -> None:
        """``answers``: the holder of a grant reports when its request was answered."""
        if guard_ms < 0:
            raise BadLimit(f"A guard band of {guard_ms!r} ms is not allowed. Allowed: 0 or more.")
        self.guard_ms = guard_ms
        period_ns = checked(limit, period_s)
        super().__init__(
            FixedRule(limit, period_ns, answers=answers), period_s, clock or SystemClock()
        )
        self.align(0)

    def wait_behind(self, ahead: int, cost: int) -> float:
        """The minimum seconds until a request may be sent, if ``ahead`` is spent before it."""
        now = self.clock.monotonic_ns()
        usage = self.rule.as_of(self.usage, now)
        excess = usage.used + ahead + cost - self.limit
        turns = usage.number + -(-excess // self.limit)
        begins = turns * self.rule.period - self.rule.offset if excess > 0 else now
        return max(self._look(cost), begins - now) / SECOND_NS

    @property
    def next_reset_time(self) -> float:
        """When all capacity is freed: seconds since the epoch, by this machine's clock.

        The offset of the exchange's clock is included; guard bands are not.
        """
        now = self.clock.monotonic_ns()
        turn = (self.rule.index(now) + 1) * self.rule.period - self.rule.offset
        return (self.clock.now_ns() + turn - now) / SECOND_NS

    def relimit(self, limit: int) -> None:
        """Apply another limit from now on; used capacity stays used."""
        checked(limit, self.period_s)
        self.keep(replace(self.rule, limit=limit))

    def align(self, offset_ms: float, error_ms: float = 0) -> None:
        """Set how far the exchange's clock is ahead of this one: ``offset_ms`` ± ``error_ms``."""
        ahead_ns = self.clock.now_ns() - self.clock.monotonic_ns()
        # However uncertain the exchange's clock is, half of each window stays open.
        most = self.rule.period // 4
        before = self.rule
        self.keep(
            replace(
                before,
                offset=ahead_ns + round(offset_ms * MS_NS),
                opening=min(ceil(error_ms * MS_NS), most),
                closing=min(ceil((error_ms + self.guard_ms) * MS_NS), most),
            )
        )
        self.usage = self.usage._replace(until=-FAR)
        if abs(self.rule.offset - before.offset) > min(self.rule.period // 2, SECOND_NS):
            self._carry(before)

    def _carry(self, before: FixedRule) -> None:
        """Count recent usage in the current window, after a clock step changed its number.

        Usage in a window that the new clock reaches in an hour would count until then; usage in
        one that it has passed would be dropped at once.
        """
        now = self.clock.monotonic_ns()
        number, usage = self.rule.index(now), before.as_of(self.usage, now)
        if self.usage.number < 0 or number == usage.number:
            return
        spent = usage.used + usage.before
        self.usage = usage._replace(used=spent, spent=spent, number=number, reported=0, before=0)


class SlidingWindow(Window[SlidingUsage]):
    """Each use is freed exactly one period later: no period has more usage than the limit."""

    __slots__ = ()

    def __init__(self, limit: int, period_s: float, clock: Clock | None = None) -> None:
        period_ns = checked(limit, period_s)
        super().__init__(SlidingRule(limit, period_ns), period_s, clock or SystemClock())


def checked(limit: int, period_s: float) -> int:
    """The period in nanoseconds. Raises ``BadLimit`` unless both are numbers above zero."""
    if type(limit) is not int or limit < 1:
        raise BadLimit(f"A limit of {limit!r} lets nothing through: say a whole number above zero.")
    return whole_ns(period_s)


def whole_ns(seconds: Any) -> int:
    """Seconds as whole nanoseconds. Raises ``BadLimit`` below 1 ns, and from 1e9 s on."""
    if not isinstance(seconds, int | float) or not 1 / SECOND_NS <= seconds < 1e9:
        raise BadLimit(f"A period of {seconds!r} s is not allowed. Allowed: seconds, above zero.")
    return round(seconds * SECOND_NS)
