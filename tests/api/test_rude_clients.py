"""`penstock serve`, the real process, among clients that hold on to their connections."""

import asyncio
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET, create_connection, socket

import msgspec
import pytest
from tests.forked import command
from tests.waiting import PATIENCE_S

from penstock.web.facts import RequestServed

from .conftest import Open

HALF_SENT = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{"
ASKED = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def serve(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address it says it listens on."""
    process = command(
        ["serve", "--port", "0", "--json", "--data-dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        yield process, msgspec.json.decode(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.communicate()


def ask(url: str, timeout_s: float = 20) -> float:
    """How long an answer took, in seconds."""
    begun = time.monotonic()
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        answer.read()
    return time.monotonic() - begun


def test_500_idle_200_half_sent_and_slow_readers_neither_delay_others_nor_the_end(
    tmp_path: Path,
) -> None:
    with serve(tmp_path) as (process, url), ExitStack() as stack:
        port = int(url.rpartition(":")[2])

        def dial() -> socket:
            return stack.enter_context(create_connection(("127.0.0.1", port)))

        slow = [dial() for _ in range(5)]
        for one in slow:
            one.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            one.sendall(ASKED * 200)
        idle = [dial() for _ in range(500)]
        for one in idle[::2]:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(20):
            dial().sendall(b"GET / HTTP/1.1\r\nX-Slow")
            dial().sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\0\1 garbage\r\n\r\n")
        for _ in range(200):
            dial().sendall(HALF_SENT)

        took = sorted(ask(f"{url}/readyz") for _ in range(20))
        # Other tests may have the machine; whoever is held up by a client is so every time.
        assert took[2] <= 0.1, took

        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        assert process.wait(PATIENCE_S) == 0
        assert time.monotonic() - begun <= 30


def test_one_half_sent_request_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with serve(tmp_path, "--host", "localhost") as (process, url):
        assert url.startswith("http://localhost:")
        ask(f"{url}/readyz")
        with create_connection(("localhost", int(url.rpartition(":")[2]))) as half:
            half.sendall(HALF_SENT)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0


@pytest.mark.parametrize("path", ["/readyz", "/metrics", "/api/v1/connectors", "/nothing"])
async def test_head_is_answered_as_get_is_without_the_body(open_api: Open, path: str) -> None:
    api = await open_api()
    got, head = await api.ask("GET", path), await api.ask("HEAD", path)

    assert (head.status, head.body) == (got.status, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    if path != "/metrics":  # which counts the GET
        assert head.headers["Content-Length"] == str(len(got.body))


async def test_head_of_a_stream_ends(open_api: Open) -> None:
    api = await open_api()
    body = {"exchange_id": "binance", "type": "ohlcv_incremental"}
    job = (await api.ask("POST", "jobs", {**body, "symbol": "BTC/USDT", "timeframe": "1h"})).json

    async with asyncio.timeout(PATIENCE_S):
        head = await api.ask("HEAD", f"jobs/{job['id']}/events", Accept="text/event-stream")
    assert (head.status, head.body) == (200, b"")


async def test_a_body_that_does_not_come_is_refused_in_time(open_api: Open) -> None:
    api = await open_api(body_s=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(HALF_SENT)

    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"status":408' in answer
    assert [fact.status for fact in api.facts if isinstance(fact, RequestServed)] == [408]


async def test_a_body_that_breaks_off_changes_nothing(open_api: Open) -> None:
    api = await open_api()
    _, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    body = b'{"exchange_id": "binance"}'
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body) + 9}"
    writer.write(f"POST /api/v1/connectors HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()

    posted: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while not posted:
            await api.ask("GET", "/healthz")
            served = [fact for fact in api.facts if isinstance(fact, RequestServed)]
            posted = [fact.status for fact in served if fact.method == "POST"]
    assert posted == [400]
    assert (await api.ask("GET", "connectors")).json["items"] == []
