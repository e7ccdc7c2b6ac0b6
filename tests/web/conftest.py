"""A server with bounds of its own, and clients that are slow, silent or rude."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from penstock.web import Bounds, WebServer
from penstock.web.asgi import Application

Start = Callable[..., Awaitable[WebServer]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the method, the path and the body."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body += message["body"]
        more = message["more_body"]
    said = f"{scope['method']} {scope['path']} ".encode() + body
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": said, "more_body": False})


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts servers, and stops them in the end."""
    async with AsyncExitStack() as stack:

        async def started(application: Application = echo, **bounds: Any) -> WebServer:
            server = WebServer(
                application,
                ("127.0.0.1", 0),
                lambda _: None,
                section="api",
                bounds=Bounds(**bounds),
            )
            await server.start()
            stack.push_async_callback(server.stop)
            return server

        yield started


class Raw:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, text: str) -> None:
        self.writer.write(text.replace("\n", "\r\n").encode())
        await self.writer.drain()

    async def ask(self, path: str = "/") -> bytes:
        """Ask, and read one answer of known length."""
        await self.say(f"GET {path} HTTP/1.1\nHost: localhost\n\n")
        return await self.answer()

    async def answer(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            return head + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


Dial = Callable[[WebServer], Awaitable[Raw]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects, and closes what it connected in the end."""
    made: list[Raw] = []

    async def dialled(server: WebServer) -> Raw:
        made.append(Raw(*await asyncio.open_connection("127.0.0.1", server.port)))
        return made[-1]

    yield dialled
    for each in made:
        each.writer.close()
