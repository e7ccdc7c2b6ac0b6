"""Facts about live values."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class LiveChangesLost(Fact, frozen=True, kw_only=True):
    """Changes of live values cannot be received at the moment.

    It is retried; then subscribers receive all present values. Logged once for each outage.
    """

    level: ClassVar[Level] = "warning"
    store: str
    space: str
    reason: str
