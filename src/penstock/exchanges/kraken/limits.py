"""Kraken neither announces its limits nor reports usage.

Public requests are limited per address, and those for trades and candles per address and pair. The
only documented number is that one request per second is always safe. Above that, requests are
rejected for some seconds, and for longer if the client continues; no header has the remaining
amount. So penstock keeps to one request per second in total, with a small burst, and one per pair.
"""

from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

PAIR = "pair/"
"""Prefix of the category of requests for one pair's trades or candles."""
LIMITS = (
    # In a measurement, some hundred requests in a row passed before the first was rejected.
    Limit(1, 1000, "request", kind="paced", burst=5),
    Limit(1, 1000, "request", category=f"{PAIR}*", kind="paced"),
)

STREAM_LIMITS = StreamLimits(
    # No maximum of streams or names is documented. The allowed rate of messages varies; a client
    # that exceeds it gets an error.
    streams_per_connection=1000,
    names_per_message=100,
    messages_per_second=5,
    connects=150,
    connects_period_s=600,
    lifetime_s=None,
    # A heartbeat comes every second; one may be late.
    heartbeat_s=2,
    pings_are_life=False,
    mixed_channels=False,
)
