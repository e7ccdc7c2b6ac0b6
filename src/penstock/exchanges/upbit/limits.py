"""Upbit allows ten requests per second and address in each group of endpoints.

https://docs.upbit.com/kr/reference/rate-limits. Whether windows are aligned or sliding is not
documented, so requests are paced: then no window of either kind has too many. A client that
continues after a 429 is banned with a 418, for longer every time.
"""

import re
from collections.abc import Mapping

from penstock.exchanges.base import Usage
from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit

GROUPS = ("market", "candle", "trade", "ticker", "orderbook")
"""Categories of requests."""
PER_SECOND = 10
"""Requests of each."""
# Eight, and no burst: requests delayed by the network arrive closer together than they were sent,
# and the margin of one request covers an eighth of a second of delay.
LIMITS = tuple(Limit(8, 1000, "request", category=group, kind="paced") for group in GROUPS)
# Remaining-Req: group=candle; min=600; sec=9
_REMAINING = re.compile(r"group=([\w-]{1,40})\s*;.*\bsec=([0-9]{1,6})\b", re.ASCII)


def remaining(headers: Mapping[str, str]) -> tuple[str, int] | None:
    """The group of a response, and the requests it has left in this second; ``min`` is obsolete.

    The group has the exchange's name for it, which has changed before.
    """
    found = _REMAINING.search(headers.get("remaining-req", ""))
    return (found[1], int(found[2])) if found else None


def usages(headers: Mapping[str, str]) -> list[Usage]:
    """The usage of a group in this second, as reported in a response."""
    left = remaining(headers)
    return [Usage(left[0], max(0, PER_SECOND - left[1]), 1000)] if left else []


STREAM_LIMITS = StreamLimits(
    # No maximum is documented. A request names all streams, so a single one is sent.
    streams_per_connection=1000,
    names_per_message=1000,
    # There is also a limit of a hundred per minute, far above the few requests that are sent.
    messages_per_second=5,
    connects=5,
    connects_period_s=1,
    lifetime_s=None,
    # The exchange closes a connection after two minutes without any message; it answers pings.
    heartbeat_s=15,
    acknowledges=False,
    ping="PING",
    ping_every_s=10,
)
