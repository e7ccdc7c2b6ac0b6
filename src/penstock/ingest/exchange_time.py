"""The time of an exchange, by its gateway's estimate."""

from penstock.clock import Clock
from penstock.exchanges.base import ExchangeClient


def exchange_ms(gateway: ExchangeClient, clock: Clock) -> int:
    """The exchange's time, as far as it is known."""
    return round(clock.now_ms() + (gateway.offset.middle_ms if gateway.offset else 0))
