"""Counts the usage of one rule by one address, key or connection.

There is one object for each address that was active within a period, possibly tens of thousands, so
they are small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.simulator.engine.rules import Rule

_MOST_ENTRIES = 8192
"""With more entries than this, entries are merged and times get coarser."""


class Usage(Protocol):
    """The usage of one rule by one address, key or connection. Times never decrease."""

    def used(self, rule: Rule, at_ms: int) -> int: ...

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        """The time until ``cost`` fits; 0 if it fits now, a period if it never will."""
        ...

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None: ...


@dataclass(slots=True)
class Aligned:
    """A window that begins at whole multiples of the period."""

    window: int = -1
    amount: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        return self.amount if at_ms // rule.period_ms == self.window else 0

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        if self.used(rule, at_ms) + cost <= rule.limit:
            return 0
        return rule.period_ms - at_ms % rule.period_ms

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.amount = self.used(rule, at_ms) + cost
        self.window = at_ms // rule.period_ms


@dataclass(slots=True)
class Sliding:
    """A window that ends with the arrival."""

    # One entry per millisecond, however many arrivals, and at most _MOST_ENTRIES.
    # A list, because an empty deque allocates 64 entries and most addresses need one.
    charges: list[tuple[int, int]] = field(default_factory=list)
    amount: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        before_ms, over = at_ms - rule.period_ms, 0
        for charged_ms, amount in self.charges:
            if charged_ms > before_ms:
                break
            self.amount -= amount
            over += 1
        if over:
            del self.charges[:over]
        return self.amount

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        excess = self.used(rule, at_ms) + cost - rule.limit
        if excess <= 0:
            return 0
        if cost > rule.limit:
            return rule.period_ms
        # From the latest: only the entries that fit the limit are read, however many there are.
        room = rule.limit - cost
        for charged_ms, amount in reversed(self.charges):
            room -= amount
            if room < 0:
                return charged_ms + rule.period_ms - at_ms
        return 0

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.used(rule, at_ms)
        if self.charges and self.charges[-1][0] == at_ms:
            cost_before = self.charges.pop()[1]
            self.charges.append((at_ms, cost_before + cost))
        else:
            self.charges.append((at_ms, cost))
            if len(self.charges) > _MOST_ENTRIES:
                self._merge()
        self.amount += cost

    def _merge(self) -> None:
        """Halve the number of entries: merge pairs into one, at the later time."""
        entries = [*self.charges]
        odd = entries[: len(entries) % 2]
        pairs = zip(entries[len(odd) :: 2], entries[len(odd) + 1 :: 2], strict=True)
        self.charges = [*odd, *((later[0], one[1] + later[1]) for one, later in pairs)]


@dataclass(slots=True)
class Bucket:
    """A bucket that drains evenly, ``limit`` in a period."""

    # The level is in 1/period_ms of a unit, so that draining `limit` per period is a whole number
    # per millisecond and nothing is rounded.
    level: int = 0
    since_ms: int = 0

    def used(self, rule: Rule, at_ms: int) -> int:
        return -(-self._level(rule, at_ms) // rule.period_ms)

    def wait_ms(self, rule: Rule, cost: int, at_ms: int) -> int:
        excess = self._level(rule, at_ms) + (cost - rule.limit) * rule.period_ms
        if excess <= 0:
            return 0
        return rule.period_ms if cost > rule.limit else -(-excess // rule.limit)

    def charge(self, rule: Rule, cost: int, at_ms: int) -> None:
        self.level = self._level(rule, at_ms) + cost * rule.period_ms
        self.since_ms = at_ms

    def _level(self, rule: Rule, at_ms: int) -> int:
        return max(0, self.level - (at_ms - self.since_ms) * rule.limit)


USAGES: Mapping[str, type[Aligned] | type[Sliding] | type[Bucket]] = {
    "aligned": Aligned,
    "sliding": Sliding,
    "bucket": Bucket,
}
"""By the kind of rule."""
