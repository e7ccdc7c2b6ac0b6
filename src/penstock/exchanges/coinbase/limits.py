"""Coinbase's limits: a bucket of requests per address, which nothing in an answer tells of.

https://docs.cdp.coinbase.com/exchange/rest-api/rate-limits. Ten public requests a second and up to
fifteen at once: a bucket that holds fifteen and fills by ten a second.
"""

from collections.abc import Mapping

from penstock.exchanges.base import Usage
from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

# Ten at once and not fifteen: requests that the network held up arrive closer together than they
# left, and five in hand make up for half a second of that.
_LIMITS = (Limit(10, 1000, "request", kind="paced", burst=10),)


def limits_at(_at_ms: int) -> tuple[Limit, ...]:
    """The limits known to hold at an instant: the same at all of them."""
    return _LIMITS


def usages(_headers: Mapping[str, str]) -> list[Usage]:
    """What an answer's headers tell of the budget: nothing."""
    return []


STREAM_LIMITS = StreamLimits(
    # Neither a number of streams nor of names is documented.
    streams_per_connection=1000,
    names_per_message=100,
    # Of connecting and subscribing together, per address; of anything else a hundred.
    messages_per_second=8,
    connects=8,
    connects_period_s=1,
    lifetime_s=None,
    # Heartbeats, which are asked for with everything, come every second; one may be late.
    heartbeat_s=2,
    pings_are_life=False,
    mixed_channels=False,
)
