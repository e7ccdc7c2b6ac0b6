"""The sliding rule frees each use exactly one period after it was taken."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeAlias

from penstock.errors import NeverGranted
from penstock.throttle.rules import FAR

SlidingUsage: TypeAlias = tuple[int, int, int, int, list[int]]
"""(used, when the oldest use is freed, first, end, log).

The log is ``at, cost, at, cost, …``; this usage is its part from ``first`` to ``end``. Only the
usage that ends at the log's end appends to it: so taking never changes a usage, and the next one
needs no copy. A refund sets the cost in the log to 0: a usage must not be used again after a refund
from it. A plain tuple, because named fields would cost a third of a take.
"""

_COMPACT_FROM = 4096


@dataclass(frozen=True, slots=True)
class SlidingRule:
    """Each use is freed exactly one period after it was taken."""

    limit: int
    period: int

    def fresh(self) -> SlidingUsage:
        return 0, FAR, 0, 0, []

    def take(self, usage: SlidingUsage, cost: int, now: int) -> tuple[SlidingUsage, int]:
        used, expires, first, end, log = usage
        if expires <= now:
            used, expires, first, end, log = usage = self.as_of(usage, now)
        used += cost
        if used > self.limit:
            return usage, self.wait(usage, cost, now)
        if len(log) != end:  # Another usage continues from this one: keep its entries.
            log, first, end = log[first:end], 0, end - first
        log.append(now)
        log.append(cost)
        if first == end:
            expires = now + self.period
        return (used, expires, first, end + 2, log), 0

    def wait(self, usage: SlidingUsage, cost: int, now: int) -> int:
        used, _, first, end, log = self.as_of(usage, now)
        excess = used + cost - self.limit
        if excess <= 0:
            return 0
        # Uses are freed in the order they were taken, so one from before the clock went back delays
        # those after it.
        latest = now - self.period
        for place in range(first, end, 2):
            if not log[place + 1]:
                continue
            latest = max(latest, log[place])
            excess -= log[place + 1]
            if excess <= 0:
                return latest + self.period - now
        return self.period

    def as_of(self, usage: SlidingUsage, now: int) -> SlidingUsage:
        if usage[1] > now:
            return usage
        used, _, first, end, log = usage
        edge = now - self.period
        while first < end and (log[first] <= edge or not log[first + 1]):
            used -= log[first + 1]
            first += 2
        if first > _COMPACT_FROM and 2 * first > end:
            log, first, end = log[first:end], 0, end - first
        return used, (log[first] + self.period if first < end else FAR), first, end, log

    def refund(self, usage: SlidingUsage, at: int, cost: int, now: int) -> SlidingUsage:
        if self.gone(at, now):
            return usage
        used, expires, first, end, log = usage
        place = _place(log, first, end, at, cost)
        if place is None:
            raise NeverGranted(at, cost)
        used -= cost
        if end - first > _COMPACT_FROM + 4 * used:
            # Every use that counts costs at least 1: most of these were refunded.
            log[place + 1] = 0
            live = [i for i in range(first, end, 2) if log[i + 1]]
            return self._of([log[i + half] for i in live for half in (0, 1)])
        log[place + 1] = 0
        return used, expires, first, end, log

    def gone(self, at: int, now: int) -> bool:
        return at <= now - self.period

    def observe(self, usage: SlidingUsage, reported: int, at: int, now: int) -> SlidingUsage:
        if self.gone(at, now):
            return usage
        usage = self.as_of(usage, now)
        foreign = reported - usage[0]
        if foreign <= 0:
            return usage
        return self._with(usage, now, foreign)

    def answered(self, usage: SlidingUsage, at: int, cost: int) -> SlidingUsage:  # noqa: ARG002
        return usage

    def holds(self, usage: SlidingUsage, at: int, now: int) -> bool:  # noqa: ARG002
        return not self.gone(at, now)

    def moved(self, usage: SlidingUsage, at: int, cost: int, now: int) -> SlidingUsage:
        return self._with(self.refund(usage, at, cost, now), now, cost)

    def spacing(self, usage: SlidingUsage, cost: int, since: int) -> int:  # noqa: ARG002
        return cost * self.period // self.limit

    def _with(self, usage: SlidingUsage, now: int, cost: int) -> SlidingUsage:
        used, expires, first, end, log = usage
        if len(log) != end:
            log, first, end = log[first:end], 0, end - first
        log += (now, cost)
        return used + cost, now + self.period if first == end else expires, first, end + 2, log

    def _of(self, log: list[int]) -> SlidingUsage:
        expires = log[0] + self.period if log else FAR
        return sum(log[1::2]), expires, 0, len(log), log


def _place(log: list[int], first: int, end: int, at: int, cost: int) -> int | None:
    """The index of the latest use of this cost that was taken at ``at``."""
    entries = range(first, end, 2)
    for place in reversed(entries[: bisect_right(entries, at, key=log.__getitem__)]):
        if log[place] != at:
            break
        if log[place + 1] == cost:
            return place
    # A clock that went back leaves a log out of order.
    matching = (i for i in reversed(entries) if log[i] == at and log[i + 1] == cost)
    return next(matching, None)
