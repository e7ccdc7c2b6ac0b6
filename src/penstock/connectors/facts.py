"""Facts about what all processes share of an exchange."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


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
