"""Retries at start-up while something that a process needs is unavailable."""

from collections.abc import Awaitable, Callable
from itertools import count
from random import random
from typing import TypeVar

from penstock.clock import Clock
from penstock.errors import ConnectorPaused, StorageFull, StoreUnreachable
from penstock.resilience.backoff import Backoff

T = TypeVar("T")

_AGAIN = Backoff(first_s=0.5, longest_s=5.0)
_PASSING = (ConnectorPaused, StorageFull, StoreUnreachable)
"""Errors that may pass without a change of this process's settings."""


async def until_possible(
    attempt: Callable[[], Awaitable[T]], clock: Clock, say: Callable[[Exception], None]
) -> T:
    """Retry while the store does not answer, the connector is paused or the disk is full.

    ``say`` receives the error of each failed attempt.
    """
    for retry in count():
        try:
            return await attempt()
        except _PASSING as error:
            say(error)
        await clock.sleep(_AGAIN.delay(retry, random()))
    raise AssertionError("counting never ends")
