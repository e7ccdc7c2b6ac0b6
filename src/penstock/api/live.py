"""The live WebSocket: documents that change, sent to everyone who watches them.

A client sends the topics that it watches, ``{"watch": ["overview"]}``, and receives each topic's
latest document, then every new one. The first message tells what the server is; when there was
nothing to send for half a second, a beat says that the connection is alive.
"""

import asyncio
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import SkipValidation
from litestar.response.base import ASGIResponse
from litestar.types import HTTPScope, Receive, Send
from msgspec import Meta, Struct

from penstock import __version__
from penstock.api.app_state import AppState, GivenState
from penstock.api.credentials import Granted, granted_to
from penstock.api.live_feeds import MOST_TOPICS
from penstock.api.live_hub import Update, Viewer
from penstock.api.live_topics import TOPICS, feed_of
from penstock.api.problems import AnyRequest, ProblemError
from penstock.api.sessions import SESSION_ENDED, AccessScope
from penstock.clock import Clock
from penstock.errors import near_matches
from penstock.telemetry import Listener
from penstock.web import WebSocket, websocket_of

MOST_WATCHED = 16
"""Topics that one viewer watches."""
MOST_VIEWERS = MOST_TOPICS // MOST_WATCHED
BEAT_S = 0.5
_CLOSED, _GOING_AWAY, _BAD_MESSAGE = 1000, 1001, 1008
_BURST, _PER_SECOND = 20, 5
"""Messages that a client may send at once, and in every second."""

GivenListener = NamedDependency[SkipValidation[Listener]]


class Watch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topics that a client watches from now on."""

    watch: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=MOST_WATCHED)
    ]


class Hello(Struct, frozen=True, kw_only=True):
    """The first message of the server."""

    topic: Literal["hello"] = "hello"
    version: str
    started_ms: int
    scope: AccessScope
    at_ms: int


class Beat(Struct, frozen=True, kw_only=True):
    """A message that only says that the connection is alive."""

    topic: Literal["beat"] = "beat"
    at_ms: int


class Allowance:
    """How many messages a client may send."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._left, self._at_ns = clock, float(_BURST), clock.monotonic_ns()

    def take(self) -> bool:
        """Count a message; return whether it is allowed."""
        now_ns = self._clock.monotonic_ns()
        earned = (now_ns - self._at_ns) / 1e9 * _PER_SECOND
        self._at_ns, self._left = now_ns, min(_BURST, self._left + earned) - 1
        return self._left >= 0


class _LiveStream(ASGIResponse):
    """Opens a WebSocket, and serves one viewer until a side ends it."""

    def __init__(self, app_state: AppState, listener: Listener) -> None:
        super().__init__(status_code=101)
        self._app_state, self._listener = app_state, listener
        self._clock, self._feeds = app_state.clock, app_state.live
        self._woken = asyncio.Event()
        self._viewer = Viewer(self._woken.set)

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:  # type: ignore[override] # noqa: ARG002
        socket = websocket_of(scope)
        assert socket is not None
        self._feeds.viewers += 1
        try:
            # A client that has disconnected, or does not read, ends it.
            with suppress(OSError):
                await send({"type": "http.response.start", "status": 101, "headers": []})
                await self._serve(socket, granted_to(scope))
        finally:
            self._feeds.viewers -= 1
            self._feeds.leave(self._viewer)

    async def _serve(self, socket: WebSocket, granted: Granted) -> None:
        """Serve until the first of its tasks ends, which tells why."""
        tasks = [
            asyncio.create_task(self._receive(socket)),
            asyncio.create_task(self._send(socket, granted)),
            asyncio.create_task(self._wait_for_stop()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        code, reason = done.pop().result()
        await socket.close(code, reason)

    async def _send(self, socket: WebSocket, granted: Granted) -> tuple[int, str]:
        hello = Hello(
            version=__version__,
            started_ms=self._feeds.started_ms,
            scope=granted.scope,
            at_ms=self._clock.now_ms(),
        )
        await socket.send(msgspec.json.encode(hello))
        while granted.is_valid():
            if (message := self._viewer.take()) is not None:
                await socket.send(message)
                continue
            self._woken.clear()
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._woken.wait()
            except TimeoutError:
                await socket.send(msgspec.json.encode(Beat(at_ms=self._clock.now_ms())))
        return SESSION_ENDED, "The session has ended. Log in again."

    async def _receive(self, socket: WebSocket) -> tuple[int, str]:
        allowance = Allowance(self._clock)
        while True:
            try:
                text = await socket.receive()
                if text is None:
                    return _CLOSED, ""
                asked = msgspec.json.decode(text, type=Watch)
            except (ValueError, RecursionError) as error:
                return _BAD_MESSAGE, f"The message is not valid: {error}"
            if not allowance.take():
                return _BAD_MESSAGE, "Too many messages."
            self._watch(asked.watch)

    async def _wait_for_stop(self) -> tuple[int, str]:
        await self._app_state.closing.wait()
        return _GOING_AWAY, "The server stops."

    def _watch(self, topics: list[str]) -> None:
        found = {topic: feed_of(topic, self._app_state, self._listener) for topic in topics}
        known = {topic: feed for topic, feed in found.items() if feed is not None}
        self._feeds.watch(self._viewer, known)
        for topic in found.keys() - known.keys():
            near = near_matches(topic, TOPICS)
            hint = f" Did you mean {near[0]}?" if near else ""
            update = Update(topic=topic, error=f"There is no topic {topic!r}.{hint}")
            self._viewer.put(topic, msgspec.json.encode(update))


@get("/live")
async def live(request: AnyRequest, app_state: GivenState, listener: GivenListener) -> _LiveStream:
    """Open a WebSocket: the documents of watched topics, again whenever they are read."""
    if websocket_of(request.scope) is None:
        raise HTTPException(
            detail="This is a WebSocket. Open it with a WebSocket client.",
            status_code=426,
            headers={"Upgrade": "websocket"},
        )
    if app_state.live.viewers >= MOST_VIEWERS:
        raise ProblemError(503, f"{MOST_VIEWERS} viewers are connected. Try again later.")
    return _LiveStream(app_state, listener)


ROUTES = [live]
