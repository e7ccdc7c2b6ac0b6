"""Runs long work in pieces and yields to the event loop in between."""

from typing import TypeVar

from penstock.clock import Clock
from penstock.simulator.market.pieces import Work

T = TypeVar("T")


async def in_turns(work: Work[T], clock: Clock, pieces: int = 1) -> T:
    """Run work to its end; yield to other tasks after every ``pieces`` pieces."""
    while True:
        try:
            for _ in range(pieces):
                next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        await clock.sleep(0)
