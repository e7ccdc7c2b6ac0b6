"""What lies under /_sim/, and who may ask."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.simulator.conftest import quick
from tests.waiting import PATIENCE_S

from penstock.simulator.engine.control import WORKED
from penstock.simulator.engine.exchange import Query
from penstock.simulator.engine.questions import BadQuestion
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.pieces import Work

Serve = Callable[..., Awaitable[SimulatorServer]]


async def _get(server: SimulatorServer, session: ClientSession, path: str) -> Any:
    async with session.get(f"http://{server.address}/_sim/{path}") as response:
        assert response.status == 200
        return await response.json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": "penstock.example"}, 403),
        ({"Host": "localhost.example:8790"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_only_this_machine_may_ask(
    serve: Serve, session: ClientSession, headers: Mapping[str, str], status: int
) -> None:
    server = await serve()

    async with session.get(f"http://{server.address}/_sim/state", headers=headers) as response:
        assert response.status == status
        assert ("error" in await response.json()) == (status == 403)


async def test_control_costs_no_weight_and_is_not_in_the_log(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    for _ in range(3):
        state = await _get(server, session, "state")

    assert state["used"]["weight"] == 0
    assert (await _get(server, session, "requests"))["requests"] == []


async def test_the_request_log_continues_behind_a_number(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    for weight in (1, 2, 3):
        async with session.get(f"http://{server.address}/time?weight={weight}"):
            pass

    rows = (await _get(server, session, "requests?after=1"))["requests"]

    assert [(row["seq"], row["weight"], row["status"]) for row in rows] == [
        (2, 2, 200),
        (3, 3, 200),
    ]
    assert rows[0].keys() == {
        "seq",
        "at_ms",
        "window",
        "unit",
        "ip",
        "path",
        "weight",
        "used_after",
        "status",
        "group",
        "key",
    }


async def test_connections_tell_what_they_carried_and_when(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    async with session.ws_connect(f"http://{server.address}/ws/a@n") as socket:
        await socket.send_str('{"join":["b@n"]}')
        while (await socket.receive_str(timeout=PATIENCE_S)) != '{"ok":true}':
            pass
        (connection,) = (await _get(server, session, "connections"))["open"]
        assert connection["streams"] == ["a@n", "b@n"]
        assert connection["closed_ms"] is None

    async with asyncio.timeout(PATIENCE_S):
        while not (closed := (await _get(server, session, "connections"))["closed"]):
            pass
    assert closed[0]["id"] == 1
    assert closed[0]["reason"] == "the client left"
    assert closed[0]["messages_received"] == 1
    changes = closed[0]["subscriptions"]
    assert [change["streams"] for change in changes] == [["a@n"], ["a@n", "b@n"]]


async def test_closed_windows_equal_the_log(serve: Serve, session: ClientSession) -> None:
    server = await serve(quick(weight_window=1.0, weight_limit=5, refusals_before_ban=1000))
    async with asyncio.timeout(PATIENCE_S):
        while len((await _get(server, session, "windows"))["windows"]) < 3:
            async with session.get(f"http://{server.address}/time?weight=2"):
                await asyncio.sleep(0.05)

    windows = (await _get(server, session, "windows"))["windows"]
    rows = (await _get(server, session, "requests"))["requests"]
    for window in windows:
        inside = [row for row in rows if row["window"] == window["window"]]
        assert window["requests"] == len(inside)
        assert window["weight"] == window["max_used"] == sum(row["weight"] for row in inside)
        assert window["refusals"] == sum(row["status"] != 200 for row in inside)
        assert window["sound"] == (window["lag_ms"] <= 100)
    assert any(window["refusals"] for window in windows)


async def test_everybody_can_be_disconnected(serve: Serve, session: ClientSession) -> None:
    server = await serve()

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        async with session.post(f"http://{server.address}/_sim/disconnect") as response:
            assert await response.json() == {"disconnected": 1}
        await socket.receive(timeout=PATIENCE_S)
        assert socket.close_code == 1006


@pytest.mark.parametrize(
    ("ask", "body", "status", "says"),
    [
        ("GET nothing", "", 404, "There is no such path"),
        ("POST state", "", 404, "There is no such path"),
        ("POST faults", '{"plan":"dorp=1"}', 400, "Did you mean drop"),
        ("POST faults", '{"plam":""}', 400, "plam"),
        ("POST faults", "nonsense", 400, "malformed"),
        ("GET requests?after=x", "", 400, "whole number"),
        ("GET ledger/trades?symbol=btc_usdt", "", 400, "no ledger"),
    ],
)
async def test_a_bad_question_is_answered_with_a_sentence(
    serve: Serve, session: ClientSession, ask: str, body: str, status: int, says: str
) -> None:
    server = await serve()
    method, path = ask.split()
    url = f"http://{server.address}/_sim/{path}"

    async with session.request(method, url, data=body) as response:
        assert response.status == status
        assert says in (await response.json())["error"]


class Oracle:
    """Knows one truth."""

    def answer_in_turns(self, question: str, query: Query) -> Work[Mapping[str, object]]:
        yield
        if question != "trades":
            raise BadQuestion("Ask for trades.")
        return {"asked": dict(query)}


async def test_the_ledger_is_asked_for_the_truth(serve: Serve, session: ClientSession) -> None:
    server = await serve(ledger=Oracle())

    answer = await _get(server, session, "ledger/trades?symbol=a_b&limit=5")

    assert answer == {"asked": {"symbol": "a_b", "limit": "5"}}
    async with session.get(f"http://{server.address}/_sim/ledger/lies") as response:
        assert response.status == 400


async def test_every_answer_tells_how_much_the_simulator_has_worked(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()
    told = []
    for path in ("state", "nothing", "requests?after=x"):
        async with session.get(f"http://{server.address}/_sim/{path}") as response:
            told.append(int(response.headers[WORKED]))
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass

    assert 0 < told[0] < told[1] < told[2] <= time.process_time() * 1000
