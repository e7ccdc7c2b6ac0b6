"""What all processes share, in Prometheus' text format: limits, jobs, requests, gaps and alerts."""

from collections import Counter as Counted
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from penstock.backup.outcome import BackupOutcome
from penstock.connectors.model import Connector
from penstock.coverage.model import GapRow
from penstock.resilience.breaker import Breaker
from penstock.stats.alerts import Alert
from penstock.stats.error_metrics import ErrorMetrics
from penstock.stats.merging import families

JobCounts = Mapping[str, Mapping[str, int]]
"""By exchange: the number of live jobs in each state."""


def fleet_text(  # noqa: PLR0913 - each is what one table of the store holds
    connectors: Sequence[Connector],
    jobs: JobCounts,
    counters: Sequence[Mapping[str, Any]] = (),
    *,
    gaps: Sequence[GapRow] = (),
    breakers: Mapping[str, Breaker] | None = None,
    backups: Sequence[BackupOutcome] = (),
    alerts: Iterable[Alert] = (),
) -> bytes:
    """The metrics from the state store, in Prometheus' text format."""
    registry = CollectorRegistry()
    _add_counters(counters, registry)
    _add_limits(connectors, registry)
    _add_connectors(connectors, registry)
    states = Gauge("penstock_jobs", "Live jobs by state.", ["exchange", "state"], registry=registry)
    for exchange, counts in jobs.items():
        for state, count in counts.items():
            states.labels(exchange, state).set(count)
    _add_problems(gaps, breakers or {}, alerts, registry)
    _add_backups(backups, registry)
    return generate_latest(registry)


def _add_problems(
    gaps: Sequence[GapRow],
    breakers: Mapping[str, Breaker],
    alerts: Iterable[Alert],
    registry: CollectorRegistry,
) -> None:
    labels = ["exchange", "channel"]
    number = Gauge("penstock_gaps_open", "Gaps that are open.", labels, registry=registry)
    oldest = Gauge(
        "penstock_gaps_open_since_timestamp_seconds", "When the oldest open gap was found.", labels,
        registry=registry,
    )  # fmt: skip
    for (exchange, channel), count in Counted((gap.exchange, gap.channel) for gap in gaps).items():
        number.labels(exchange, channel).set(count)
        opened = (g.opened_ms for g in gaps if (g.exchange, g.channel) == (exchange, channel))
        oldest.labels(exchange, channel).set(min(opened) / 1000)
    is_open = Gauge(
        "penstock_breaker_open", "Whether the circuit breaker is open.", ["exchange"],
        registry=registry,
    )  # fmt: skip
    for exchange, breaker in breakers.items():
        is_open.labels(exchange).set(not breaker.is_closed())
    firing = Gauge(
        "penstock_alerts_firing", "Alerts that fire.", ["rule", "severity"], registry=registry
    )
    for alert in alerts:
        firing.labels(alert.rule, alert.severity).inc(alert.state == "firing")


def _add_backups(backups: Sequence[BackupOutcome], registry: CollectorRegistry) -> None:
    def gauge(name: str, words: str) -> Gauge:
        return Gauge(f"penstock_backup_{name}", words, ["host", "folder"], registry=registry)

    failed = gauge("failed", "Whether the last backup failed, or its rehearsal.")
    made = gauge("last_timestamp_seconds", "When the last backup was made.")
    verified = gauge("verified_timestamp_seconds", "When a backup was last restored and checked.")
    size = gauge("bytes", "Size of the last backup.")
    not_copied = gauge("copy_failed", "Whether the last sync with the remote failed.")
    copied = gauge("copied_timestamp_seconds", "When the remote was last equal to the backups.")
    for each in backups:
        place = each.host, each.folder
        failed.labels(*place).set(bool(each.problem))
        if each.copied_ms is not None or each.copy_problem:
            not_copied.labels(*place).set(bool(each.copy_problem))
        if each.copied_ms is not None:
            copied.labels(*place).set(each.copied_ms / 1000)
        if each.made_ms is not None:
            made.labels(*place).set(each.made_ms / 1000)
            size.labels(*place).set(each.size_bytes)
        if each.verified_ms is not None:
            verified.labels(*place).set(each.verified_ms / 1000)


