"""WebSockets in ASGI applications.

To the application, a request that opens a WebSocket is a GET request like any other: it passes the
same checks, and errors are ordinary responses. If it can be opened, the extension ``EXTENSION`` of
the scope has it as ``socket``, and a response with the status 101 opens it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from penstock.web.connections import HttpConnection

EXTENSION = "penstock.websocket"
_PING_S = 20.0
"""A client that answers no ping is disconnected."""
_CLOSE_S = 1.0
"""For the client to answer the closing frame."""
_LONGEST_REASON_BYTES = 123
_LARGEST_MESSAGE_BYTES = 4096
"""Of messages from clients; a larger one closes the WebSocket."""


class WebSocket:
    """A WebSocket that sends and receives text."""

    def __init__(
        self, request: web.BaseRequest, connection: HttpConnection, write_s: float
    ) -> None:
        self._request, self._connection, self._write_s = request, connection, write_s
        self.response = web.WebSocketResponse(
            timeout=_CLOSE_S,
            heartbeat=_PING_S,
            compress=False,
            max_msg_size=_LARGEST_MESSAGE_BYTES,
            # Each message waits until the system has taken it, so that slow clients are detected.
            writer_limit=0,
        )

    @property
    def is_requested(self) -> bool:
        """Whether the request is a valid one for a WebSocket."""
        return self.response.can_prepare(self._request).ok

    async def open(self) -> None:
        """Open it: the response with the status 101."""
        await self.response.prepare(self._request)

    async def send(self, text: bytes) -> None:
        """Send a text message; return once the system has taken it.

        Raises:
            OSError: the client has disconnected, or does not read, and was disconnected.
        """
        try:
            async with asyncio.timeout(self._write_s):
                await self.response.send_frame(text, web.WSMsgType.TEXT)
        except TimeoutError as error:
            self._connection.abort()
            raise ConnectionResetError("the client does not read") from error

    async def receive(self) -> str | None:
        """Return the next message of the client; None if it closed the WebSocket or disconnected.

        Raises:
            ValueError: it is not text.
        """
        message = await self.response.receive()
        if message.type is web.WSMsgType.BINARY:
            raise ValueError("The message is not text.")
        return str(message.data) if message.type is web.WSMsgType.TEXT else None

    async def wait_closed(self) -> None:
        """Ignore messages until the client closes it or disconnects."""
        async for _ in self.response:
            pass

    async def close(self, code: int, reason: str = "") -> None:
        """Close it; of the reason, as much as fits into 123 bytes is sent.

        A client that has not read what was sent before is disconnected without a reason.
        """
        if self._connection.has_unsent:
            self._connection.abort()
            return
        message = reason.encode()[:_LONGEST_REASON_BYTES].decode(errors="ignore").encode()
        try:
            async with asyncio.timeout(self._write_s):
                await self.response.close(code=code, message=message)
        except TimeoutError:
            self._connection.abort()


def websocket_of(scope: Mapping[str, Any]) -> WebSocket | None:
    """The WebSocket that a request opens; None if it is an ordinary request."""
    extension = scope.get("extensions", {}).get(EXTENSION)
    return extension["socket"] if extension else None
