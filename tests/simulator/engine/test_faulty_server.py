"""Faults as a client meets them, over real sockets."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientPayloadError, ClientSession, ClientWebSocketResponse, WSMsgType
from tests.simulator.conftest import quick
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.simulator.engine.server import SimulatorServer

Serve = Callable[..., Awaitable[SimulatorServer]]


async def _end(socket: ClientWebSocketResponse) -> tuple[list[str], int | None]:
    """Read until the connection ends: the frames and the close code."""
    frames = []
    async with asyncio.timeout(PATIENCE_S):
        async for message in socket:
            frames.append(message.data)
    return frames, socket.close_code


async def _log(server: SimulatorServer, session: ClientSession) -> list[dict[str, Any]]:
    async with session.get(f"http://{server.address}/_sim/faults") as response:
        rows: list[dict[str, Any]] = (await response.json())["injected"]
        return rows


async def test_every_frame_is_either_seen_or_in_the_log(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="drop=0.2"))

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        seen = [json.loads(await socket.receive_str(timeout=PATIENCE_S))["n"] for _ in range(40)]

    hidden = [json.loads(row["hid"])["n"] for row in await _log(server, session)]
    assert hidden
    everything = sorted(n for n in seen + hidden if seen[0] <= n <= seen[-1])
    assert everything == list(range(seen[0], seen[-1] + 1))


@pytest.mark.parametrize("kind", ["cut", "close"])
async def test_a_broken_connection_ends_without_a_close_frame(
    serve: Serve, session: ClientSession, kind: str
) -> None:
    server = await serve(quick(faults=f"{kind}=200ms"))

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        frames, code = await _end(socket)

    assert code == 1006
    assert all(json.loads(frame)["s"] == "a@n" for frame in frames), "only whole frames are seen"
    (row,) = await _log(server, session)
    assert row["kind"] == kind


async def test_a_shutdown_is_announced_before_it_comes(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/stream?streams=a@n") as socket:
        await socket.receive()
        async with session.post(
            f"http://{server.address}/_sim/shutdown_notice", data=b'{"after_ms":200}'
        ) as response:
            assert (await response.json())["warned"] == 1
        frames, code = await _end(socket)

    notices = [i for i, frame in enumerate(frames) if json.loads(frame)["stream"] == "!bye"]
    assert len(notices) == 1
    assert notices[0] < len(frames) - 5, "frames go on after the notice"
    assert code == 1001


async def test_a_planned_shutdown_gives_notice_by_itself(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="shutdown=100ms"))

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        notice = json.loads(await socket.receive_str(timeout=PATIENCE_S))

    assert abs(notice["bye"] - SystemClock().now_ms()) < 30_000


async def test_a_muted_connection_is_silent_but_still_pinged(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="mute=0ms", ping_every=0.2))

    async with session.ws_connect(f"http://{server.address}/ws/a@n", autoping=False) as socket:
        kinds = [(await socket.receive(timeout=PATIENCE_S)).type for _ in range(2)]

    assert kinds == [WSMsgType.PING, WSMsgType.PING]
    assert server.state().injected["mute"] > 10


async def test_a_lifetime_can_be_shortened(serve: Serve, session: ClientSession) -> None:
    server = await serve(quick(faults="lifetime=100ms"))

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        assert (await _end(socket))[1] == 1001


async def test_an_acknowledgement_may_be_lost_and_the_stream_still_comes(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="lostack=1"))

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        await socket.send_str('{"join":["a@n"]}')
        assert json.loads(await socket.receive_str(timeout=PATIENCE_S))["s"] == "a@n"


async def test_a_refused_subscription_brings_no_frames(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="refusedack=1"))

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        await socket.send_str('{"join":["a@n"]}')
        assert json.loads(await socket.receive_str(timeout=PATIENCE_S)) == {"ok": False}
        assert server.state().streams == 0


@pytest.mark.parametrize(
    ("plan", "status"), [("http500=1", 500), ("http429=1", 429), ("http418=1", 418)]
)
async def test_a_storm_answers_with_a_status_but_breaks_no_limit(
    serve: Serve, session: ClientSession, plan: str, status: int
) -> None:
    server = await serve(quick(faults=plan))

    async with session.get(f"http://{server.address}/time") as response:
        assert response.status == status
        assert response.headers["Used"] == "1"
        assert ("Retry-After" in response.headers) == (status != 500)

    assert server.state().bans == {}
    (row,) = await _log(server, session)
    assert (row["kind"], row["where"], row["number"]) == (f"http{status}", "/time", 1)


async def test_a_page_comes_where_json_was_expected(serve: Serve, session: ClientSession) -> None:
    server = await serve(quick(faults="html@/time=1"))

    async with session.get(f"http://{server.address}/time") as response:
        assert response.content_type == "text/html"
        assert (await response.text()).startswith("<html>")
    async with session.get(f"http://{server.address}/depth") as response:
        assert response.content_type == "application/json"


async def test_a_body_can_end_before_its_promised_length(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="cutbody=1"))

    for _ in range(2):
        async with session.get(f"http://{server.address}/time") as response:
            assert response.status == 200
            with pytest.raises(ClientPayloadError):
                await response.read()

    assert server.state().failures == 0


async def test_a_snapshot_can_be_older_or_newer_than_its_admission(
    serve: Serve, session: ClientSession
) -> None:
    for plan, low, high in (("stale=1", -2000, -1), ("early=1", 1, 1000)):
        server = await serve(quick(faults=plan))
        async with session.get(f"http://{server.address}/depth") as response:
            as_of = (await response.json())["at"]
        async with session.get(f"http://{server.address}/_sim/requests") as response:
            (row,) = (await response.json())["requests"]
        assert low <= as_of - row["at_ms"] <= high


async def test_latency_is_added_after_admission(serve: Serve, session: ClientSession) -> None:
    server = await serve(quick(faults="latency=300ms"))
    clock = SystemClock()

    async with session.get(f"http://{server.address}/time") as response:
        at_ms = (await response.json())["at"]

    assert clock.now_ms() - at_ms >= 300


async def test_a_limit_changes_while_the_server_runs_and_comes_back_with_the_plan(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async def limit_becomes(limit: int, plan: str) -> None:
        body = json.dumps({"plan": plan})
        url = f"http://{server.address}/_sim/faults"
        async with session.post(url, data=body) as response:
            assert response.status == 200
        async with asyncio.timeout(PATIENCE_S):
            while server.state().limits["weight"] != limit:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    await limit_becomes(5, "limit=5@100ms")
    async with session.get(f"http://{server.address}/time?weight=6") as response:
        assert response.status == 429
    await limit_becomes(6000, "")


async def test_a_plan_takes_hold_of_connections_already_open(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        await socket.receive_str(timeout=PATIENCE_S)
        url = f"http://{server.address}/_sim/faults"
        async with session.post(url, data=b'{"plan":"nan=1","seed":7}') as response:
            assert await response.json() == {"plan": "nan=1", "seed": 7}
        async with asyncio.timeout(PATIENCE_S):
            while json.loads(await socket.receive_str())["p"] != "NaN":
                pass
        async with session.post(url, data=b'{"plan":""}'):
            pass
        async with asyncio.timeout(PATIENCE_S):
            while json.loads(await socket.receive_str())["p"] != "1.50":
                pass


async def test_frames_held_back_are_sent_when_their_plan_ends(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="delay=1"))

    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        first = json.loads(await socket.receive_str(timeout=PATIENCE_S))["n"]
        async with session.post(f"http://{server.address}/_sim/faults", data=b'{"plan":""}'):
            pass
        seen = {first}
        async with asyncio.timeout(PATIENCE_S):  # late, but every one of them
            while len(seen) < 100 or seen != set(range(min(seen), max(seen) + 1)):
                seen.add(json.loads(await socket.receive_str())["n"])
