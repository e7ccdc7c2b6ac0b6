"""Stream connections from outside: frames, control, pings, limits and ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from tests.simulator.conftest import quick
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.simulator.engine.facts import ClientConnected, ClientGone
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import Fact

Serve = Callable[..., Awaitable[SimulatorServer]]
HOUR = 3600.0


async def _next(socket: ClientWebSocketResponse) -> Any:
    return json.loads(await socket.receive_str(timeout=PATIENCE_S))


async def _end(socket: ClientWebSocketResponse) -> int | None:
    """Read on until the connection ends; its close code."""
    async with asyncio.timeout(PATIENCE_S):
        async for _ in socket:
            pass
    return socket.close_code


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


async def test_frames_come_in_order_and_without_a_hole(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        numbers = [(await _next(socket))["n"] for _ in range(30)]

    assert numbers == list(range(numbers[0], numbers[0] + 30))
    assert abs(numbers[-1] * 10 - SystemClock().now_ms()) < 30_000


@pytest.mark.parametrize(("path", "status"), [("/ws", 101), ("/elsewhere", 404)])
async def test_a_handshake_carries_the_exchanges_headers(
    serve: Serve, session: ClientSession, path: str, status: int
) -> None:
    server = await serve()
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }

    async with session.get(f"http://{server.address}{path}", headers=upgrade) as response:
        assert response.status == status
        assert response.headers.getall("Server") == ["toys"]
        response.close()


async def test_two_clients_get_the_same_frames_and_a_combined_one_gets_names_round_them(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    base = f"http://{server.address}"

    async with (
        session.ws_connect(f"{base}/ws/a@n") as raw,
        session.ws_connect(f"{base}/stream?streams=a@n/b@n") as combined,
    ):
        wrapped = [await _next(combined) for _ in range(20)]
        while {frame["stream"] for frame in wrapped} != {"a@n", "b@n"}:
            wrapped.append(await _next(combined))
        inner = [frame["data"] for frame in wrapped if frame["stream"] == "a@n"]
        plain: dict[int, object] = {}
        while inner[0]["n"] not in plain:
            plain |= {frame["n"]: frame for frame in [await _next(raw) for _ in range(30)]}

    assert all(plain[frame["n"]] == frame for frame in inner if frame["n"] in plain)


async def test_an_acknowledgement_comes_before_the_frames_it_announces(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        await socket.send_str('{"join":["a@n","x@nothing"]}')
        assert await _next(socket) == {"ok": True}
        assert (await _next(socket))["s"] == "a@n"
        await socket.send_str('{"leave":["a@n"]}')
        while await _next(socket) != {"ok": True}:
            pass
        assert server.state().streams == 0
        await socket.send_str('{"join":["b@n"]}')
        assert await _next(socket) == {"ok": True}
        assert {(await _next(socket))["s"] for _ in range(10)} == {"b@n"}


async def test_a_feed_that_fails_stops_nobody_else(serve: Serve, session: ClientSession) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws/a@broken/b@n") as socket:
        assert (await _next(socket))["s"] == "b@n"

    assert server.state().feed_failures > 0


async def test_a_control_message_that_breaks_the_exchanges_file_ends_only_that_connection(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with (
        session.ws_connect(f"http://{server.address}/ws/a@n") as healthy,
        session.ws_connect(f"http://{server.address}/ws") as socket,
    ):
        await socket.send_str("not json")
        assert await _end(socket) == 1011
        await _next(healthy)

    assert server.state().failures == 1


async def test_a_ping_carries_the_time_and_its_pong_keeps_the_connection(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(ping_every=0.2, pong_within=0.3))

    async with session.ws_connect(f"http://{server.address}/ws", autoping=False) as socket:
        for _ in range(4):
            message = await socket.receive(timeout=PATIENCE_S)
            assert message.type is WSMsgType.PING
            assert abs(int(message.data) - SystemClock().now_ms()) < 30_000
            await socket.pong(message.data)


@pytest.mark.parametrize("answer", [None, b"", b"12345"])
async def test_without_the_right_pong_a_connection_is_closed(
    serve: Serve, session: ClientSession, answer: bytes | None
) -> None:
    server = await serve(quick(ping_every=0.1, pong_within=0.3))

    async with session.ws_connect(f"http://{server.address}/ws", autoping=False) as socket:
        if answer is not None:
            await socket.receive()
            await socket.pong(answer)
        assert await _end(socket) == 1008


async def test_a_clients_ping_is_answered(serve: Serve, session: ClientSession) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws", autoping=False) as socket:
        await socket.ping(b"hello")
        message = await socket.receive(timeout=PATIENCE_S)

    assert (message.type, message.data) == (WSMsgType.PONG, b"hello")


async def test_too_many_messages_of_any_sort_end_a_connection_and_then_ban_the_address(
    serve: Serve, session: ClientSession
) -> None:
    settings = quick(refusals_before_ban=1, weight_window=HOUR, messages_per_second=5)
    server = await serve(settings)
    url = f"http://{server.address}/ws"

    for _ in range(2):
        async with session.ws_connect(url) as socket:
            for _ in range(2):
                await socket.ping()
                await socket.pong()
                await socket.send_str("{}")
            assert await _end(socket) == 1008

    assert server.state().bans
    with pytest.raises(WSServerHandshakeError) as refused:
        await session.ws_connect(url)
    assert refused.value.status == 418


async def test_more_streams_than_allowed_end_a_connection(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(streams_per_connection=2))

    async with session.ws_connect(f"http://{server.address}/ws/a@n/b@n/c@n") as opened:
        assert await _end(opened) == 1008
    async with session.ws_connect(f"http://{server.address}/ws/a@n/b@n") as grown:
        await grown.send_str('{"join":["c@n"]}')
        assert await _end(grown) == 1008
    await _until(lambda: server.state().streams == 0)


async def test_all_streams_a_connection_may_carry_fit_into_its_address(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    names = "/".join(f"a_rather_long_symbol_{i}@n@100ms" for i in range(1024))

    async with session.ws_connect(f"http://{server.address}/stream?streams={names}") as socket:
        await _next(socket)
        assert server.state().streams == 1024


async def test_connections_beyond_the_limit_are_refused_at_the_door(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(connect_limit=1, connect_window=HOUR))
    url = f"http://{server.address}/ws"

    async with session.ws_connect(url):
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(url)

    assert refused.value.status == 429
    assert refused.value.headers is not None
    assert int(refused.value.headers["Retry-After"]) >= 1


async def test_an_address_may_be_refused_in_the_exchanges_words(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    with pytest.raises(WSServerHandshakeError) as refused:
        await session.ws_connect(f"http://{server.address}/stream?streams=a@n&dialect=rude")

    assert refused.value.status == 400
    assert server.state().failures == 0


async def test_a_connection_hears_its_own_dialect_to_the_last_word(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    url = f"http://{server.address}/stream?streams=a@n"

    async with session.ws_connect(f"{url}&dialect=loud") as loud, session.ws_connect(url) as usual:
        assert "S" in (await _next(loud))["data"]
        assert "s" in (await _next(usual))["data"]
        async with session.post(f"http://{server.address}/_sim/shutdown_notice") as response:
            assert response.status == 200
        while (frame := await _next(loud))["stream"] != "!bye":
            pass
        assert set(frame["data"]) == {"BYE"}


async def test_nothing_at_a_path_is_not_found(serve: Serve, session: ClientSession) -> None:
    server = await serve()

    with pytest.raises(WSServerHandshakeError) as refused:
        await session.ws_connect(f"http://{server.address}/elsewhere")

    assert refused.value.status == 404


async def test_a_connection_ends_with_its_lifetime(serve: Serve, session: ClientSession) -> None:
    facts: list[Fact] = []
    server = await serve(quick(connection_lifetime=0.2), facts.append)

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        assert await _end(socket) == 1001

    await _until(lambda: not server.state().clients)
    opened, gone = facts
    assert isinstance(opened, ClientConnected)
    assert isinstance(gone, ClientGone)
    assert "lifetime" in gone.reason


async def test_a_client_that_does_not_read_is_cut_off(serve: Serve, session: ClientSession) -> None:
    server = await serve()

    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    writer.write(
        b"GET /ws/a@flood HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await _until(lambda: server.state().slow_clients == 1)
    await _until(lambda: not server.state().clients)
    writer.close()
    assert not reader.at_eof()


async def test_stopping_sends_everybody_away(session: ClientSession, serve: Serve) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        await _next(socket)
        await server.stop()
        assert await _end(socket) == 1001
