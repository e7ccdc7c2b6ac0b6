"""The server under clients that are slow, silent or rude: everybody else is answered."""

import asyncio
import select
import socket
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from penstock.errors import ConfigError, PortInUse
from penstock.web import WebServer

from .conftest import Dial, Start, echo


class Held:
    """An application that answers when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/held":
            self.begun.release()
            await self.let.wait()
        await echo(scope, receive, send)


async def endless(_: Any, receive: Any, send: Any) -> None:
    """An answer larger than every buffer on the way."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 30_000_000, "more_body": False})


async def test_requests_and_their_bodies_reach_the_application_and_its_answers_the_client(
    start: Start, dial: Dial
) -> None:
    client = await dial(await start())

    assert (await client.ask("/a%20b?c=d")).endswith(b"GET /a b ")
    await client.say("PUT /x HTTP/1.1\nHost: localhost\nContent-Length: 5\n\nhello")
    assert (await client.answer()).endswith(b"PUT /x hello")
    chunked = "POST / HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n2\nhe\n3\nllo\n0\n\n"
    await client.say(chunked)
    assert (await client.answer()).endswith(b"POST / hello")


async def test_a_client_that_waits_to_be_told_may_send_its_body(start: Start, dial: Dial) -> None:
    client = await dial(await start())
    await client.say("PUT / HTTP/1.1\nHost: h\nContent-Length: 2\nExpect: 100-continue\n\n")

    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.say("ok")
    assert (await client.answer()).endswith(b"PUT / ok")


async def test_head_is_answered_without_a_body(start: Start, dial: Dial) -> None:
    client = await dial(await start())
    await client.say("HEAD /x HTTP/1.1\nHost: localhost\n\nGET /y HTTP/1.1\nHost: localhost\n\n")

    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"Content-Length: 8" in head
    assert (await client.answer()).endswith(b"GET /y ")


async def test_headers_that_come_a_byte_at_a_time_are_not_waited_for(
    start: Start, dial: Dial
) -> None:
    server = await start(headers_s=0.3, idle_s=60)
    slow, silent, used = [await dial(server) for _ in range(3)]
    await used.ask()

    async def drip() -> None:
        for byte in "GET / HTTP/1.1\nX: " + "y" * 10_000:
            await slow.say(byte)
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    assert await slow.rest() == b""
    assert await silent.rest() == b""
    dripping.cancel()
    assert (await used.ask()).endswith(b"GET / "), "one that is merely idle may be so for longer"


async def test_a_second_request_has_as_little_time_for_its_headers(
    start: Start, dial: Dial
) -> None:
    client = await dial(await start(headers_s=0.2, idle_s=60))
    await client.ask()
    await client.say("GET / HT")

    assert await client.rest() == b""


async def test_idle_connections_are_closed_in_time(start: Start, dial: Dial) -> None:
    client = await dial(await start(idle_s=0.2))
    await client.ask()

    assert await client.rest() == b""


async def test_a_newcomer_takes_the_place_of_the_one_idle_longest(start: Start, dial: Dial) -> None:
    held = Held()
    server = await start(held, connections=3)
    busy, first, second = [await dial(server) for _ in range(3)]
    await busy.say("GET /held HTTP/1.1\nHost: h\n\n")
    await held.begun.acquire()
    await second.ask()
    await first.ask()

    newcomer = await dial(server)
    assert (await newcomer.ask()).endswith(b"GET / ")
    assert await second.rest() == b""
    assert (await first.ask()).endswith(b"GET / ")
    held.let.set()
    assert (await busy.answer()).endswith(b"GET /held ")


async def test_half_sent_requests_give_way_once_nobody_is_idle(start: Start, dial: Dial) -> None:
    server = await start(connections=3)
    halves = [await dial(server) for _ in range(3)]
    await halves[0].say("GET / HTTP")
    await halves[1].say("PUT / HTTP/1.1\nHost: h\nContent-Length: 9\n\nhalf")
    await halves[2].ask()
    await halves[2].say("GET / HTTP")
    for _ in range(10):
        assert (await (await dial(server)).ask()).endswith(b"GET / ")
    assert await halves[0].rest() == b""


