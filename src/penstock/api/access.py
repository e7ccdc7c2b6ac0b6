"""The checks that every request passes before the API handles it.

A page in a browser can send requests to this machine: under another name that resolves to it (so
the Host header is checked), or from another site (so the Origin of requests that change something
or open a WebSocket is checked). If tokens are set, a request needs one of them or a session
(``credentials.py``). A body has at most a megabyte.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Protocol, cast

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from penstock.api.app_state import PREFIX
from penstock.api.credentials import Credentials, Tokens, granting, refusal_of
from penstock.api.problems import MEDIA_TYPE, Problem, plain_problem
from penstock.clock import Clock
from penstock.config import Api
from penstock.errors import ConfigError
from penstock.telemetry import Listener
from penstock.web import Hosts, hosts_of, is_local, websocket_of
from penstock.web.facts import RequestServed

LARGEST_BODY_BYTES = 1_000_000
_OPEN = {"/healthz", "/readyz", "/metrics", f"{PREFIX}/session"}
"""Paths that need no token. All others do, so that no unusual spelling of a path bypasses it."""
_CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
SHORTEST_TOKEN = 16
"""Minimum characters of a token if other machines can reach the API and guess tokens."""


@dataclass(frozen=True)
class AccessRules:
    """Which requests are accepted."""

    hosts: Hosts
    tokens: Tokens = field(repr=False)
    body_s: float
    """Seconds in which a body must arrive."""
    session_s: float
    """Seconds after which a session expires."""


def rules_of(settings: Api) -> AccessRules:
    """Return the access rules from the settings.

    Raises:
        ConfigError: other machines could connect without a token, or with a short one, or both
            tokens are the same.
    """
    token, read_token = settings.token.reveal(), settings.read_token.reveal()
    if not is_local(settings.host) and not (token or read_token):
        raise ConfigError(
            "api.host",
            problem=f"{settings.host} can be reached from other machines, so a token is needed."
            " Set PENSTOCK_API_TOKEN, or listen on 127.0.0.1.",
            origin="settings",
        )
    for name, each in (("api.token", token), ("api.read_token", read_token)):
        if not is_local(settings.host) and 0 < len(each) < SHORTEST_TOKEN:
            raise ConfigError(
                name,
                problem=f"it has {len(each)} characters, and {settings.host} can be reached from"
                f" other machines: at least {SHORTEST_TOKEN} are needed."
                " Use `openssl rand -hex 32`.",
                origin="settings",
            )
    if read_token and compare_digest(read_token.encode(), token.encode()):
        raise ConfigError(
            "api.read_token",
            problem="it is the same as api.token, so its clients could change everything."
            " Set another one.",
            origin="settings",
        )
    hosts = hosts_of(settings.host, settings.hosts)
    tokens = Tokens(token.encode(), read_token.encode())
    return AccessRules(hosts, tokens, settings.body_s, settings.session_hours * 3600)


class Page(Protocol):
    """An ASGI application for paths that are not the API's. It has no data, so needs no token."""

    def has(self, path: str) -> bool:
        """Whether a path is one of its own."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class AccessPolicy:
    """An ASGI application that passes accepted requests to an inner one, or to a page."""

    def __init__(
        self,
        inner: ASGIApp,
        rules: AccessRules,
        credentials: Credentials,
        clock: Clock,
        listener: Listener,
        page: Page | None = None,
    ) -> None:
        self._inner, self._rules, self._credentials = inner, rules, credentials
        self._clock, self._listener, self._page = clock, listener, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._inner(scope, receive, send)
            return
        begun_ns, status = self._clock.monotonic_ns(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._let_in(scope, receive, watched)
        finally:
            took_ms = (self._clock.monotonic_ns() - begun_ns) // 1_000_000
            self._listener(
                RequestServed(
                    method=scope["method"], path=scope["path"], status=status, took_ms=took_ms
                )
            )

    async def _let_in(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        headers = _headers_of(scope)
        problem = self._refusal(scope, headers)
        if problem is None and self._page is not None and self._page.has(scope["path"]):
            await self._page(_as_get(scope), receive, send)
            return
        if problem is None and scope["path"] not in _OPEN:
            granted = self._credentials.check(_client_of(scope), headers)
            if isinstance(granted, Problem):
                problem = granted
            else:
                problem = refusal_of(granted, scope["method"], headers)
                scope = cast(HTTPScope, granting(scope, granted))
        if problem is None and scope["method"] in _CHANGES:
            try:
                async with asyncio.timeout(self._rules.body_s):
                    body = await _read(receive, headers.get("content-length", ""))
                receive = _again(body, receive)
            except TimeoutError:
                problem = plain_problem(408, f"No body within {self._rules.body_s:g} s. Retry.")
            except _BadBody as error:
                problem = plain_problem(error.status, str(error))
        if problem is None:
            await self._inner(_as_get(scope), receive, send)
        else:
            await _refuse(problem, send, self._credentials.wait_s(_client_of(scope)))

    def _refusal(self, scope: HTTPScope, headers: dict[str, str]) -> Problem | None:
        host = headers.get("host", "")
        if "\0" in scope["path"]:
            return plain_problem(400, "The path must not contain a NUL character.")
        if not self._rules.hosts.accept(host):
            return plain_problem(
                421, f"The host {host!r} is not accepted. To allow it, add it to api.hosts."
            )
        if _same_origin(headers.get("origin"), host):
            return None
        if scope["method"] in _CHANGES:
            return plain_problem(403, "Changes from a page of another origin are rejected.")
        if websocket_of(scope) is not None:
            # Browsers let pages of all origins read WebSockets, unlike responses.
            return plain_problem(403, "WebSockets from a page of another origin are rejected.")
        return None


def _headers_of(scope: HTTPScope) -> dict[str, str]:
    # The values of a repeated header are joined, so that they match nothing.
    headers: dict[str, str] = {}
    for name, value in _pairs(scope["headers"]):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _pairs(raw: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[str, str]]:
    return ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw)


def _client_of(scope: HTTPScope) -> str:
    address = scope["client"]
    return address[0] if address else ""


def _same_origin(origin: str | None, host: str) -> bool:
    # Programs send no Origin; browsers send one with every request that may change something.
    return origin is None or origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


class _BadBody(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


async def _read(receive: Receive, announced: str) -> bytes:
    """Return the whole body.

    Raises:
        _BadBody: it is too large or incomplete.
    """
    too_large = _BadBody(413, f"A body may have at most {LARGEST_BODY_BYTES:,} bytes.")
    if announced.isdecimal() and int(announced[:12]) > LARGEST_BODY_BYTES:
        raise too_large
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _BadBody(400, "The body ended before it was complete.")
        body += message["body"]
        more = message["more_body"]
        if len(body) > LARGEST_BODY_BYTES:
            raise too_large
    return bytes(body)


def _as_get(scope: HTTPScope) -> HTTPScope:
    """Return a HEAD request as a GET request; the server omits the body."""
    if scope["method"] != "HEAD":
        return scope
    return cast(HTTPScope, {**scope, "method": "GET"})


def _again(body: bytes, receive: Receive) -> Callable[[], Awaitable[Any]]:
    """Return a ``receive`` that returns the body that was read, then further messages."""
    waiting: list[dict[str, object]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return waiting.pop() if waiting else await receive()

    return replay


async def _refuse(problem: Problem, send: Send, wait_s: int) -> None:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status == 429:
        headers.append((b"retry-after", str(max(1, wait_s)).encode()))
    if problem.status in (400, 408, 413):
        # The rest of the body is not read.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    body = msgspec.json.encode(problem)
    await send({"type": "http.response.body", "body": body, "more_body": False})
