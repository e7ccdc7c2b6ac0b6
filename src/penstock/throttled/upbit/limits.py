"""Upbit's limits per second for each group, and the remaining requests in its responses.

https://docs.upbit.com/kr/reference/rate-limits. Limits per minute were removed in December 2024;
the ``min`` of ``Remaining-Req`` is a leftover constant.
"""

import re
from collections.abc import Mapping

from penstock.throttled.limits import ValidFrom

QUOTATION_GROUPS = ("market", "candle", "trade", "ticker", "orderbook")
"""Counted per address."""
PRIVATE_GROUPS = ("default", "order", "order-cancel-all")
"""Counted per account."""

ALIASES = {
    # One budget became five. The old name is charged to all five, so none is exceeded.
    "QUOTATION": QUOTATION_GROUPS,
    "EXCHANGE_ORDER": ("order",),
    "EXCHANGE_NON_ORDER": ("default",),
}
"""Former names of groups, and their current groups."""

# Remaining-Req: group=candle; min=600; sec=9
_SECOND_LEFT = re.compile(r"(?:^|;)\s*sec=([0-9]{1,6})\s*(?:;|$)")


def _groups(orders_per_s: int) -> Mapping[str, tuple[int, float]]:
    return {
        **dict.fromkeys(QUOTATION_GROUPS, (10, 1.0)),
        "default": (30, 1.0),
        "order": (orders_per_s, 1.0),
        "order-cancel-all": (1, 2.0),
    }


HISTORY = (
    ValidFrom(0, _groups(8)),
    ValidFrom(1_787_238_000_000, _groups(12)),  # 2026-08-21 in Seoul
)
"""Group → (requests, per this many seconds)."""


def read_left(headers: Mapping[str, str]) -> int | None:
    """The remaining requests of the response's group in this second; None if not given.

    The group's name is not read: its spelling has changed before, and the caller has it.
    """
    match = _SECOND_LEFT.search(headers.get("Remaining-Req", ""))
    return int(match[1]) if match else None
