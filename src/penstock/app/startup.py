"""Starting while what a process needs is not there yet: it waits, tries again, and says so."""

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
"""What passes without anybody changing this process's settings."""


async def until_possible(
    attempt: Callable[[], Awaitable[T]], clock: Clock, say: Callable[[Exception], None]
) -> T:
    """Try something until the state store answers and the connector is not paused.

    ``say`` is told what it waits for.
    """
    for retry in count():
        try:
            return await attempt()
        except _PASSING as error:
            say(error)
        await clock.sleep(_AGAIN.delay(retry, random()))
    raise AssertionError("counting never ends")
