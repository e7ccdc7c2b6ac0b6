"""Adapts aiohttp's requests and responses to ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web
from multidict import CIMultiDict

from penstock.web.connections import HttpConnection, HttpConnections
from penstock.web.websockets import EXTENSION, WebSocket

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""

_PIECE_BYTES = 65_536


class AsgiAdapter:
    """Runs an ASGI application for aiohttp, which calls it with each request."""

    connections: HttpConnections

    def __init__(self, application: Application, write_s: float) -> None:
        self._application, self._write_s = application, write_s

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = self.connections.of(request.protocol)
        if connection is None:
            raise ConnectionResetError
        connection.begin()
        cycle = _RequestCycle(request, connection, self._write_s)
        try:
            scope = {**_scope_of(request), "extensions": cycle.extensions}
            await self._application(scope, cycle.receive, cycle.send)
        finally:
            connection.end()
        if cycle.response is None:
            raise ConnectionResetError
        return cycle.response


class _RequestCycle:
    """One request and its response."""

    def __init__(
        self, request: web.BaseRequest, connection: HttpConnection, write_s: float
    ) -> None:
        self._request, self._connection, self._write_s = request, connection, write_s
        self._bodiless = request.method == "HEAD"
        self._read = self._continued = False
        self.response: web.StreamResponse | None = None
        socket = WebSocket(request, connection, write_s)
        self._socket = socket if socket.is_requested else None

    @property
    def extensions(self) -> dict[str, dict[str, Any]]:
        """What the application can use beside requests and responses."""
        return {EXTENSION: {"socket": self._socket}} if self._socket is not None else {}

    async def receive(self) -> dict[str, Any]:
        """Return more of the body; after its end, wait for the end of response or connection."""
        if self._read:
            await self._connection.over.wait()
            return {"type": "http.disconnect"}
        content = self._request.content
        try:
            if content.is_eof():
                body = content.read_nowait()
            else:
                await self._let_continue()
                self._connection.wait_for_body()
                body = await content.readany()
        except (OSError, web.RequestPayloadError):  # disconnected, or not valid HTTP
            self._read = True
            return {"type": "http.disconnect"}
        finally:
            self._connection.body_read(whole=content.at_eof())
        self._read = content.at_eof()
        return {"type": "http.request", "body": body, "more_body": not self._read}

    async def send(self, message: dict[str, Any]) -> None:
        """Send a part of the response; nothing if the client has disconnected."""
        if message["type"] == "http.response.start" and message["status"] == 101:
            assert self._socket is not None
            await self._socket.open()
            self.response = self._socket.response
        elif message["type"] == "http.response.start":
            self.response = self._begun(message["status"], message.get("headers", ()))
        elif self.response is not None and not self._connection.over.is_set():
            more = message.get("more_body", False)
            try:
                await self._write(self.response, message.get("body", b""), more)
            except TimeoutError:
                self._connection.abort()
            except OSError:
                pass  # the client has disconnected; ``receive`` reports it

    async def _write(self, response: web.StreamResponse, body: bytes, more: bool) -> None:
        if not response.prepared:
            if not more and "Content-Length" not in response.headers and response.status >= 200:
                response.content_length = len(body)
            await response.prepare(self._request)
        pieces = () if self._bodiless else range(0, len(body), _PIECE_BYTES)
        for at in pieces:
            async with asyncio.timeout(self._write_s):
                await response.write(body[at : at + _PIECE_BYTES])
        if not more or self._bodiless:
            async with asyncio.timeout(self._write_s):
                await response.write_eof()
            self._connection.over.set()

    def _begun(self, status: int, pairs: Iterable[tuple[bytes, bytes]]) -> web.StreamResponse:
        headers = CIMultiDict({"Server": "penstock"})
        for name, value in pairs:
            headers.add(name.decode("latin-1"), value.decode("latin-1"))
        response = web.StreamResponse(status=status, headers=headers)
        if self._connection.is_last or headers.get("Connection", "").lower() == "close":
            response.force_close()
        return response

    async def _let_continue(self) -> None:
        """Send 100 Continue if the client waits for it before it sends the body."""
        expected = self._request.headers.get("Expect", "").lower() == "100-continue"
        if expected and not self._continued:
            self._continued = True
            await self._request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _scope_of(request: web.BaseRequest) -> dict[str, Any]:
    target = request.raw_path
    if not target.startswith("/"):  # absolute form, with scheme and host, as for a proxy
        target = request.rel_url.raw_path_qs
    raw_path, _, query = target.partition("#")[0].partition("?")
    path = unquote_to_bytes(raw_path)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": raw_path.encode("utf-8", "surrogateescape"),
        "query_string": query.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "server": _address(request, "sockname"),
        "client": _address(request, "peername"),
        "state": {},
    }


def _address(request: web.BaseRequest, name: str) -> tuple[str, int] | None:
    address = request.transport.get_extra_info(name) if request.transport else None
    return (address[0], address[1]) if address else None