def _add_counters(counters: Sequence[Mapping[str, Any]], registry: CollectorRegistry) -> None:
    """Add the counters that all processes sum up in the store."""
    requests = Counter(
        "penstock_requests", "Requests that an exchange answered.", ["exchange", "status"],
        registry=registry,
    )  # fmt: skip
    failures = Counter(
        "penstock_request_failures", "Requests that got no answer.", ["exchange", "sent"],
        registry=registry,
    )  # fmt: skip
    cost = Counter(
        "penstock_request_cost", "Cost of answered requests, in the exchange's units.",
        ["exchange"], registry=registry,
    )  # fmt: skip
    errors = ErrorMetrics(registry)
    runs = Counter(
        "penstock_job_runs", "Runs of jobs by outcome.", ["exchange", "outcome"],
        registry=registry,
    )  # fmt: skip
    for one in counters:
        name = one["exchange_id"]
        cost.labels(name).inc(one.get("cost", 0))
        errors.add(name, one)
        for counter, field in ((requests, "requests"), (failures, "failures"), (runs, "jobs")):
            for label, count in one.get(field, {}).items():
                counter.labels(name, label).inc(count)


def store_text(*, up: bool) -> bytes:
    """Whether the state store answers, in Prometheus' text format."""
    registry = CollectorRegistry()
    Gauge("penstock_store_up", "Whether the state store answers.", registry=registry).set(up)
    return generate_latest(registry)


def _add_limits(connectors: Sequence[Connector], registry: CollectorRegistry) -> None:
    labels = ["exchange", "limit"]
    amount = Gauge("penstock_limit", "Amount allowed per period.", labels, registry=registry)
    used = Gauge("penstock_limit_used", "Amount used by all processes.", labels, registry=registry)
    counted = Gauge(
        "penstock_limit_counted", "Amount used as counted by the exchange.", labels,
        registry=registry,
    )  # fmt: skip
    reset = Gauge(
        "penstock_limit_reset_timestamp_seconds", "When the limit resets, by the store's clock.",
        labels, registry=registry,
    )  # fmt: skip
    for connector in connectors:
        for limit in connector.limits:
            name = " ".join(filter(None, (limit.unit, limit.category, f"{limit.period_ms}ms")))
            where = (connector.exchange_id, name)
            amount.labels(*where).set(limit.amount)
            used.labels(*where).set(limit.used)
            if limit.server_used is not None:
                counted.labels(*where).set(limit.server_used)
            if limit.reset_at is not None:
                reset.labels(*where).set(limit.reset_at / 1000)


def _add_connectors(connectors: Sequence[Connector], registry: CollectorRegistry) -> None:
    labels = ["exchange"]
    saturated = Counter(
        "penstock_limit_saturations",
        "Times a limit had no capacity.",
        labels,
        registry=registry,
    )
    blocked = Gauge(
        "penstock_blocked_until_timestamp_seconds",
        "End of the exchange's last block; 0 if there was none.",
        labels, registry=registry,
    )  # fmt: skip
    active = Gauge(
        "penstock_connector_active", "Whether a connector may be used.", labels, registry=registry
    )
    for connector in connectors:
        name = connector.exchange_id
        saturated.labels(name).inc(connector.saturation_count)
        blocked.labels(name).set((connector.blocked_until or 0) / 1000)
        active.labels(name).set(connector.status == "active")


_FAMILIES = families(fleet_text([], {}))
FLEET_FAMILIES = frozenset(
    _FAMILIES | {f"{each.removesuffix('_total')}_created" for each in _FAMILIES}
)
"""What a server knows of all processes together, and when it was first counted."""
