"""A token bucket has a steady rate, and a reserve for bursts.

In any time T it grants at most ``capacity + rate × T``. To keep a limit of L per period, choose
both so that ``capacity + rate × period ≤ L``: a bucket that holds L and refills L per period grants
twice the limit in its first period.
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
            raise BadLimit(
                f"A rate of {rate_per_s!r} per s is not allowed. Allowed: a number above zero."
            )
        # As an exact fraction: 0.1 is a tenth and 10 / 60 a sixth, not their binary approximations.
        rate = Fraction(rate_per_s).limit_denominator(SECOND_NS) / SECOND_NS
        checked(capacity, 1)
        rule = BucketRule(capacity, rate.numerator, rate.denominator)
        super().__init__(rule, capacity / rate_per_s, clock or SystemClock())
