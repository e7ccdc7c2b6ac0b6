"""Tasks that run side by side for as long as a collector does."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def first_of(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of them is done; the others go on."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


def raise_first(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise what ended one of them, if anything has."""
    for task in tasks:
        if task.done():
            task.result()


async def end(main: asyncio.Task[None], others: Iterable[asyncio.Task[Any]]) -> None:
    """End the others, and wait for all."""
    tasks = list(others)
    for task in tasks:
        task.cancel()
    await asyncio.gather(main, *tasks, return_exceptions=True)