async def test_when_every_connection_is_being_answered_a_newcomer_is_told_so(
    start: Start, dial: Dial
) -> None:
    held = Held()
    server = await start(held, connections=2)
    busy = [await dial(server) for _ in range(2)]
    for one in busy:
        await one.say("GET /held HTTP/1.1\nHost: h\n\n")
        await held.begun.acquire()

    refused = await (await dial(server)).rest()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After" in refused
    held.let.set()
    assert all([(await one.answer()).endswith(b"/held ") for one in busy])
    assert (await busy[0].ask()).endswith(b"GET / ")


async def test_one_who_does_not_read_his_answer_is_dropped_and_one_who_does_is_not(
    start: Start, dial: Dial
) -> None:
    server = await start(endless, write_s=0.4)
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    steady = await dial(server)

    assert (await steady.ask()).endswith(b"x" * 1000)
    poll = select.poll()
    poll.register(slow, select.POLLHUP)
    assert await asyncio.to_thread(poll.poll, 10_000), "it was reset"
    slow.close()


@pytest.mark.parametrize(
    "garbage",
    ["\0\1\2\n\n", "GET\n\n", "GET / HTTP/9.9\n\n", "NO SUCH THING AS THIS\n\n", "X: y\n\n"],
)
async def test_garbage_is_refused_and_the_connection_closed(
    start: Start, dial: Dial, garbage: str
) -> None:
    server = await start()
    after, pipelined = await dial(server), await dial(server)
    await after.ask()
    await after.say(garbage)
    await pipelined.say("GET / HTTP/1.1\nHost: h\n\n" + garbage)

    assert (await after.rest()).startswith(b"HTTP/1.0 400 ")
    assert b" 400 " in await pipelined.rest()


async def test_it_stops_without_those_who_only_hold_on(start: Start, dial: Dial) -> None:
    held = Held()
    server = await start(held, stop_s=30)
    idle, half, body, busy = [await dial(server) for _ in range(4)]
    await idle.ask()
    await half.say("GET / HT")
    await body.say("PUT / HTTP/1.1\nHost: h\nContent-Length: 9\n\nhalf")
    await busy.say("GET /held HTTP/1.1\nHost: h\n\n")
    await held.begun.acquire()

    stopping = asyncio.create_task(server.stop())
    assert [await one.rest() for one in (idle, half, body)] == [b""] * 3
    assert not stopping.done(), "what is being answered is finished"
    held.let.set()
    assert (await busy.answer()).endswith(b"GET /held ")
    async with asyncio.timeout(PATIENCE_S):
        await stopping


async def test_it_stops_in_time_whatever_is_being_answered(start: Start, dial: Dial) -> None:
    held = Held()
    server = await start(held, stop_s=0.2)
    busy = await dial(server)
    await busy.say("GET /held HTTP/1.1\nHost: h\n\n")
    await held.begun.acquire()

    async with asyncio.timeout(PATIENCE_S):
        await server.stop()
    assert await busy.rest() == b""


async def test_a_name_is_listened_on_with_all_its_addresses() -> None:
    server = WebServer(echo, ("localhost", 0), lambda _: None, section="api")
    await server.start()

    assert server.url == f"http://localhost:{server.port}"
    for family, _, _, _, address in socket.getaddrinfo("localhost", server.port):
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.connect(address)
    await server.stop()


async def test_a_port_that_another_program_has_is_said_for_any_address_of_a_name() -> None:
    addresses = {each[4][0]: each[0] for each in socket.getaddrinfo("localhost", 0)}
    for name, family in addresses.items():
        with socket.create_server((name, 0), family=family) as taken:
            port = taken.getsockname()[1]
            server = WebServer(echo, ("localhost", port), lambda _: "somebody", section="api")
            with pytest.raises(PortInUse, match="by somebody"):
                await server.start()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid"])
async def test_an_address_of_no_machine_here_is_refused(host: str) -> None:
    server = WebServer(echo, (host, 0), lambda _: None, section="metrics")

    with pytest.raises(ConfigError, match=r"metrics\.host.*" + host):
        await server.start()
