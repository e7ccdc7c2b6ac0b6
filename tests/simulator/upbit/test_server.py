"""The simulated Upbit on a real socket: groups of limits are kept, frames are binary."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator.engine.exchange import Asked
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.limits import RequestLimiter
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.market import Market, library_of
from penstock.simulator.upbit import CATALOGUE, Upbit, build
from penstock.simulator.upbit.rules import IDLE_MS, rules_from

Serve = Callable[..., Awaitable[str]]
HOUR = "3600"


@pytest.fixture(scope="module")
def markets() -> list[Market]:
    listed = CATALOGUE.find(["btc_krw", "link_krw"])
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


def _request(*kinds: str, **more: object) -> str:
    wanted = [{"type": kind, "codes": ["KRW-BTC"], **more} for kind in kinds]
    return json.dumps([{"ticket": "t"}, *wanted])


async def test_each_group_has_a_limit_of_its_own_and_tells_what_is_left(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve(limits={"candle": f"2/{HOUR}"}, refusals_before_ban=100)

    seen = []
    for path in ("minutes/1", "days", "weeks"):
        async with http.get(f"{address}/v1/candles/{path}?market=KRW-BTC") as answer:
            seen.append((answer.status, answer.headers["Remaining-Req"]))
            body = await answer.json()
    async with http.get(f"{address}/v1/market/all") as answer:
        other = answer.status, answer.headers["Remaining-Req"]

    assert seen == [
        (200, "group=candle; min=600; sec=1"),
        (200, "group=candle; min=600; sec=0"),
        (429, "group=candle; min=600; sec=0"),
    ]
    assert body["error"]["name"] == "too_many_requests"
    assert other == (200, "group=market; min=600; sec=9")


async def test_whoever_goes_on_after_refusals_is_shut_out(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve(limits={"ticker": f"1/{HOUR}"}, refusals_before_ban=2, first_ban=77)

    statuses = []
    for _ in range(5):
        async with http.get(f"{address}/v1/ticker?markets=KRW-BTC") as answer:
            statuses.append(answer.status)
            body = await answer.json()
    async with http.get(f"{address}/v1/market/all") as answer:
        elsewhere = answer.status

    assert statuses == [200, 429, 429, 418, 418]
    assert " 77 seconds" in body["error"]["message"]
    assert elsewhere == 418, "of every group"


async def test_a_page_in_a_browser_may_ask_once_in_ten_seconds(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve(limits={"origin": f"1/{HOUR}"}, refusals_before_ban=100)
    page = {"Origin": "https://example.org"}

    statuses = []
    for headers in (page, page, {}):
        async with http.get(f"{address}/v1/market/all", headers=headers) as answer:
            statuses.append((answer.status, answer.headers["Remaining-Req"].split(";")[0]))

    assert statuses == [(200, "group=origin"), (429, "group=origin"), (200, "group=market")]


def test_no_second_anywhere_has_more_than_ten() -> None:
    limiter = RequestLimiter(rules_from(Simulator()), None)
    upbit = Upbit([], Simulator())
    target = upbit.routes["/v1/ticker"].target(Asked({}))

    def admitted(at_ms: int, count: int) -> int:
        verdicts = [limiter.admit("a", "/", 1, at_ms, target) for _ in range(count)]
        return sum(verdict.admitted for verdict in verdicts)

    assert admitted(1_000_900, 10) == 10
    assert admitted(1_001_100, 1) == 0, "another second by the clock, but not yet a second"
    assert admitted(1_001_950, 10) == 9, "what was refused counts too"


def test_connects_and_messages_are_counted() -> None:
    limiter = RequestLimiter(rules_from(Simulator()), None)

    connects = [
        limiter.connect("a", "/websocket/v1", 1_000_000, "websocket-connect").admitted
        for _ in range(6)
    ]
    in_a_second = [limiter.message(1, 1_000_000) for _ in range(6)]
    in_a_minute = [limiter.message(2, 1_000_000 + 400 * number) for number in range(110)]

    assert connects == [True] * 5 + [False]
    assert in_a_second == [True] * 5 + [False]
    assert in_a_minute == [True] * 100 + [False] * 10
    assert Upbit([], Simulator()).upkeep.idle_ms == IDLE_MS == 120_000


async def test_connecting_from_a_page_is_refused_the_second_time(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve()
    path, page = f"{address}/websocket/v1", "https://example.org"
    async with http.ws_connect(path, origin=page):
        with pytest.raises(WSServerHandshakeError) as raised:
            await http.ws_connect(path, origin=page)
        assert raised.value.status == 429
        async with http.ws_connect(path):
            pass


async def test_frames_are_binary_and_the_new_request_replaces_the_old(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve()
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        await socket.send_str("PING")
        assert (await socket.receive(timeout=PATIENCE_S)).data == b'{"status":"UP"}'
        await socket.send_str(_request("orderbook"))
        first = await socket.receive(timeout=PATIENCE_S)
        assert first.type is WSMsgType.BINARY
        assert json.loads(first.data)["stream_type"] == "SNAPSHOT"
        assert (
            json.loads((await socket.receive(timeout=PATIENCE_S)).data)["stream_type"] == "REALTIME"
        )

        await socket.send_bytes(_request("ticker").encode())
        while (
            kind := json.loads((await socket.receive(timeout=PATIENCE_S)).data)["type"]
        ) != "ticker":
            assert kind == "orderbook", "still under way"
        await socket.send_str(_request("ticker", is_only_snapshot=True))
        while (
            json.loads((await socket.receive(timeout=PATIENCE_S)).data)["stream_type"] != "SNAPSHOT"
        ):
            pass
        await socket.send_str('[{"ticket":"t"},{"type":"trade"}]')
        error = json.loads((await socket.receive(timeout=PATIENCE_S)).data)
        assert error["error"]["name"] == "NO_CODES", "nothing but the error followed"


async def test_the_same_request_again_brings_its_snapshot_again(
    serve: Serve, http: ClientSession
) -> None:
    address = await serve()
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        for _ in range(2):
            await socket.send_str(_request("candle.1m", is_only_snapshot=True))
            frame = json.loads((await socket.receive(timeout=PATIENCE_S)).data)
            assert (frame["type"], frame["stream_type"]) == ("candle.1m", "SNAPSHOT")


async def test_too_many_messages_end_a_connection(serve: Serve, http: ClientSession) -> None:
    address = await serve(limits={"websocket-message": f"2/{HOUR}"})
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        for _ in range(3):
            await socket.send_str("PING")
        answers = [await socket.receive(timeout=PATIENCE_S) for _ in range(3)]

    assert [each.type for each in answers[:2]] == [WSMsgType.BINARY] * 2
    assert (answers[2].type, answers[2].data) == (WSMsgType.CLOSE, 1008)


async def test_books_from_the_socket_are_the_ledgers(serve: Serve, http: ClientSession) -> None:
    address = await serve()
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        await socket.send_str(_request("orderbook"))
        for _ in range(10):
            frame = json.loads((await socket.receive(timeout=PATIENCE_S)).data)
            query = f"symbol=btc_krw&at_ms={frame['timestamp']}&depth=30"
            async with http.get(f"{address}/_sim/ledger/book?{query}") as answer:
                truth = await answer.json()
            units = frame["orderbook_units"]
            for side in ("bid", "ask"):
                told = [(unit[f"{side}_price"], unit[f"{side}_size"]) for unit in units]
                assert told == [(float(price), float(size)) for price, size in truth[f"{side}s"]]


@pytest.mark.parametrize(
    "plan", ["drop=0.3", "duplicate=0.3", "reorder=0.3", "malformed=0.3", "delay=0.3", "nan=0.3"]
)
async def test_faults_strike_frames(serve: Serve, http: ClientSession, plan: str) -> None:
    address = await serve(faults=plan)
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        await socket.send_str(_request("orderbook", "trade"))
        for _ in range(30):
            assert (await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.BINARY
    async with http.get(f"{address}/_sim/faults") as answer:
        struck = (await answer.json())["counts"]

    assert struck[plan.partition("=")[0]] > 0


async def test_faults_cut_connections_and_requests(serve: Serve, http: ClientSession) -> None:
    address = await serve(faults="cut=300ms,http500@*/all=1,http418@*/ticks=1")
    async with http.ws_connect(f"{address}/websocket/v1") as socket:
        await socket.send_str(_request("orderbook"))
        while (message := await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.BINARY:
            pass
        assert message.type in (WSMsgType.CLOSED, WSMsgType.ERROR)
    for path, status in (("market/all", 500), ("trades/ticks?market=KRW-BTC", 418)):
        async with http.get(f"{address}/v1/{path}") as answer:
            assert answer.status == status
            assert "error" in await answer.json()
