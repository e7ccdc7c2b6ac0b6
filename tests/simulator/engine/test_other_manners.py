"""What exchanges do that the first one did not: snapshots, groups of limits, paths that vary."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from tests.simulator.conftest import ToyExchange
from tests.waiting import PATIENCE_S

from penstock.config import Simulator
from penstock.simulator.engine.exchange import (
    Asked,
    ControlReply,
    Opening,
    Reply,
    Route,
    StreamFeed,
    Subscriber,
    Upkeep,
)
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.routing import Router
from penstock.simulator.engine.rules import LimitTarget, Rule
from penstock.simulator.engine.server import SimulatorServer

Serve = Callable[..., Awaitable[SimulatorServer]]
QUICK = Simulator(port=0, uplink_ms=0, latency_ms=1)
HOUR_MS = 3_600_000


def _grouped(asked: Asked) -> LimitTarget:
    return LimitTarget("pages", asked.query["shelf"])


def _page(asked: Asked, _: int) -> Reply:
    return Reply(json.dumps(dict(asked.query)).encode(), headers={"Next": "more"})


class OtherToy(ToyExchange):
    """A stream is a count; whoever joins is told how far it has come."""

    binary = True

    def __init__(self, settings: Simulator) -> None:
        super().__init__(settings)
        self.bans = None
        self.upkeep = Upkeep()
        self.rules = (
            Rule("all", "bucket", HOUR_MS, 3, "ip", "request"),
            Rule("shelf", "bucket", HOUR_MS, 1, "key", "request", group="pages"),
            Rule("doors", "bucket", HOUR_MS, 1, "ip", "connect", group="back"),
            Rule("chatter", "bucket", HOUR_MS, 4, "ip", "message"),
        )
        path = "/shelves/{shelf}/pages"
        self.routes = {
            **self.routes,
            path: Route(path, lambda _: 1, _page, _grouped),
            "/shelves/none/pages": Route("/shelves/none/pages", lambda _: 1, lambda *_: b'"none"'),
        }

    def refusal(self, verdict: Verdict) -> Reply:
        return Reply(b'{"refused":"inside 200"}')

    def usage_headers(self, verdict: Verdict) -> dict[str, str]:
        return {"Left": json.dumps(verdict.left)}

    def open(self, path: str, asked: Asked) -> Opening | None:
        if path != "/live":
            return None
        group = "back" if "X-Back" in asked.headers else ""
        return Opening((), wrapped=False, group=group)

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:
        return [b'{"hello":%d,"at":%d}' % (connection, at_ms)]

    def overrun(self, text: str) -> bytes | None:
        return b'{"enough":%s}' % json.dumps(text).encode()

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        replies = []
        for name in json.loads(text):
            if name in subscriber.streams:
                subscriber.renewed.add(name)
            subscriber.streams[name] = None
            ack = b'{"ok":true,"of":"%s"}' % name.encode()
            replies.append(ControlReply(ack, acknowledges=True, concerns=(name,)))
        return replies

    def feed(self, stream: str, dialect: str) -> StreamFeed | None:
        def frames(after_ms: int, upto_ms: int) -> list[bytes]:
            return [b'{"to":%d}' % upto_ms, b'{"p":1.50}']

        return StreamFeed(stream, frames, opening=lambda at_ms: [b'{"from":%d}' % at_ms])


async def _next(socket: ClientWebSocketResponse) -> Any:
    message = await socket.receive(timeout=PATIENCE_S)
    assert message.type is WSMsgType.BINARY
    return json.loads(message.data)


async def _read(socket: ClientWebSocketResponse, count: int) -> list[Any]:
    return [await _next(socket) for _ in range(count)]


@pytest.fixture
async def server(serve: Serve) -> SimulatorServer:
    return await serve(toy=OtherToy)


async def test_a_client_is_greeted_then_answered_then_told_where_its_stream_begins(
    server: SimulatorServer, session: ClientSession
) -> None:
    async with session.ws_connect(f"http://{server.address}/live") as socket:
        await socket.send_bytes(b'["a"]')
        greeting, ack, opening, frame, *_ = await _read(socket, 6)

    assert greeting["hello"] == 1
    assert ack == {"ok": True, "of": "a"}
    assert opening.keys() == {"from"}
    assert frame["to"] > opening["from"]


async def test_each_who_joins_hears_an_opening_of_his_own_and_nobody_else_does(
    server: SimulatorServer, session: ClientSession
) -> None:
    url = f"http://{server.address}/live"
    async with session.ws_connect(url) as first, session.ws_connect(url) as second:
        await first.send_str('["a"]')
        early = await _read(first, 6)
        await second.send_str('["a"]')
        late = await _read(second, 4)
        early += await _read(first, 20)

    assert sum("from" in frame for frame in early) == 1
    assert late[2]["from"] in {frame.get("to") for frame in early}, "it continues what others hear"


async def test_a_stream_asked_for_again_begins_anew(
    server: SimulatorServer, session: ClientSession
) -> None:
    async with session.ws_connect(f"http://{server.address}/live") as socket:
        await socket.send_str('["a"]')
        await _read(socket, 6)
        await socket.send_str('["a"]')
        frames = await _read(socket, 20)

    assert sum("from" in frame for frame in frames) == 1


async def test_a_message_too_many_may_be_answered_and_counts_for_the_whole_address(
    server: SimulatorServer, session: ClientSession
) -> None:
    url = f"http://{server.address}/live"
    async with session.ws_connect(url) as first, session.ws_connect(url) as second:
        for _ in range(5):
            await first.send_str("[]")
        assert (await _read(first, 2))[1] == {"enough": "[]"}
        await second.send_str('["a"]')
        assert (await _read(second, 2))[1] == {"enough": '["a"]'}


async def test_connects_of_one_group_do_not_use_up_those_of_another(
    server: SimulatorServer, session: ClientSession
) -> None:
    url = f"http://{server.address}/live"
    async with session.ws_connect(url, headers={"X-Back": "yes"}), session.ws_connect(url):
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(url, headers={"X-Back": "yes"})

    assert refused.value.status == 200, "an error inside a 200"


async def test_a_path_names_parameters_and_an_answer_may_have_headers(
    server: SimulatorServer, session: ClientSession
) -> None:
    url = f"http://{server.address}/shelves/top/pages?shelf=forged&n=1"
    async with session.get(url) as response:
        assert await response.json(content_type=None) == {"shelf": "top", "n": "1"}
        assert response.headers["Next"] == "more"
        assert json.loads(response.headers["Left"]) == {"all": 2, "shelf": 0}
    async with session.get(f"http://{server.address}/shelves/none/pages") as response:
        assert await response.json(content_type=None) == "none"
    for path in ("/shelves/top/pages/1", "/shelves/top", "/drawers/top/pages"):
        assert Router(OtherToy(QUICK).routes).find(path) is None


async def test_a_parameter_sent_several_times_is_a_list(
    server: SimulatorServer, session: ClientSession
) -> None:
    url = f"http://{server.address}/shelves/top/pages?n=1&m=2&n=3"
    async with session.get(url) as response:
        assert await response.json(content_type=None) == {"shelf": "top", "n": "1,3", "m": "2"}


async def test_keys_are_counted_apart_and_a_refusal_inside_a_200_is_one_in_the_log(
    server: SimulatorServer, session: ClientSession
) -> None:
    bodies = []
    for shelf in ("a", "b", "a", "c"):
        async with session.get(f"http://{server.address}/shelves/{shelf}/pages") as response:
            assert response.status == 200
            bodies.append(await response.json(content_type=None))

    refused = {"refused": "inside 200"}
    assert bodies == [{"shelf": "a"}, {"shelf": "b"}, refused, refused]
    rows = await _requests(server, session)
    assert [row["status"] for row in rows] == [200, 200, 429, 429]
    assert [(row["group"], row["key"]) for row in rows][:2] == [("pages", "a"), ("pages", "b")]
    assert server.state().refusals == 2
    assert server.state().used == {"all": 4, "shelf": 2, "doors": 0, "chatter": 0}


async def test_one_refused_acknowledgement_takes_back_its_own_stream_alone(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(msgspec.structs.replace(QUICK, faults="refusedack=0.5"), toy=OtherToy)
    names = [f"s{n}" for n in range(20)]
    async with session.ws_connect(f"http://{server.address}/live") as socket:
        await socket.send_str(json.dumps(names))
        await _next(socket)
        acks = await _read(socket, 20)
        kept = [ack["of"] for ack in acks if ack["ok"]]
        async with session.get(f"http://{server.address}/_sim/connections") as response:
            (connection,) = (await response.json())["open"]

    assert 0 < len(kept) < 20
    assert connection["streams"] == kept


@pytest.mark.parametrize(
    ("upkeep", "reason"),
    [(Upkeep(subscribe_within_ms=50), "no subscription"), (Upkeep(idle_ms=50), "idle")],
)
async def test_a_connection_that_asks_for_nothing_is_ended_where_the_exchange_says_so(
    serve: Serve, session: ClientSession, upkeep: Upkeep, reason: str
) -> None:
    def toy(settings: Simulator) -> OtherToy:
        made = OtherToy(settings)
        made.upkeep = upkeep
        return made

    server = await serve(toy=toy)
    async with (
        session.ws_connect(f"http://{server.address}/live") as busy,
        session.ws_connect(f"http://{server.address}/live") as socket,
    ):
        await busy.send_str('["a"]')
        await _next(socket)
        message = await socket.receive(timeout=PATIENCE_S)
        assert (message.type, message.extra) == (WSMsgType.CLOSE, reason)
        assert server.state().clients >= 1
        await _read(busy, 3)


async def test_bare_numbers_are_spoiled_too(serve: Serve, session: ClientSession) -> None:
    server = await serve(msgspec.structs.replace(QUICK, faults="huge=1"), toy=OtherToy)

    async with session.ws_connect(f"http://{server.address}/live") as socket:
        await socket.send_str('["a"]')
        await _read(socket, 3)
        frames = [(await socket.receive(timeout=PATIENCE_S)).data for _ in range(4)]

    assert b'{"p":1e999}' in frames


async def _requests(server: SimulatorServer, session: ClientSession) -> list[dict[str, Any]]:
    async with session.get(f"http://{server.address}/_sim/requests") as response:
        rows: list[dict[str, Any]] = (await response.json())["requests"]
        return rows
