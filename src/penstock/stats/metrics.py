"""Counts the facts of one process, and returns Prometheus' text format.

What all processes share is read from the state store at each scrape (``fleet_metrics``).
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from penstock.collect.facts import (
    BookDrifted,
    FetchDone,
    FetchFailed,
    StreamProbed,
    StreamRecovered,
    StreamStalled,
    StreamSuspected,
)
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.publish.facts import BusFell, MessagesDropped
from penstock.stats.error_metrics import ErrorMetrics
from penstock.stats.facts import AlertsSent, PostFailed
from penstock.stats.keep_metrics import KeepMetrics
from penstock.stats.storage_metrics import StorageMetrics
from penstock.stats.ticker_metrics import TickerMetrics
from penstock.telemetry import Fact
from penstock.web.facts import LoginFailed, RequestCrashed, RequestServed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# A client can invent methods, and each label's value is kept for ever.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_TOOK_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """A listener that counts facts in its own registry.

    With ``of_fleet`` requests are left out, since ``fleet_text`` has those of all processes.
    """

    def __init__(self, *, of_fleet: bool = False) -> None:
        self.registry = registry = CollectorRegistry()
        own = CollectorRegistry() if of_fleet else registry
        self._requests = Counter(
            "penstock_requests", "Requests that an exchange answered.", ["exchange", "status"],
            registry=own,
        )  # fmt: skip
        self._failures = Counter(
            "penstock_request_failures", "Requests that got no answer.", ["exchange", "sent"],
            registry=own,
        )  # fmt: skip
        self._cost = Counter(
            "penstock_request_cost", "Cost of answered requests, in the exchange's units.",
            ["exchange"], registry=own,
        )  # fmt: skip
        self._errors = ErrorMetrics(own)
        self._took = Histogram(
            "penstock_request_seconds", "Duration of answered requests.", ["exchange"],
            registry=registry, buckets=_TOOK_S,
        )  # fmt: skip
        self._served = Counter(
            "penstock_api_requests", "Requests that the API answered.", ["method", "status"],
            registry=registry,
        )  # fmt: skip
        self._crashed = Counter(
            "penstock_api_crashes", "Unexpected errors of the API.", registry=registry
        )
        self._logins = Counter(
            "penstock_api_failed_logins", "Wrong tokens sent to the API.", registry=registry
        )
        self._dropped = Counter(
            "penstock_bus_dropped", "Messages that the bus dropped.", ["slot"],
            registry=registry,
        )  # fmt: skip
        self._overflows = Counter(
            "penstock_bus_overflows", "Times a subscriber's queue was full.",
            registry=registry,
        )  # fmt: skip
        self._missed = Counter(
            "penstock_bus_missed", "Messages that subscribers missed.", registry=registry
        )
        self._streams = _StreamMetrics(registry)
        self._drifts = Counter(
            "penstock_book_drifts", "Audits that found a difference.", ["exchange", "symbol"],
            registry=registry,
        )  # fmt: skip
        self._drifted = Counter(
            "penstock_book_drift_levels", "Levels that differed in audits.", ["exchange", "symbol"],
            registry=registry,
        )  # fmt: skip
        self._fetches = _FetchMetrics(registry)
        self._keeping = KeepMetrics(registry)
        self._alerts = Counter(
            "penstock_alerts_sent", "Alerts that the webhook accepted.", registry=registry
        )
        self._alert_failures = Counter(
            "penstock_alert_failures", "Posts of alerts that the webhook did not accept.",
            registry=registry,
        )  # fmt: skip
        self._storage, self._tickers = StorageMetrics(), TickerMetrics()
        registry.register(self._storage)
        registry.register(self._tickers)

    def __call__(self, fact: Fact) -> None:
        """Count a fact."""
        self._errors.count(fact)
        self._streams.count(fact)
        self._fetches.count(fact)
        self._keeping.count(fact)
        self._storage.count(fact)
        self._tickers.count(fact)
        match fact:
            case RequestSent():
                self._requests.labels(fact.exchange, fact.status).inc()
                self._cost.labels(fact.exchange).inc(fact.cost)
                self._took.labels(fact.exchange).observe(fact.took_ms / 1000)
            case RequestFailed():
                self._failures.labels(fact.exchange, str(fact.sent).lower()).inc()
            case RequestServed():
                method = fact.method if fact.method in _METHODS else "other"
                self._served.labels(method, fact.status).inc()
            case RequestCrashed():
                self._crashed.inc()
            case LoginFailed():
                self._logins.inc()
            case MessagesDropped():
                self._dropped.labels(fact.slot).inc(fact.count)
            case BusFell():
                self._overflows.inc(fact.overflows)
                self._missed.inc(fact.missed)
            case BookDrifted():
                self._drifts.labels(fact.exchange, fact.symbol).inc()
                self._drifted.labels(fact.exchange, fact.symbol).inc(fact.levels)
            case AlertsSent():
                self._alerts.inc(fact.alerts)
            case PostFailed():
                self._alert_failures.inc()

    def text(self) -> bytes:
        """The counts of this process, in Prometheus' text format."""
        return generate_latest(self.registry)


class _StreamMetrics:
    """Metrics of silent streams."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["exchange", "channel"]
        self._suspected = Counter(
            "penstock_stream_suspicions", "Silences longer than usual.", labels,
            registry=registry,
        )  # fmt: skip
        self._probes = Counter(
            "penstock_stream_looks", "Probes of silent streams' markets.",
            ["exchange", "found"], registry=registry,
        )  # fmt: skip
        self._remedies = Counter(
            "penstock_stream_remedies", "Actions taken on stalled streams.",
            ["exchange", "remedy"], registry=registry,
        )  # fmt: skip
        self._stalled = Gauge(
            "penstock_streams_mute", "Silent streams whose markets change.", labels,
            registry=registry,
        )  # fmt: skip
        self._stalled_streams: set[tuple[str, str, str]] = set()

    def count(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case StreamSuspected():
                self._suspected.labels(fact.exchange, fact.channel).inc()
            case StreamProbed():
                self._probes.labels(fact.exchange, fact.found).inc()
            case StreamStalled():
                self._remedies.labels(fact.exchange, fact.remedy).inc()
                self._note_stalled(fact, stalled=True)
            case StreamRecovered():
                self._note_stalled(fact, stalled=False)

    def _note_stalled(self, fact: StreamStalled | StreamRecovered, *, stalled: bool) -> None:
        """Count each stream once, however often it is found to be stalled."""
        stream = (fact.exchange, fact.channel, fact.symbol)
        if stalled is not (stream in self._stalled_streams):
            self._stalled_streams ^= {stream}
            self._stalled.labels(fact.exchange, fact.channel).inc(1 if stalled else -1)


class _FetchMetrics:
    """Metrics of a fetcher's loops."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["exchange", "what"]
        self._fetches = Counter(
            "penstock_fetches", "Successful fetches.", labels, registry=registry
        )
        self._records = Counter(
            "penstock_fetch_records", "Records written by fetches.", labels, registry=registry
        )
        self._failures = Counter(
            "penstock_fetch_failures", "Failed fetches.", labels, registry=registry
        )
        self._last = Gauge(
            "penstock_fetch_last_timestamp_seconds", "Time of the last successful fetch.", labels,
            registry=registry,
        )  # fmt: skip

    def count(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case FetchDone():
                self._fetches.labels(fact.exchange, fact.what).inc()
                self._records.labels(fact.exchange, fact.what).inc(fact.records)
                self._last.labels(fact.exchange, fact.what).set(fact.at_ms / 1000)
            case FetchFailed():
                self._failures.labels(fact.exchange, fact.what).inc()
