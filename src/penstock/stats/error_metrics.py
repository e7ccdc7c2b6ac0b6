"""Metrics of requests that fail, for the alerts in ``deploy/prometheus/rules.yml``."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from penstock.connectors.facts import BreakerOpened
from penstock.exchanges.facts import RequestFailed, RequestSent, SendingStopped
from penstock.telemetry import Fact

_FIRST_ERROR = 400


class ErrorMetrics:
    """Counters by exchange. All are at 0 from an exchange's first request on: Prometheus notices an
    increase only of a counter that it has seen before."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help_: str) -> Counter:
            return Counter(name, help_, ["exchange"], registry=registry)

        self._attempts = counter("penstock_request_attempts", "Requests, answered or not.")
        self._errors = counter(
            "penstock_request_errors", "Requests with a status of 400 or more, or no answer."
        )
        self._limited = counter(
            "penstock_rate_limit_errors", "Answers that ordered a stop: 429, a ban or their like."
        )
        self._opens = counter("penstock_breaker_opens", "Times that the circuit breaker opened.")

    def count(self, fact: Fact) -> None:
        """Count a fact of this process."""
        match fact:
            case RequestSent():
                self._add(fact.exchange, attempts=1, errors=int(fact.status >= _FIRST_ERROR))
            case RequestFailed():
                self._add(fact.exchange, attempts=1, errors=1)
            case SendingStopped():
                self._add(fact.exchange, limited=1)
            case BreakerOpened():
                self._add(fact.exchange, opens=1)

    def add(self, exchange: str, counted: Mapping[str, Any]) -> None:
        """Add what all processes have counted of an exchange, as the store has it."""
        answered = counted.get("requests", {})
        unanswered = sum(counted.get("failures", {}).values())
        refused = (n for status, n in answered.items() if int(status) >= _FIRST_ERROR)
        self._add(
            exchange,
            attempts=sum(answered.values()) + unanswered,
            errors=sum(refused) + unanswered,
            limited=counted.get("rate_limit_errors", 0),
            opens=counted.get("breaker_opens", 0),
        )

    def _add(
        self, exchange: str, attempts: int = 0, errors: int = 0, limited: int = 0, opens: int = 0
    ) -> None:
        self._attempts.labels(exchange).inc(attempts)
        self._errors.labels(exchange).inc(errors)
        self._limited.labels(exchange).inc(limited)
        self._opens.labels(exchange).inc(opens)
