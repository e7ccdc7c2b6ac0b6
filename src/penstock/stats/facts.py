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
