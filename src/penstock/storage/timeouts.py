"""A timeout for database calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.errors import StoreUnreachable


@asynccontextmanager
async def in_time(where: str, timeout_s: float) -> AsyncIterator[None]:
    """Cancel a block that takes longer than ``timeout_s``.

    Raises:
        StoreUnreachable: it took longer.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise StoreUnreachable(where, f"gave no answer within {timeout_s:g} s") from error
