"""Throttling: requests leave no faster than an exchange counts them.

Usable for itself: nothing here needs more than the standard library and penstock's ground.
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
