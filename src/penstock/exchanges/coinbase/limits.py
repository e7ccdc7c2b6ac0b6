"""Coinbase has a token bucket of requests per address, and does not report its usage.

https://docs.cdp.coinbase.com/exchange/rest-api/rate-limits. Ten public requests per second and up
to fifteen at once: a bucket of fifteen tokens, refilled by ten per second.
"""

from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

# A burst of ten and not fifteen: requests delayed by the network arrive closer together than they
# were sent, and the margin of five requests covers half a second of delay.
LIMITS = (Limit(10, 1000, "request", kind="paced", burst=10),)

# Signed requests are counted by profile: fifteen per second and up to thirty at once.
KEYED_LIMITS = (Limit(15, 1000, "request", kind="paced", burst=15),)

STREAM_LIMITS = StreamLimits(
    # No maximum of streams or names is documented.
    streams_per_connection=1000,
    names_per_message=100,
    # For connecting and subscribing together, per address; other messages have a limit of 100.
    messages_per_second=8,
    connects=8,
    connects_period_s=1,
    lifetime_s=None,
    # Heartbeats, requested with every subscription, come every second; one may be late.
    heartbeat_s=2,
    pings_are_life=False,
    mixed_channels=False,
)
