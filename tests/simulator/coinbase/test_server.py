"""The simulated Coinbase on a real socket: limits are kept, faults strike, books stay whole."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.errors import ConfigError
from penstock.simulator.coinbase import CATALOGUE, build
from penstock.simulator.coinbase.rules import rules_from
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.limits import RequestLimiter
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.market import Market, library_of

Serve = Callable[..., Awaitable[str]]
SLOW = {"public": "2/3600", "connections": "2/3600", "messages": "3/3600"}


@pytest.fixture(scope="module")
def markets() -> list[Market]:
    listed = CATALOGUE.find(["sol_usd", "eth_btc"])
    return [Market(each, 7, library_of(each)) for each in listed]


@pytest.fixture
async def serve(markets: list[Market]) -> AsyncIterator[Serve]:
    """Start the exchange; its address."""
    servers: list[SimulatorServer] = []

    async def start(**settings: Any) -> str:
        chosen = Simulator(port=0, uplink_ms=0, latency_ms=1, **settings)
        exchange = build(markets, chosen)
        server = SimulatorServer(
            exchange, chosen, SystemClock(), ledger=Ledger(markets, SystemClock())
        )
        servers.append(server)
        await server.start()
        return f"http://{server.address}"

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


async def _next(socket: ClientWebSocketResponse, *kinds: str) -> dict[str, Any]:
    while True:
        message = await socket.receive(timeout=PATIENCE_S)
        assert message.type is WSMsgType.TEXT, message
        frame: dict[str, Any] = json.loads(message.data)
        if frame["type"] in kinds:
            return frame


def _subscribe(*channels: str) -> str:
    products = ["SOL-USD", "ETH-BTC"]
    return json.dumps({"type": "subscribe", "product_ids": products, "channels": channels})


async def test_the_third_request_of_two_is_refused_and_nobody_is_banned(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve(limits=SLOW, refusals_before_ban=1)

    statuses = []
    for _ in range(8):
        async with http.get(f"{address}/products/SOL-USD/ticker") as answer:
            statuses.append(answer.status)
            body = await answer.json()

    assert statuses == [200, 200, *[429] * 6]
    assert body == {"message": "Public rate limit exceeded"}
    assert "Retry-After" not in answer.headers


def test_a_bucket_of_fifteen_fills_at_ten_a_second() -> None:
    limiter = RequestLimiter(rules_from(Simulator()), None)

    at_once = [limiter.admit("a", "/time", 1, 1_000_000).admitted for _ in range(20)]
    tenth_later = [limiter.admit("a", "/time", 1, 1_000_100).admitted for _ in range(2)]
    second_later = [limiter.admit("a", "/time", 1, 1_001_100).admitted for _ in range(20)]

    assert at_once == [True] * 15 + [False] * 5
    assert tenth_later == [True, False], "what was refused has taken nothing"
    assert second_later == [True] * 10 + [False] * 10


def test_connects_and_messages_have_limits_of_their_own() -> None:
    limiter = RequestLimiter(rules_from(Simulator()), None)

    connects = [limiter.connect("a", "/", 1_000_000).admitted for _ in range(25)]
    said = [limiter.message(number % 3, 1_000_000, "a") for number in range(120)]

    assert connects == [True] * 20 + [False] * 5
    assert said == [True] * 100 + [False] * 20, "of all connections of an address together"
    assert limiter.admit("a", "/time", 1, 1_000_000).admitted


def test_a_limit_that_does_not_exist_cannot_be_set() -> None:
    with pytest.raises(ConfigError, match="public, private, connections, messages"):
        rules_from(Simulator(limits={"weight": "1/1"}))


async def test_connecting_and_talking_too_much_is_refused(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve(limits=SLOW)
    async with http.ws_connect(address) as socket, http.ws_connect(address):
        async with http.get(address, headers={"Upgrade": "websocket"}) as third:
            assert third.status == 429
        for _ in range(4):
            await socket.send_str(_subscribe("heartbeat"))
        while (message := await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.TEXT:
            pass
        assert message.type is WSMsgType.CLOSE
        assert message.data == 1008


async def test_whoever_does_not_subscribe_is_sent_away(serve: Serve, http: ClientSession) -> None:
    address = await serve()
    async with http.ws_connect(address) as silent, http.ws_connect(address) as busy:
        await busy.send_str(_subscribe("heartbeat"))
        message = await silent.receive(timeout=PATIENCE_S)

        assert message.type is WSMsgType.CLOSE
        assert (await _next(busy, "heartbeat"))["type"] == "heartbeat"


async def test_a_book_from_the_socket_is_the_ledgers(serve: Serve, http: ClientSession) -> None:
    address = await serve()
    sides: dict[str, dict[str, str]] = {}
    async with http.ws_connect(address, max_msg_size=0) as socket:
        await socket.send_str(_subscribe("level2_batch", "matches"))
        first = await _next(socket, "subscriptions", "snapshot", "last_match")
        assert first["type"] == "subscriptions", "before anything it announces"
        for looks in range(40):
            frame = await _next(socket, "snapshot", "l2update")
            if frame["product_id"] != "SOL-USD":
                continue
            if frame["type"] == "snapshot":
                assert not sides, "one at the beginning"
                sides = {"buy": dict(frame["bids"]), "sell": dict(frame["asks"])}
                continue
            assert sides, "the whole book comes before its changes"
            for side, price, size in frame["changes"]:
                sides[side][price] = size
            if looks % 5 == 0:
                at_ms = round(datetime.fromisoformat(frame["time"]).timestamp() * 1000)
                query = f"symbol=sol_usd&at_ms={at_ms}&depth=100000"
                async with http.get(f"{address}/_sim/ledger/book?{query}") as answer:
                    truth = await answer.json()
                for side, name in (("buy", "bids"), ("sell", "asks")):
                    kept = {p: size for p, size in sides[side].items() if Decimal(size)}
                    assert kept == dict(truth[name])


@pytest.mark.parametrize(
    "plan", ["drop=0.3", "duplicate=0.3", "reorder=0.3", "malformed=0.3", "delay=0.3", "huge=0.3"]
)
async def test_faults_strike_frames(serve: Serve, http: ClientSession, plan: str) -> None:
    address = await serve(faults=plan)
    async with http.ws_connect(address, max_msg_size=0) as socket:
        await socket.send_str(_subscribe("level2_batch", "heartbeat"))
        for _ in range(30):
            assert (await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.TEXT
    async with http.get(f"{address}/_sim/faults") as answer:
        injected = (await answer.json())["counts"]

    assert injected[plan.partition("=")[0]] > 0


@pytest.mark.parametrize("fault", ["lostack", "refusedack"])
async def test_faults_strike_acknowledgements(
    serve: Serve, http: ClientSession, fault: str
) -> None:
    address = await serve(faults=f"{fault}=1")
    async with http.ws_connect(address) as socket:
        await socket.send_str(_subscribe("heartbeat"))
        frame = await _next(socket, "subscriptions", "error", "heartbeat")

    assert frame["type"] == ("heartbeat" if fault == "lostack" else "error")


async def test_faults_cut_connections_and_requests(serve: Serve, http: ClientSession) -> None:
    address = await serve(faults="cut=300ms,http500@/time=1,html@*/stats=1,http429@*/book=1")
    async with http.ws_connect(address, max_msg_size=0) as socket:
        await socket.send_str(_subscribe("level2_batch"))
        while (message := await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.TEXT:
            pass
        assert message.type in (WSMsgType.CLOSED, WSMsgType.ERROR)
    for path, status in (("/time", 500), ("/products/SOL-USD/book", 429)):
        async with http.get(address + path) as answer:
            assert answer.status == status
            assert "message" in await answer.json()
    async with http.get(f"{address}/products/SOL-USD/stats") as answer:
        assert answer.content_type == "text/html"
