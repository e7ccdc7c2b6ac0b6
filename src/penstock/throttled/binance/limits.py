"""Binance's limits per address, and the usage in its responses.

Weight and raw requests are counted in windows that begin on whole units of the exchange's clock.
The documentation has contradicted itself on raw requests since April 2026 (61,000 or 300,000 per
five minutes); the smaller number is used here, and the weight limit is always reached first.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock.throttled.limits import LimitSpec, ValidFrom

_UNITS_S = {"S": 1, "M": 60, "H": 3600, "D": 86_400}
# X-MBX-USED-WEIGHT-1M: 25
_USED_WEIGHT = re.compile(r"X-MBX-USED-WEIGHT-([1-9][0-9]{0,5})([SMHD])", re.IGNORECASE)
_BAN_END = re.compile(r"banned until ([0-9]{10,16})")


def _spot(weight_per_minute: int, requests_per_5_minutes: int) -> tuple[LimitSpec, ...]:
    return (
        LimitSpec("REQUEST_WEIGHT 1m", weight_per_minute, 60),
        LimitSpec("RAW_REQUESTS 5m", requests_per_5_minutes, 300, "request"),
    )


HISTORY = (
    ValidFrom(0, _spot(1200, 6100)),
    ValidFrom(1_692_921_600_000, _spot(6000, 61_000)),  # 2023-08-25
)


class Used(NamedTuple):
    """The weight used in a window of this length."""

    weight: int
    period_s: int


def read_usage(headers: Mapping[str, str]) -> list[Used]:
    """The used weight in a response's headers: ``X-MBX-USED-WEIGHT-(number)(letter): 25``."""
    found = []
    for name, value in headers.items():
        match = _USED_WEIGHT.fullmatch(name)
        if match is not None and value.isascii() and value.isdecimal():
            found.append(Used(int(value), int(match[1]) * _UNITS_S[match[2].upper()]))
    return found


def read_ban_end_ms(words: str) -> int | None:
    """When a ban ends, by the exchange's clock: "… IP banned until 1573474564000. …"."""
    match = _BAN_END.search(words)
    return int(match[1]) if match else None
