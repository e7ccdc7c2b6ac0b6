"""Upbit's limits: ten requests a second in each group of endpoints, counted per address.

https://docs.upbit.com/kr/reference/rate-limits. Whether a second is the clock's or any other is not
written, so requests are kept apart: then no second of either kind sees too many. Whoever goes on
after a 429 is shut out with a 418, for longer every time.
"""

import re
from collections.abc import Mapping

from penstock.exchanges.base import Usage
from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

GROUPS = ("market", "candle", "trade", "ticker", "orderbook")
"""Categories of requests."""
_PER_SECOND = 10
# Eight, and not two at once: requests that the network held up arrive closer together than they
# left, and one in hand makes up for an eighth of a second of that.
_LIMITS = tuple(Limit(8, 1000, "request", category=group, kind="paced") for group in GROUPS)
# Remaining-Req: group=candle; min=600; sec=9
_REMAINING = re.compile(r"group=([\w-]{1,40})\s*;.*\bsec=([0-9]{1,6})\b", re.ASCII)


def limits_at(_at_ms: int) -> tuple[Limit, ...]:
    """The limits known to hold at an instant: the same at all of them."""
    return _LIMITS


def usages(headers: Mapping[str, str]) -> list[Usage]:
    """What an answer says is used of its group in this second; ``min`` is a relic.

    The group is told as the exchange spells it, which has changed before.
    """
    found = _REMAINING.search(headers.get("remaining-req", ""))
    return [Usage(found[1], max(0, _PER_SECOND - int(found[2])), 1000)] if found else []


STREAM_LIMITS = StreamLimits(
    # No number is documented. A request names all there is to send, so there is but one.
    streams_per_connection=1000,
    names_per_message=1000,
    # And a hundred a minute, which a request now and then does not come near.
    messages_per_second=5,
    connects=5,
    connects_period_s=1,
    lifetime_s=None,
    # Closed after two minutes in which nothing was sent either way; a ping is answered.
    heartbeat_s=15,
    acknowledges=False,
    ping="PING",
    ping_every_s=10,
)
