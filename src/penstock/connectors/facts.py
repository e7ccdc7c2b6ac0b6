"""Facts about what all processes share of an exchange."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from penstock.telemetry import CountedFact, Fact, Level


class BudgetUnreachable(Fact, frozen=True, kw_only=True):
    """The store of the shared budget does not answer; nothing is sent meanwhile. Logged once."""

    level: ClassVar[Level] = "error"

    exchange: str
    reason: str


class BudgetReachable(Fact, frozen=True, kw_only=True):
    """The store of the shared budget answers again."""

    exchange: str


class MarketsChanged(Fact, frozen=True, kw_only=True):
    """An exchange lists symbols it did not list before, or no longer lists some."""

    exchange: str
    listed: tuple[str, ...]
    delisted: tuple[str, ...]


class BreakerOpened(CountedFact, frozen=True, kw_only=True):
    """Requests to an exchange failed too often: nothing is sent before ``retry_at_ms``."""

    level: ClassVar[Level] = "error"

    reason: str
    retry_at_ms: int

    def counts(self) -> Mapping[str, int]:
        return {"breaker_opens": 1}


class BreakerHalfOpen(Fact, frozen=True, kw_only=True):
    """One request at a time is sent to an exchange, to learn whether it answers again."""

    exchange: str
    probe_by: str


class BreakerClosed(Fact, frozen=True, kw_only=True):
    """An exchange answers again; the number of requests in flight grows step by step."""

    exchange: str


class BreakerForced(Fact, frozen=True, kw_only=True):
    """An operator forced the circuit breaker of an exchange, or made it automatic again."""

    level: ClassVar[Level] = "warning"

    exchange: str
    to: Literal["open", "closed", "automatic"]
