"""Rules define how spent capacity is freed. They are pure arithmetic.

A rule is immutable; a usage is a small value that can be held in memory or in a database. ``take``
maps one usage to the next and changes nothing else, so the same rule serves one process and a whole
fleet. Several limits are charged together by taking from each and keeping the results only if none
has to wait.

Times, periods and waits are integers in one unit of the caller's choice: nanoseconds within a
process, milliseconds in a database. A clock that goes back never frees capacity: what was spent
stays spent until the clock has passed it again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.errors import NeverGranted

FAR = 1 << 62
"""A time that is never reached."""

U = TypeVar("U", bound=tuple[Any, ...])


class Rule(Protocol[U]):
    """How one kind of limit counts. The first field of every usage is the used amount."""

    @property
    def limit(self) -> int:
        """The most that can be used at once."""
        ...

    def fresh(self) -> U:
        """The usage of a limit that has not been used yet."""
        ...

    def take(self, usage: U, cost: int, now: int) -> tuple[U, int]:
        """Charge ``cost``; the wait is 0 if it was charged, else the time until it fits.

        A refused request leaves the usage unchanged, except for what has been freed since.
        """
        ...

    def wait(self, usage: U, cost: int, now: int) -> int:
        """The wait that ``take`` would return."""
        ...

    def as_of(self, usage: U, now: int) -> U:
        """The same usage, without what has been freed by this time."""
        ...

    def refund(self, usage: U, at: int, cost: int, now: int) -> U:
        """Refund what was taken at ``at``; capacity that has been freed is not freed twice.

        Raises:
            NeverGranted: that much cannot have been taken then.
        """
        ...

    def gone(self, at: int, now: int) -> bool:
        """Whether what was taken at ``at`` has been freed without a refund."""
        ...

    def observe(self, usage: U, reported: int, at: int, now: int) -> U:
        """Apply the exchange's own count at ``at``. Never frees capacity."""
        ...

    def answered(self, usage: U, at: int, cost: int) -> U:
        """Mark what was taken at ``at`` as included in the exchange's own count."""
        ...

    def holds(self, usage: U, at: int, now: int) -> bool:
        """Whether a request charged at ``at`` and sent now counts where it was charged."""
        ...

    def moved(self, usage: U, at: int, cost: int, now: int) -> U:
        """Count from ``now`` on what was taken at ``at`` and still holds. Never frees capacity."""
        ...

    def spacing(self, usage: U, cost: int, since: int) -> int:
        """How long after ``since`` to send a request so that the rest is spread evenly."""
        ...


class FixedUsage(NamedTuple):
    """The usage of one window in a sequence that follows a clock."""

    used: int
    number: int
    """The number of the window, counted from the clock's zero."""
    since: int
    """When it was first taken from: what was taken before belongs to another window."""
    spent: int
    """What was granted in this window."""
    flying: int
    """The part of it that is in flight: the exchange's count may not include it yet."""
    reported: int
    """The exchange's highest count, which may include foreign usage."""
    before: int
    """What was used at the end of the previous window."""
    until: int
    """After the first take: until when more may be taken from it."""


_bare: Callable[[type[FixedUsage], tuple[int, ...]], FixedUsage] = tuple.__new__


