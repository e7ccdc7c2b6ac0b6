"""The gate: what every request passes before it leaves.

A limit is data: how much may be spent per period, and on which requests it is counted. A gate keeps
several limits at once; a request is charged to all that count it, or to none. Whoever holds a
``GateGrant`` has paid; what never left this machine is given back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Limit:
    """So much per period, on requests of some kind."""

    amount: int
    period_ms: int
    unit: Literal["weight", "request"] = "weight"
    """Whether a request counts with its cost, or as one."""
    category: str = ""
    """Which requests it counts; empty counts all. ``pair/*`` is a limit of its own for each
    category that begins with ``pair/``."""
    kind: Literal["aligned", "paced"] = "aligned"
    """Counted in windows aligned to the exchange's clock, or kept by the distance between
    requests: ``amount`` per period evenly, and ``burst`` at once."""
    burst: int = 0
    """Only where it is paced; 0 is as good as 1. No period ever sees more than amount + burst, so
    choose both to fit what the exchange counts."""

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
        """Whether each category it counts has this limit for itself."""
        return self.category.endswith("*")

    def of(self, category: str) -> "Limit":
        """The limit that counts this category: a single one, where each has its own."""
        return replace(self, category=category) if self.is_for_each else self

    @property
    def most(self) -> int:
        """The dearest request that it can ever let through."""
        return self.amount if self.kind == "aligned" else max(1, self.burst)


class GateGrant(Protocol):
    """Leave to send one request now."""

    def good(self) -> bool:
        """Whether it may still leave: after a slow connect the window may have closed."""
        ...

    def answered(self) -> None:
        """The exchange answered: from now on its own count includes this request."""
        ...

    def refund(self) -> None:
        """It never left this machine. What reached the exchange was counted there: no refund."""
        ...


class Gate(Protocol):
    """Lets requests through no faster than an exchange allows. Instants are this machine's ms."""

    async def acquire(self, cost: int, category: str = "") -> GateGrant:
        """Pay, waiting for capacity if there is none.

        Raises:
            RateLimited: the wait would exceed the gate's timeout. Nothing was spent.
            CostExceedsLimit: no wait would ever be long enough.
        """
        ...

    def observe(self, category: str, used: int, window_ms: int, at_ms: int) -> None:
        """The exchange says so much weight was used in its window when it saw a request.

        ``at_ms`` is when that request was sent. Paced limits count no windows and ignore it.
        """
        ...

    def block_until(self, at_ms: int) -> None:
        """The exchange said stop: grant nothing before this instant."""
        ...

    def align(self, offset_ms: float, error_ms: float) -> None:
        """The exchange's clock is ahead of this one by ``offset_ms``, give or take the error."""
        ...

    def used(self) -> Mapping[Limit, int]:
        """How much of each limit is used in its present window."""
        ...

    def adopt(self, limits: Sequence[Limit]) -> None:
        """Keep these limits from now on: the exchange announced them."""
        ...
