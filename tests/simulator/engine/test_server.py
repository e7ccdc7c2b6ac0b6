"""The server from outside: requests, limits, defects, and the port."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, WSServerHandshakeError
from tests.simulator.conftest import quick

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.errors import ConfigError, PortInUse
from penstock.simulator.engine.exchange import Upkeep
from penstock.simulator.engine.facts import RequestRefused
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import Fact

Serve = Callable[..., Awaitable[SimulatorServer]]
HOUR = 3600.0  # long enough that no test crosses into the next window by bad luck


async def test_an_answer_is_as_of_the_instant_of_admission(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(latency_ms=200))

    async with session.get(f"http://{server.address}/time") as response:
        answer = await response.json()
        assert response.status == 200
        assert response.headers["Used"] == "1"

    log = await _requests(server, session)
    assert answer["at"] == log[0]["at_ms"]
    assert SystemClock().now_ms() - answer["at"] >= 100


async def test_over_the_limit_is_429_then_418_until_forgiven(
    serve: Serve, session: ClientSession
) -> None:
    facts: list[Fact] = []
    settings = quick(weight_limit=10, weight_window=HOUR, refusals_before_ban=1)
    server = await serve(settings, facts.append)
    url = f"http://{server.address}/time?weight=6"

    statuses, used = [], []
    for _ in range(4):
        async with session.get(url) as response:
            statuses.append(response.status)
            used.append(int(response.headers["Used"]))
            retry_after = response.headers.get("Retry-After")

    assert statuses == [200, 429, 418, 418]
    assert used == [6, 12, 18, 24], "refused requests add weight too"
    assert retry_after is not None
    assert 1 <= int(retry_after) <= 3600
    assert [f.status for f in facts if isinstance(f, RequestRefused)] == [429, 418, 418]
    assert [row["status"] for row in await _requests(server, session)] == statuses
    assert server.state().bans

    async with session.post(f"http://{server.address}/_sim/unban") as response:
        assert await response.json() == {"forgiven": ["127.0.0.1"]}
    assert not server.state().bans


async def test_an_unknown_path_or_method_is_not_found_in_the_exchanges_words(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    for method, path in (("GET", "/nowhere"), ("POST", "/time")):
        async with session.request(method, f"http://{server.address}{path}") as response:
            assert response.status == 404
            assert await response.json() == {"nothing at": path}
    assert len(await _requests(server, session)) == 2


async def test_the_exchanges_own_no_keeps_its_status_and_body(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.get(f"http://{server.address}/picky") as response:
        assert (response.status, await response.json()) == (400, {"bad": "parameter"})
        assert response.headers["Used"] == "1"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/time", 200),
        ("/picky", 400),
        ("/nowhere", 404),
        ("/time?weight=11", 429),
        ("/broken", 500),
    ],
)
async def test_every_answer_carries_the_exchanges_headers_and_no_others_name(
    serve: Serve, session: ClientSession, path: str, status: int
) -> None:
    server = await serve(quick(weight_limit=10, weight_window=HOUR))

    async with session.get(f"http://{server.address}{path}") as response:
        assert response.status == status
        assert response.headers.getall("Server") == ["toys"]
        assert response.headers.getall("Content-Type") == ["application/json;toy=yes"]


async def test_an_endpoint_sees_the_headers_of_a_request(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.get(f"http://{server.address}/echo", headers={"x-say": "hi"}) as response:
        assert await response.json() == "hi", "whatever the case of their names"


async def test_a_page_and_a_body_cut_short_carry_them_too(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="html@/time=1,cutbody@/depth=1"))

    for path, content_type in (("/time", "text/html"), ("/depth", "application/json;toy=yes")):
        async with session.get(f"http://{server.address}{path}") as response:
            assert response.headers.getall("Server") == ["toys"]
            assert response.headers.getall("Content-Type") == [content_type]


async def test_a_defect_is_a_500_and_harms_nobody_else(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.get(f"http://{server.address}/broken") as response:
        assert response.status == 500
        assert await response.json() == {"broken": True}, "in the exchange's own words"
    async with session.get(f"http://{server.address}/time") as response:
        assert response.status == 200

    assert server.state().failures == 1
    assert server.state().in_flight == 0


async def test_work_for_one_request_does_not_delay_the_admission_of_others(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(latency_ms=30))

    async def ask() -> None:
        async with session.get(f"http://{server.address}/work?ms=15") as response:
            assert response.status == 200

    await asyncio.gather(*(ask() for _ in range(20)))

    stamps = [row["at_ms"] for row in await _requests(server, session)]
    assert max(stamps) - min(stamps) < 150, "the work alone takes 300 ms"


async def test_two_addresses_have_two_budgets(serve: Serve, session: ClientSession) -> None:
    server = await serve(quick(weight_limit=1, weight_window=HOUR))
    other = ClientSession(connector=TCPConnector(local_addr=("127.0.0.2", 0)))
    async with other:
        for asking in (session, other):
            async with asking.get(f"http://{server.address}/time") as response:
                assert response.status == 200


async def test_a_port_in_use_names_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        server = _server(quick(port=port))

        with pytest.raises(PortInUse, match=rf"pid {os.getpid()}\)") as caught:
            await server.start()

    assert caught.value.port == port


async def test_an_address_of_another_machine_is_a_setting_to_mend() -> None:
    server = _server(quick(host="192.0.2.1"))

    with pytest.raises(ConfigError, match=r"simulator\.port.*192\.0\.2\.1"):
        await server.start()


async def test_a_stopped_server_frees_its_port_and_can_be_followed_by_another() -> None:
    first = _server(quick())
    await first.start()
    port = first.port
    assert port != 0
    await first.stop()

    second = _server(quick(port=port))
    await second.start()
    assert second.address == f"127.0.0.1:{port}"
    await second.stop()


def test_building_a_server_reads_the_plan_of_faults_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="Did you mean drop"):
        _server(quick(faults="dorp=0.1"))


async def test_a_defect_before_a_request_is_even_counted_is_a_500_too(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve()

    async with session.get(f"http://{server.address}/time?weight=heavy") as response:
        assert response.status == 500
    with pytest.raises(WSServerHandshakeError) as refused:
        await session.ws_connect(f"http://{server.address}/stream")

    assert refused.value.status == 500
    assert (server.state().failures, server.state().in_flight) == (2, 0)


class _Nothing:
    """An exchange that has nothing at all."""

    name = "nothing"
    rules = ()
    bans = None
    upkeep = Upkeep()
    routes: dict[str, object] = {}  # noqa: RUF012


def _server(settings: Simulator) -> SimulatorServer:
    return SimulatorServer(_Nothing(), settings, SystemClock())  # type: ignore[arg-type]


async def _requests(server: SimulatorServer, session: ClientSession) -> list[dict[str, Any]]:
    async with session.get(f"http://{server.address}/_sim/requests") as response:
        rows: list[dict[str, Any]] = (await response.json())["requests"]
        return rows
