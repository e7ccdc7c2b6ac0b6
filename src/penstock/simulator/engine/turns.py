"""Turns: work in pieces, and everybody else on the loop served in between."""

from typing import TypeVar

from penstock.clock import Clock
from penstock.simulator.market.pieces import Work

T = TypeVar("T")


async def in_turns(work: Work[T], clock: Clock, pieces: int = 1) -> T:
    """Do work so many pieces at a time, with a turn for others in between."""
    while True:
        try:
            for _ in range(pieces):
                next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        await clock.sleep(0)
