"""Sockets: how stream connections are opened, how they are closed, and why they ended."""

import asyncio
from contextlib import suppress
from typing import Literal

import aiohttp
from aiohttp import WSCloseCode

from penstock import __version__

Socket = aiohttp.ClientWebSocketResponse[Literal[False]]
"""One that hands out frames as the bytes they are."""
CLOSE_S = 1.0
"""How long the exchange may take to say goodbye; a dead connection never does."""
_CONNECT_S = 10.0


def open_http() -> aiohttp.ClientSession:
    """What sockets are opened with."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_S),
        headers={"User-Agent": f"penstock/{__version__}"},
    )


async def say_goodbye(socket: Socket) -> None:
    """Close; an exchange that goes on talking instead of answering is left to talk."""
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * CLOSE_S):
            await socket.close()


def reason_of(socket: Socket) -> str:
    """Why a socket is closed, in words."""
    code, error = socket.close_code, socket.exception()
    if code in (None, WSCloseCode.ABNORMAL_CLOSURE):
        return "cut off" if error is None else f"cut off: {error}"
    return f"closed by the exchange ({code})"
