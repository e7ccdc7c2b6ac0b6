"""Facts about ticks."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class TicksNotWritten(Fact, frozen=True, kw_only=True):
    """Ticks could not be written to the store of live values.

    The newest of each market is retried until it expires. Logged once for each outage.
    """

    level: ClassVar[Level] = "warning"
    store: str
    reason: str


class TicksWritten(Fact, frozen=True, kw_only=True):
    """Ticks are written again, after so many failures."""

    store: str
    failures: int
