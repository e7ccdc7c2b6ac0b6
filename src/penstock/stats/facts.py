"""Facts about statistics and alerts."""

from typing import ClassVar

from penstock.stats.statistics import StorageStatistics
from penstock.telemetry import Fact, Level


class StorageMeasured(Fact, frozen=True, kw_only=True):
    """The files of the data folder and of the lake were measured."""

    level: ClassVar[Level] = "debug"

    statistics: StorageStatistics


class StatisticsFailed(Fact, frozen=True, kw_only=True):
    """The data folder could not be measured, or the result not be stored; it is retried."""

    level: ClassVar[Level] = "warning"

    reason: str


class AlertFired(Fact, frozen=True, kw_only=True):
    """Something is wrong, and an operator should know."""

    level: ClassVar[Level] = "warning"

    rule: str
    subject: str
    message: str


class AlertResolved(Fact, frozen=True, kw_only=True):
    """What an alert reported is over."""

    rule: str
    subject: str


class AlertsSent(Fact, frozen=True, kw_only=True):
    """Alerts were posted to the webhook."""

    level: ClassVar[Level] = "debug"

    alerts: int


class AlertsNotSent(Fact, frozen=True, kw_only=True):
    """The webhook did not accept alerts; they are sent again. Logged once until it does."""

    level: ClassVar[Level] = "warning"

    reason: str


class PostFailed(Fact, frozen=True, kw_only=True):
    """The webhook did not accept a post of alerts."""

    level: ClassVar[Level] = "debug"


class AlertsNotEvaluated(Fact, frozen=True, kw_only=True):
    """Alerts could not be evaluated, usually since the state store failed; it is retried. Logged
    once until it succeeds."""

    level: ClassVar[Level] = "warning"

    reason: str
