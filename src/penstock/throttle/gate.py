"""Every request acquires a grant from a gate before it is sent.

A limit is data: an amount per period, and the requests that it counts. A gate enforces several
limits at once; a request is charged to all that count it, or to none. A ``GateGrant`` has been
charged; it is refunded if its request never left this machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

Unit = Literal["weight", "request"]


@dataclass(frozen=True, slots=True)
class Limit:
    """An amount per period, for requests of some kind."""

    amount: int
    period_ms: int
    unit: Unit = "weight"
    """Whether a request counts with its cost, or as 1."""
    category: str = ""
    """The requests it counts; empty counts all. ``pair/*`` is a separate limit for each category
    that begins with ``pair/``."""
    kind: Literal["aligned", "paced"] = "aligned"
    """Counted in windows aligned to the exchange's clock, or enforced by the spacing of requests:
    ``amount`` per period evenly, and ``burst`` at once."""
    burst: int = 0
    """Only for paced limits; 0 is the same as 1. No period has more than amount + burst, so choose
    both to fit what the exchange counts."""

    def charge(self, cost: int, category: str) -> int:
        """What a request adds to this limit."""
        if not self.counts(category):
            return 0
        return cost if self.unit == "weight" else 1

    def counts(self, category: str) -> bool:
        """Whether it counts requests of this category."""
        if self.is_for_each:
            named = category not in ("", self.category)
            return named and category.startswith(self.category[:-1])
        return self.category in ("", category)

    @property
    def is_for_each(self) -> bool:
        """Whether each category it counts has a separate limit."""
        return self.category.endswith("*")

    def of(self, category: str) -> "Limit":
        """The limit that counts this category: a separate one if ``is_for_each``."""
        return replace(self, category=category) if self.is_for_each else self

    @property
    def most(self) -> int:
        """The highest cost of a request that it can ever grant."""
        return self.amount if self.kind == "aligned" else max(1, self.burst)


class GateGrant(Protocol):
    """Permission to send one request now."""

    def good(self) -> bool:
        """Whether it may still be sent: after a slow connect the window may have closed."""
        ...

    def answered(self) -> None:
        """Mark it as answered: from now on the exchange's own count includes this request."""
        ...

    def refund(self) -> None:
        """Refund a request that was never sent. The exchange counts any request it receives."""
        ...


class Gate(Protocol):
    """Grants requests no faster than an exchange allows. Times are this machine's, in ms."""

    async def acquire(self, cost: int, category: str = "") -> GateGrant:
        """Acquire a grant, waiting for capacity if there is none.

        Raises:
            RateLimited: the wait would exceed the gate's timeout. Nothing was spent.
            CostExceedsLimit: no wait would ever be long enough.
        """
        ...

    def observe(self, category: str, used: int, window_ms: int, at_ms: int) -> None:
        """Apply the exchange's own count: the weight used in its window when it got a request.

        ``at_ms`` is when that request was sent. Paced limits have no windows and ignore it.
        """
        ...

    def block_until(self, at_ms: int) -> None:
        """Grant nothing before this time: the exchange ordered a stop."""
        ...

    def align(self, offset_ms: float, error_ms: float) -> None:
        """Set how far the exchange's clock is ahead of this one: ``offset_ms`` ± ``error_ms``."""
        ...

    def used(self) -> Mapping[Limit, int]:
        """How much of each limit is used in its current window."""
        ...

    def adopt(self, limits: Sequence[Limit]) -> None:
        """Apply these limits from now on: the exchange announced them."""
        ...
