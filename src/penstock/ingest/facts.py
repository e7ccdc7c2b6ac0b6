"""Facts about records that are missing."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class CandlesMissing(Fact, frozen=True, kw_only=True):
    """Candles that the log should hold are missing; a job was created that fetches them."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    interval: str
    since: str
    until: str
    job: str


class GapWatchFailed(Fact, frozen=True, kw_only=True):
    """A check for gaps without a job failed; it is repeated."""

    level: ClassVar[Level] = "error"

    error: str
