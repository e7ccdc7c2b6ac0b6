"""Kraken's limits, which it neither announces nor reports.

Public calls are limited per address, and those for trades and candles per address and pair. No
number is documented but one: a call a second is always safe. Above that, calls are refused for some
seconds, and for longer if one goes on; no header says how much is left. So the second is kept for
all calls together, with a little at once for a start, and once more for each pair.
"""

from collections.abc import Mapping

from penstock.exchanges.base import Usage
from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

PAIR = "pair/"
"""How the category of a call for one pair's trades or candles begins."""
_LIMITS = (
    # Measured from outside, some hundred calls in a row passed before the first was refused.
    Limit(1, 1000, "request", kind="paced", burst=5),
    Limit(1, 1000, "request", category=f"{PAIR}*", kind="paced"),
)


def limits_at(_at_ms: int) -> tuple[Limit, ...]:
    """The limits known to hold at an instant: the same at all of them."""
    return _LIMITS


def usages(_headers: Mapping[str, str]) -> list[Usage]:
    """What an answer's headers tell of the budget: nothing."""
    return []


STREAM_LIMITS = StreamLimits(
    # Neither a number of streams nor of names is documented; the rate of messages changes, and
    # whoever exceeds it is told so.
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
