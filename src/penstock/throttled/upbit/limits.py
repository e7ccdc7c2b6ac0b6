"""Upbit's limits for each group: those of ``exchanges/upbit/limits.py``, and of private groups.

https://docs.upbit.com/kr/reference/rate-limits. Limits per minute were removed in December 2024.
Private groups are counted per account; penstock's own client has no use for them.
"""

from collections.abc import Mapping

from penstock.exchanges.upbit.limits import GROUPS, PER_SECOND

ALIASES = {
    # One budget became five. The old name is charged to all five, so none is exceeded.
    "QUOTATION": GROUPS,
    "EXCHANGE_ORDER": ("order",),
    "EXCHANGE_NON_ORDER": ("default",),
}
"""Former names of groups, and their current groups."""


def _groups(orders_per_s: int) -> Mapping[str, tuple[int, float]]:
    return {
        **dict.fromkeys(GROUPS, (PER_SECOND, 1.0)),
        "default": (30, 1.0),
        "order": (orders_per_s, 1.0),
        "order-cancel-all": (1, 2.0),
    }


LIMITS_FROM = {
    0: _groups(8),
    1_787_238_000_000: _groups(12),  # 2026-08-21 in Seoul
}
"""Group → (requests, per this many seconds), by the time (ms) from which they apply."""
