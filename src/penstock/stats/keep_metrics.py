"""Metrics of the keeper: the sizes of the log and of the lake, and how far the log is sealed.

The keeper measures both with every seal; a scrape returns what it measured last.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from penstock.keep.facts import (
    ChannelSealed,
    KeepingFailed,
    LakeMeasured,
    LogMeasured,
    RecordsSealed,
)
from penstock.telemetry import Fact


class KeepMetrics:
    """Metrics of a keeper's work."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._log = Gauge(
            "penstock_log_bytes", "Size of a slot of the log on disk.", ["slot"], registry=registry
        )
        self._log_max: Gauge | None = None
        """None until it is known: other processes must not report that there is no maximum."""
        self._lake = Gauge(
            "penstock_lake_bytes", "Size of a table of the lake.", ["table"], registry=registry
        )
        self._sealed = Counter(
            "penstock_sealed_records", "Records moved to the lake.", ["slot", "table"],
            registry=registry,
        )  # fmt: skip
        self._before = Gauge(
            "penstock_sealed_before_timestamp_seconds",
            "Records that were received before this time are in the lake.", ["slot", "table"],
            registry=registry,
        )  # fmt: skip
        self._failures = Counter(
            "penstock_keeping_failures", "Failed parts of the keeper's work.", registry=registry
        )

    def count(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case LogMeasured():
                for slot, size in fact.slots.items():
                    self._log.labels(slot).set(size)
                self._set_log_max(fact.max_bytes)
            case LakeMeasured():
                for table, size in fact.tables.items():
                    self._lake.labels(table).set(size)
            case RecordsSealed():
                self._sealed.labels(fact.slot, fact.table).inc(fact.rows)
            case ChannelSealed():
                self._before.labels(fact.slot, fact.table).set(fact.before_ms / 1000)
            case KeepingFailed():
                self._failures.inc()

    def _set_log_max(self, max_bytes: int) -> None:
        if self._log_max is None:
            self._log_max = Gauge(
                "penstock_log_max_bytes", "Maximum size of the log; 0 if there is none.",
                registry=self._registry,
            )  # fmt: skip
        self._log_max.set(max_bytes)
