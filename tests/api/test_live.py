"""The live WebSocket: what is watched arrives, slow viewers miss updates, and nobody else waits."""

import asyncio
import json
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.waiting import PATIENCE_S

from penstock import __version__
from penstock.api import live as live_module
from penstock.api.app_state import AppState
from penstock.api.live_topics import TOPICS
from penstock.api.sessions import cookie_name
from penstock.api.topics import Topic, TopicFamily
from penstock.config import Secret
from penstock.errors import StorageError
from penstock.web.facts import RequestCrashed

from .conftest import Client, Open

TOKEN, READ_TOKEN = "correct horse battery staple", "another horse may look"


class Source:
    """A document that changes whenever it is read."""

    def __init__(self) -> None:
        self.reads, self.size = 0, 0
        self.error: Exception | None = None

    async def __call__(self, app_state: AppState, rest: str = "") -> object:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {"reads": self.reads, "rest": rest, "filler": "x" * self.size}


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source()
    monkeypatch.setitem(TOPICS, "fast", Topic(0.02, source))
    monkeypatch.setitem(TOPICS, "each/", TopicFamily(0.02, source))
    return source


class Watcher:
    """A viewer that speaks the protocol."""

    def __init__(self, connected: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = connected

    async def next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self.socket.receive_json(timeout=PATIENCE_S)
        return message

    async def of(self, topic: str) -> dict[str, Any]:
        while True:
            if (message := await self.next())["topic"] == topic:
                return message

    async def watch(self, *topics: str) -> None:
        await self.socket.send_json({"watch": topics})

    async def closed(self) -> int | None:
        for _ in range(40):  # a beat every half second, at least
            message = await self.socket.receive(timeout=PATIENCE_S)
            if message.type is not aiohttp.WSMsgType.TEXT:
                return self.socket.close_code
        raise AssertionError("it is still open")


@asynccontextmanager
async def watching(api: Client, *topics: str, **headers: str) -> AsyncIterator[Watcher]:
    address = f"{api.url}/api/v1/live"
    async with api.session.ws_connect(address, headers=headers) as connected:
        watcher = Watcher(connected)
        if topics:
            await watcher.watch(*topics)
        yield watcher


def opening(host: str, port: str) -> bytes:
    return (
        f"GET /api/v1/live HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def frame_of(text: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text  # masked with zeros


async def test_the_first_message_tells_what_the_server_is(api: Client) -> None:
    before_ms = api.app_state.clock.now_ms()
    async with watching(api) as watcher:
        hello = await watcher.next()

    assert (hello["topic"], hello["version"]) == ("hello", __version__)
    assert hello["scope"] == "control"
    assert hello["started_ms"] <= before_ms <= hello["at_ms"]


async def test_a_document_is_exactly_that_of_the_route(api: Client) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    for topic, path in (("limits", "limits"), ("jobs", "jobs/summary"), ("processes", "processes")):
        async with watching(api, topic) as watcher:
            update = await watcher.of(topic)
        shown = (await api.ask("GET", path)).json
        # Both are of now, and a window of a limit may have ended in between.
        assert {**update["data"], "at_ms": 0} == {**shown, "at_ms": 0}
        assert update["seq"] == 1


async def test_updates_are_numbered_and_a_silent_topic_is_replaced_by_beats(
    api: Client, source: Source
) -> None:
    async with watching(api, "fast") as watcher:
        first = await watcher.of("fast")
        second = await watcher.of("fast")
        assert second["seq"] > first["seq"]
        assert second["data"]["reads"] == second["seq"]
        await watcher.watch()
        assert (await watcher.of("beat"))["at_ms"] >= first["at_ms"]


async def test_a_family_is_given_the_rest_of_the_name(api: Client, source: Source) -> None:
    async with watching(api, "each/kraken/BTC/USDT?interval=5s") as watcher:
        update = await watcher.of("each/kraken/BTC/USDT?interval=5s")

    assert update["data"]["rest"] == "kraken/BTC/USDT?interval=5s"


@pytest.mark.parametrize("topic", ["overvieww", "each/", "each", "fast/x", "/", "hello", "<img>"])
async def test_an_unknown_topic_has_words(api: Client, source: Source, topic: str) -> None:
    async with watching(api, topic, "fast") as watcher:
        told = await watcher.of(topic) if topic != "hello" else None
        while told is None:
            message = await watcher.of("hello")
            told = message if "error" in message else None
        assert "no topic" in told["error"]
        assert (await watcher.of("fast"))["data"]["reads"]


async def test_a_topic_that_fails_tells_why_and_goes_on(api: Client, source: Source) -> None:
    source.error = StorageError("memory:", "does not answer. Wait.")
    async with watching(api, "fast") as watcher:
        failed = await watcher.of("fast")
        assert "does not answer" in failed["error"]
        source.error = None
        assert (await watcher.of("fast"))["data"]


async def test_a_bug_in_a_topic_is_logged_once_and_not_shown(api: Client, source: Source) -> None:
    source.error = ZeroDivisionError("secret")
    async with watching(api, "fast") as watcher:
        first, second = await watcher.of("fast"), await watcher.of("fast")

    assert "bug in penstock" in first["error"]
    assert "secret" not in json.dumps([first, second])
    assert first["error"] == second["error"]
    assert len([fact for fact in api.facts if isinstance(fact, RequestCrashed)]) == 1


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[]",
        '{"watch": "fast"}',
        '{"watch": [1]}',
        '{"watch": [], "more": 1}',
        json.dumps({"watch": ["x"] * 17}),
        json.dumps({"watch": ["x" * 201]}),
        '{"watch": ["' + "x" * 5000 + '"]}',
        "[" * 4000,
        b'{"watch": []}',
    ],
)
async def test_a_malformed_message_ends_the_connection(api: Client, message: str | bytes) -> None:
    async with watching(api) as watcher:
        if isinstance(message, bytes):
            await watcher.socket.send_bytes(message)
        else:
            await watcher.socket.send_str(message)
        assert await watcher.closed() in (1008, 1009)


