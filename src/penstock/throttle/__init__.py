"""Rate limiting: keeps requests within the limits that an exchange counts.

Usable on its own: it needs only the standard library, ``penstock.clock`` and ``penstock.errors``.
"""

from penstock.throttle.blocking import BlockingThrottler
from penstock.throttle.bucket import TokenBucket
from penstock.throttle.events import CapacityLow
from penstock.throttle.pipeline import Pipeline
from penstock.throttle.throttler import BaseThrottler, Grant, LimitStats, Stats
from penstock.throttle.windows import FixedWindow, SlidingWindow

__all__ = [
    "BaseThrottler",
    "BlockingThrottler",
    "CapacityLow",
    "FixedWindow",
    "Grant",
    "LimitStats",
    "Pipeline",
    "SlidingWindow",
    "Stats",
    "TokenBucket",
]
