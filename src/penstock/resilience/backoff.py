"""Back-off computes how long to wait before a retry.

Delays grow by a factor up to a cap, and a random share of each is subtracted, so that callers that
failed together do not retry together. Pure: the random function is a parameter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """A number of attempts, and the delays between them."""

    attempts: int = 4
    """The number of attempts, including the first."""
    first_s: float = 0.25
    multiplier: float = 2.0
    longest_s: float = 10.0
    jitter: float = 0.5
    """The largest share of a delay that is randomly subtracted: 0 none, 1 all of it."""

    def delays(self, random: Callable[[], float]) -> Iterator[float]:
        """Seconds to wait before the second, third … attempt; ``random`` draws from [0, 1)."""
        for retry in range(self.attempts - 1):
            yield self.delay(retry, random())

    def delay(self, retry: int, draw: float) -> float:
        """Seconds to wait before retry number ``retry``, counted from 0."""
        # The exponent is bounded because a float overflows at about the thousandth retry.
        grown = self.first_s * self.multiplier ** min(retry, 64)
        return min(grown, self.longest_s) * (1 - self.jitter * draw)
