"""Makes the client of an exchange, with the operator's settings."""

from penstock.clock import Clock
from penstock.config import Settings
from penstock.exchanges.base import Exchange, ExchangeClient
from penstock.exchanges.facts import CapacityLow
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.keyed import signer_for
from penstock.resilience.backoff import Backoff
from penstock.resilience.circuit import CircuitBreaker, NoBreaker
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Gate, Limit
from penstock.throttle.local_gate import LocalGate


def gateway_for(
    exchange: Exchange,
    settings: Settings,
    clock: Clock,
    listener: Listener = quiet,
    gate: Gate | None = None,
    breaker: CircuitBreaker | None = None,
) -> Gateway:
    """A gateway with the operator's settings. Opens no connection yet.

    Without ``gate`` it gets a local one, which does not count the requests of other processes.

    Raises:
        ConfigError: there is an API key for the exchange, which cannot be used.
    """
    from penstock.exchanges.http import HttpTransport  # noqa: PLC0415 - only whoever sends waits for it

    requests = settings.requests
    gate = gate or _own_gate(exchange, settings, clock, listener)
    url = settings.exchanges.rest_urls.get(exchange.name, exchange.rest_url)
    transport = HttpTransport(url, requests)
    gateway = Gateway(
        exchange,
        transport,
        gate,
        clock,
        Backoff(
            attempts=requests.attempts,
            first_s=requests.first_delay,
            multiplier=requests.multiplier,
            longest_s=requests.longest_delay,
            jitter=requests.jitter,
        ),
        listener,
        breaker=breaker or NoBreaker(),
        longest_stop_ms=round(requests.longest_stop * 1000),
    )
    if sign := signer_for(exchange.name, exchange.keyed, settings.exchanges):
        transport.sign = lambda target: sign(target, gateway.exchange_ms())
    return gateway


def limits_for(exchange: Exchange, settings: Settings, now_ms: int) -> tuple[Limit, ...]:
    """The known limits of an exchange; those of API keys if there is a key for it.

    Raises:
        ConfigError: there is a key, which cannot be used.
    """
    if exchange.keyed and signer_for(exchange.name, exchange.keyed, settings.exchanges):
        return exchange.keyed.limits
    return exchange.limits(now_ms)


def client_for(
    exchange: Exchange,
    settings: Settings,
    clock: Clock,
    listener: Listener = quiet,
    gate: Gate | None = None,
    breaker: CircuitBreaker | None = None,
) -> ExchangeClient:
    """The client of an exchange: a gateway, or what the exchange's ``make_client`` returns."""
    gateway = gateway_for(exchange, settings, clock, listener, gate, breaker)
    return exchange.make_client(gateway, settings.exchanges) if exchange.make_client else gateway


def _own_gate(
    exchange: Exchange, settings: Settings, clock: Clock, listener: Listener
) -> LocalGate:
    requests = settings.requests
    gate = LocalGate(
        clock,
        limits_for(exchange, settings, clock.now_ms()),
        acquire_timeout_ms=round(requests.acquire_timeout * 1000),
        guard_ms=requests.guard_ms,
    )
    gate.add_listener(
        lambda low: listener(
            CapacityLow(
                exchange=exchange.name, timeframe=low.timeframe, remaining=low.remaining_cap
            )
        )
    )
    return gate