async def test_too_many_messages_end_the_connection(api: Client) -> None:
    async with watching(api) as watcher:
        for _ in range(30):
            await watcher.watch()
        assert await watcher.closed() == 1008


async def test_a_viewer_that_does_not_read_holds_up_nobody(open_api: Open, source: Source) -> None:
    api = await open_api(write_s=0.5)
    source.size = 100_000
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(opening(host, port) + frame_of(b'{"watch":["fast"]}'))
        async with watching(api, "fast") as watcher:
            seqs = [(await watcher.of("fast"))["seq"] for _ in range(40)]
            assert len(seqs) == len({*seqs})
            while api.app_state.live.viewers > 1:  # the slow one is disconnected
                await watcher.next()


async def test_a_viewer_that_is_sent_away_and_reads_nothing_is_disconnected(
    open_api: Open, source: Source
) -> None:
    api = await open_api()
    source.size = 20_000_000
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.sendall(opening(host, port) + frame_of(b'{"watch":["fast"]}'))
        while source.reads < 2:  # the first update is being sent
            await asyncio.sleep(0.01)
            source.size = 0 if source.reads else source.size
        silent.sendall(frame_of(b"nonsense"))
        poll = select.poll()
        poll.register(silent, select.POLLHUP)
        assert await asyncio.to_thread(poll.poll, 5_000), "it was reset"


@pytest.mark.parametrize("name", ["ä" * 200, "a" + "ä" * 200])
async def test_a_reason_to_close_is_cut_between_characters(api: Client, name: str) -> None:
    async with watching(api) as watcher:
        await watcher.socket.send_json({name: 1})
        assert await watcher.closed() == 1008


async def test_viewers_are_bounded(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MOST_VIEWERS", 1)
    async with watching(api) as watcher:
        await watcher.next()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with watching(api):
                pass
        assert refused.value.status == 503


async def test_a_request_that_opens_no_websocket_is_told_so(api: Client) -> None:
    (await api.ask("GET", "live")).is_problem(426)


async def test_access_is_that_of_the_api(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN), read_token=Secret(READ_TOKEN))
    name = cookie_name(api.url)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{name}=x"}):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with watching(api, **headers):
                pass
        assert refused.value.status == 401
    reads = {"Authorization": f"Bearer {READ_TOKEN}"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with watching(api, **reads, Origin="http://evil.example"):
            pass
    assert refused.value.status == 403
    async with watching(api, **reads) as watcher:
        assert (await watcher.next())["scope"] == "read"


async def test_a_connection_ends_with_its_session(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN))
    begun = await api.ask("POST", "session", {"token": TOKEN})
    cookie = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}
    async with watching(api, **cookie) as watcher:
        assert (await watcher.next())["scope"] == "control"
        await api.ask("DELETE", "session", **cookie)
        assert await watcher.closed() == 4401


async def test_a_server_that_stops_says_so(open_api: Open, source: Source) -> None:
    api = await open_api()
    async with watching(api, "fast") as watcher:
        await watcher.of("fast")
        api.app_state.closing.set()
        assert await watcher.closed() == 1001