@dataclass(frozen=True, slots=True)
class FixedRule:
    """All capacity is freed at once, at times aligned to a clock.

    Nothing is granted in the first ``opening`` and the last ``closing`` of a window, where it is
    uncertain in which window a request would arrive.
    """

    limit: int
    period: int
    offset: int = 0
    """How far the clock that windows follow is ahead."""
    opening: int = 0
    closing: int = 0
    answers: bool = False
    """Whether the caller reports for each request when it was answered."""

    def fresh(self) -> FixedUsage:
        return FixedUsage(0, -1, -FAR, 0, 0, 0, 0, -FAR)

    def take(self, usage: FixedUsage, cost: int, now: int) -> tuple[FixedUsage, int]:
        used, number, since, spent, flying, reported, before, until = usage
        if now >= until or used + cost > self.limit:
            usage = self.as_of(usage, now)
            wait = self.wait(usage, cost, now)
            if wait:
                return usage, wait
            used, number, since, spent, flying, reported, before, _ = usage
            until = (number + 1) * self.period - self.offset - self.closing
        spent += cost
        if self.answers:
            flying += cost
        used = reported + flying
        used = spent if used < spent else used
        # Not by ``FixedUsage(…)``, which costs as much as all the rest.
        fields = used, number, since, spent, flying, reported, before, until
        return _bare(FixedUsage, fields), 0

    def wait(self, usage: FixedUsage, cost: int, now: int) -> int:
        index, phase = divmod(now + self.offset, self.period)
        if phase >= self.period - self.closing:
            return self.period - phase + self.opening
        used = usage.used if index <= usage.number else 0
        if used + cost > self.limit:
            turn = max(index, usage.number) + 1
            return turn * self.period - self.offset + self.opening - now
        return max(0, self.opening - phase)

    def as_of(self, usage: FixedUsage, now: int) -> FixedUsage:
        index = self.index(now)
        if index <= usage.number:
            return usage
        before = usage.used if index == usage.number + 1 else 0
        return FixedUsage(0, index, now, 0, 0, 0, before, -FAR)

    def refund(self, usage: FixedUsage, at: int, cost: int, now: int) -> FixedUsage:
        if at < usage.since or self.index(now) > usage.number:
            return usage  # That window has ended: a refund now would add capacity to this one.
        if cost > usage.spent or at > now:
            raise NeverGranted(at, cost)
        flying = max(0, usage.flying - cost) if self.answers else 0
        return _leveled(usage._replace(spent=usage.spent - cost, flying=flying))

    def gone(self, at: int, now: int) -> bool:
        return self.index(at) < self.index(now)

    def observe(self, usage: FixedUsage, reported: int, at: int, now: int) -> FixedUsage:
        if self.index(at) != self.index(now):
            return usage  # The count of a window that has ended does not apply to this one.
        usage = self.as_of(usage, now)
        return _leveled(usage._replace(reported=max(usage.reported, reported)))

    def answered(self, usage: FixedUsage, at: int, cost: int) -> FixedUsage:
        if not self.answers or at < usage.since:
            return usage
        return _leveled(usage._replace(flying=max(0, usage.flying - cost)))

    def holds(self, usage: FixedUsage, at: int, now: int) -> bool:
        index, phase = divmod(now + self.offset, self.period)
        is_open = self.opening <= phase < self.period - self.closing
        return is_open and index == usage.number and at >= usage.since

    def moved(self, usage: FixedUsage, at: int, cost: int, now: int) -> FixedUsage:  # noqa: ARG002
        return usage

    def spacing(self, usage: FixedUsage, cost: int, since: int) -> int:
        left = self.limit - usage.used
        closes = (usage.number + 1) * self.period - self.offset - self.closing
        begins = usage.number * self.period - self.offset
        return cost * max(0, closes - max(since, begins)) // left if left > 0 else 0

    def index(self, at: int) -> int:
        """The number of the window that a time is in."""
        return (at + self.offset) // self.period


def _leveled(usage: FixedUsage) -> FixedUsage:
    return usage._replace(used=max(usage.spent, usage.reported + usage.flying))


class BucketUsage(NamedTuple):
    """How far a bucket was from full, and when."""

    used: int
    debt: int
    """The amount missing from full, in tokens times the rule's period: exact at any rate."""
    at: int


@dataclass(frozen=True, slots=True)
class BucketRule:
    """Capacity is refilled steadily, ``amount`` per ``period``, up to ``limit``."""

    limit: int
    amount: int
    period: int

    def fresh(self) -> BucketUsage:
        return BucketUsage(0, 0, -FAR)

    def take(self, usage: BucketUsage, cost: int, now: int) -> tuple[BucketUsage, int]:
        wait = self.wait(usage, cost, now)
        if wait:
            return usage, wait
        return self._owing(self._debt(usage, now) + cost * self.period, max(now, usage.at)), 0

    def wait(self, usage: BucketUsage, cost: int, now: int) -> int:
        excess = self._debt(usage, now) + (cost - self.limit) * self.period
        return -(-excess // self.amount) + max(0, usage.at - now) if excess > 0 else 0

    def as_of(self, usage: BucketUsage, now: int) -> BucketUsage:
        return self._owing(self._debt(usage, now), max(now, usage.at))

    def refund(self, usage: BucketUsage, at: int, cost: int, now: int) -> BucketUsage:
        # The refill since then may have filled the bucket; that part is no longer missing. At least
        # the rest is still missing, whatever was taken later.
        back = cost * self.period - self.amount * max(0, now - at)
        if back <= 0:
            return usage
        debt = self._debt(usage, now) - back
        if debt < 0 or at > now:
            raise NeverGranted(at, cost)
        return self._owing(debt, max(now, usage.at))

    def gone(self, at: int, now: int) -> bool:
        return self.amount * (now - at) >= self.limit * self.period

    def observe(self, usage: BucketUsage, reported: int, at: int, now: int) -> BucketUsage:
        debt = reported * self.period - self.amount * max(0, now - at)
        return self._owing(max(debt, self._debt(usage, now)), max(now, usage.at))

    def answered(self, usage: BucketUsage, at: int, cost: int) -> BucketUsage:  # noqa: ARG002
        return usage

    def holds(self, usage: BucketUsage, at: int, now: int) -> bool:  # noqa: ARG002
        return True

    def moved(self, usage: BucketUsage, at: int, cost: int, now: int) -> BucketUsage:  # noqa: ARG002
        return usage

    def spacing(self, usage: BucketUsage, cost: int, since: int) -> int:  # noqa: ARG002
        return cost * self.period // self.amount

    def _debt(self, usage: BucketUsage, now: int) -> int:
        return max(0, usage.debt - self.amount * max(0, now - usage.at))

    def _owing(self, debt: int, at: int) -> BucketUsage:
        return BucketUsage(-(-debt // self.period), debt, at)
