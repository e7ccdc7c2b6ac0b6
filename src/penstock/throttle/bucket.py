"""The token bucket: a steady rate, with a reserve for bursts.

In any stretch of time T at most ``capacity + rate × T`` goes through. To keep a limit of L per
period, choose them so that ``capacity + rate × period ≤ L``: a bucket that holds L and refills L
per period lets twice the limit through in its first period.
"""

from fractions import Fraction

from penstock.clock import Clock, SystemClock
from penstock.errors import BadLimit
from penstock.throttle.rules import BucketRule, BucketUsage
from penstock.throttle.windows import SECOND_NS, Window, checked


class TokenBucket(Window[BucketUsage]):
    """``capacity`` tokens, refilled continuously at ``rate_per_s``."""

    __slots__ = ()

    def __init__(self, capacity: int, rate_per_s: float, clock: Clock | None = None) -> None:
        if not 1e-9 <= rate_per_s <= 1e9:
            raise BadLimit(f"A rate of {rate_per_s!r} per s cannot be: say a number above zero.")
        # As it was meant: 0.1 is a tenth and 10 / 60 a sixth, not what binary makes of them.
        rate = Fraction(rate_per_s).limit_denominator(SECOND_NS) / SECOND_NS
        checked(capacity, 1)
        rule = BucketRule(capacity, rate.numerator, rate.denominator)
        super().__init__(rule, capacity / rate_per_s, clock or SystemClock())
