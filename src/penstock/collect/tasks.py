"""Helpers for the concurrent tasks of a collector or fetcher."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def first_of(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of them is done; the others keep running."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


def raise_first(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Raise the error of a task that has ended, if there is one."""
    for task in tasks:
        if task.done():
            task.result()


async def end(main: asyncio.Task[None], others: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the others, and wait for all."""
    tasks = list(others)
    for task in tasks:
        task.cancel()
    await asyncio.gather(main, *tasks, return_exceptions=True)
