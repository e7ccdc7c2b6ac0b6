"""The whole exchange on a socket: greeting, snapshots, resyncs, faults, and the judge's view."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any
from zlib import crc32

import msgspec
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import SimulatedKraken, Simulator
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.judge import Evidence, Findings, Judge, SeenBook, SeenTrade
from penstock.simulator.kraken import Kraken
from penstock.simulator.kraken.instrument import Instrument
from penstock.simulator.kraken.rules import rules_from, upkeep_from

Instruments = dict[str, Instrument]
Serve = Callable[..., Awaitable[SimulatorServer]]
QUICK = Simulator(port=0, uplink_ms=0, latency_ms=1)


@pytest.fixture
async def serve_kraken(instruments: Instruments) -> AsyncIterator[Serve]:
    servers: list[SimulatorServer] = []

    async def start(**changes: object) -> SimulatorServer:
        settings = msgspec.structs.replace(QUICK, **changes)
        listed = list(instruments.values())
        exchange = Kraken(listed, rules_from(settings), upkeep_from(settings.kraken))
        truth = Ledger([each.market for each in listed], SystemClock())
        server = SimulatorServer(exchange, settings, SystemClock(), ledger=truth)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as opened:
        yield opened


class Follower:
    """A client that keeps a book as the documentation says, and numbers as they are written."""

    def __init__(self, socket: ClientWebSocketResponse, depth: int) -> None:
        self._socket, self._depth = socket, depth
        self.sides: dict[str, dict[str, str]] = {"bids": {}, "asks": {}}
        self.at_ms = 0
        self.updates = self.snapshots = 0

    async def ask(self, method: str, **params: object) -> None:
        await self._socket.send_json({"method": method, "params": params})

    async def next(self) -> Any:
        text = await self._socket.receive_str(timeout=PATIENCE_S)
        return json.loads(text, parse_float=str, parse_int=str)

    def take(self, frame: Any) -> bool:
        """Apply a book frame; whether the checksum says that the book is right."""
        (data,) = frame["data"]
        if frame["type"] == "snapshot":
            self.sides, self.snapshots = {"bids": {}, "asks": {}}, self.snapshots + 1
        self.updates += frame["type"] == "update"
        for side, levels in self.sides.items():
            levels.update((row["price"], row["qty"]) for row in data[side])
            kept = [level for level in levels.items() if Decimal(level[1])]
            kept.sort(key=lambda level: Decimal(level[0]), reverse=side == "bids")
            self.sides[side] = dict(kept[: self._depth])
        text = "".join(
            number.replace(".", "").lstrip("0")
            for side in ("asks", "bids")
            for level in list(self.sides[side].items())[:10]
            for number in level
        )
        self.at_ms = _ms(data["timestamp"])
        return crc32(text.encode()) == int(data["checksum"])

    def seen(self) -> SeenBook:
        bids, asks = (
            [(Decimal(price), Decimal(quantity)) for price, quantity in self.sides[side].items()]
            for side in ("bids", "asks")
        )
        return SeenBook(0, bids, asks, self.at_ms)


def _ms(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000


async def _judged(server: SimulatorServer, session: ClientSession, evidence: Evidence) -> Findings:
    return await Judge(session, f"http://{server.address}").judge({"btc_usd": evidence})


async def test_a_client_is_told_the_status_then_its_subscription_then_a_right_book(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server, evidence = await serve_kraken(), Evidence()
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        follower = Follower(socket, 25)
        await follower.ask("subscribe", channel="book", symbol=["BTC/USD"], depth=25)
        assert (await follower.next())["channel"] == "status"
        assert (await follower.next())["result"]["depth"] == "25"
        first = await follower.next()
        assert (first["channel"], first["type"]) == ("book", "snapshot")
        assert follower.take(first)
        while follower.updates < 15:
            frame = await follower.next()
            if frame["channel"] == "book":
                assert follower.take(frame)
                evidence.books.append(follower.seen())

    findings = await _judged(server, session, evidence)
    assert (findings.books_checked, findings.book_mismatches) == (15, 0)


async def test_the_judge_sees_a_book_that_is_wrong(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server = await serve_kraken()
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        follower = Follower(socket, 10)
        await follower.ask("subscribe", channel="book", symbol=["BTC/USD"])
        while not follower.snapshots:
            frame = await follower.next()
            if frame.get("channel") == "book":
                follower.take(frame)

    (price, quantity), *rest = follower.seen().bids
    spoiled = follower.seen()._replace(bids=[(price, quantity + 1), *rest])
    late = follower.seen()._replace(at_ms=follower.at_ms + 60_000)
    findings = await _judged(server, session, Evidence(books=[follower.seen(), spoiled, late]))
    assert (findings.books_checked, findings.book_mismatches) == (3, 2)


@pytest.mark.parametrize("fault", ["drop", "reorder", "duplicate", "delay"])
async def test_a_client_that_subscribes_anew_whenever_a_checksum_fails_has_right_books(
    serve_kraken: Serve, session: ClientSession, fault: str
) -> None:
    server = await serve_kraken(faults=f"{fault}@book*=0.1", fault_seed=3)
    evidence, missed = Evidence(), 0
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        follower, waiting = Follower(socket, 10), True
        params = {"channel": "book", "symbol": ["BTC/USD"], "depth": 10}
        await follower.ask("subscribe", **params)
        while len(evidence.books) < 20 or (fault != "duplicate" and follower.snapshots < 2):
            frame = await follower.next()
            if frame.get("channel") != "book":
                continue
            if waiting and frame["type"] != "snapshot":
                missed += 1  # the snapshot itself may be what was dropped
            elif follower.take(frame):
                evidence.books.append(follower.seen())
                waiting, missed = False, 0
            else:
                waiting, missed = True, 5
            if missed == 5:
                missed = 0
                await follower.ask("unsubscribe", **params)
                await follower.ask("subscribe", **params)

    findings = await _judged(server, session, evidence)
    assert findings.books_checked >= 20
    # A frame that came late or twice may leave the ten best right and the time on it old.
    if fault == "drop":
        assert findings.book_mismatches == 0


async def test_trades_watched_are_the_ledgers(serve_kraken: Serve, session: ClientSession) -> None:
    server, evidence = await serve_kraken(), Evidence()
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        follower = Follower(socket, 10)
        await follower.ask("subscribe", channel="trade", symbol=["BTC/USD"], snapshot=True)
        while len(evidence.trades) < 60:
            frame = await follower.next()
            if frame.get("channel") == "trade":
                evidence.trades += [
                    SeenTrade(
                        int(row["trade_id"]),
                        _ms(row["timestamp"]),
                        Decimal(row["price"]),
                        Decimal(row["qty"]),
                        row["side"] == "buy",
                    )
                    for row in frame["data"]
                ]

    findings = await _judged(server, session, evidence)
    assert findings.clean
    assert findings.trades >= 60


@pytest.mark.parametrize("fault", ["malformed", "nan", "huge"])
async def test_frames_are_spoiled_here_too(
    serve_kraken: Serve, session: ClientSession, fault: str
) -> None:
    server = await serve_kraken(faults=f"{fault}@trade*=1")
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        await Follower(socket, 10).ask(
            "subscribe", channel="trade", symbol=["BTC/USD"], snapshot=True
        )
        texts = [await socket.receive_str(timeout=PATIENCE_S) for _ in range(3)]

    spoiled = texts[2]
    if fault == "malformed":
        with pytest.raises(json.JSONDecodeError):
            json.loads(spoiled)
    else:
        assert (":NaN" if fault == "nan" else ":1e999") in spoiled


async def test_one_lost_and_one_refused_acknowledgement_leave_the_others_alone(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server = await serve_kraken(faults="lostack=0.4,refusedack=0.4", fault_seed=2)
    symbols = ["BTC/USD", "BTC/EUR", "ETH/BTC", "XTZ/USD", "USDT/USD", "SHIB/USD"]
    answers: list[Any] = []
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        follower = Follower(socket, 10)
        await follower.ask("subscribe", channel="ticker", symbol=symbols)
        heard: set[str] = set()
        while True:
            frame = await follower.next()
            if "method" in frame:
                answers.append(frame)
            elif frame["channel"] == "ticker" and frame["type"] == "snapshot":
                heard.add(frame["data"][0]["symbol"])
            elif frame["channel"] == "heartbeat":
                break

    refused = {answer["symbol"] for answer in answers if not answer["success"]}
    assert refused
    assert len(answers) < len(symbols)
    assert heard == set(symbols) - refused


async def test_too_many_requests_are_an_error_inside_a_200_and_refusals_in_the_log(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server = await serve_kraken(limits={"pair": "2/60", "public": "1000/60"})
    texts = []
    for _ in range(3):
        url = f"http://{server.address}/0/public/OHLC?pair=XBTUSD"
        async with session.get(url) as response:
            assert response.status == 200
            texts.append((await response.json())["error"])
    async with session.get(f"http://{server.address}/0/public/Trades?pair=XTZUSD") as response:
        assert (await response.json())["error"] == []

    assert texts == [[], [], ["EAPI:Rate limit exceeded"]]
    findings = await _judged(server, session, Evidence())
    assert (findings.requests, findings.http_429) == (4, 1)


async def test_too_many_messages_are_answered_and_too_many_connections_refused(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server = await serve_kraken(limits={"messages": "2/60", "connects": "1/600"})
    url = f"http://{server.address}/v2"
    async with session.ws_connect(url) as socket:
        for number in range(3):
            await socket.send_json({"method": "ping", "req_id": number})
        await socket.receive_str(timeout=PATIENCE_S)
        answers = [json.loads(await socket.receive_str(timeout=PATIENCE_S)) for _ in range(3)]
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(url)

    assert [answer["method"] for answer in answers] == ["pong", "pong", "ping"]
    assert answers[2]["error"] == "Exceeded msg rate"
    assert refused.value.status == 429


async def test_a_connection_without_a_subscription_is_ended(
    serve_kraken: Serve, session: ClientSession
) -> None:
    server = await serve_kraken(kraken=SimulatedKraken(subscribe_within=0.2))
    async with session.ws_connect(f"http://{server.address}/v2") as socket:
        await socket.receive_str(timeout=PATIENCE_S)
        assert (await socket.receive(timeout=PATIENCE_S)).type is WSMsgType.CLOSE


async def test_faults_of_requests_are_told_as_the_exchange_would(
    serve_kraken: Serve, session: ClientSession
) -> None:
    told = {
        "http500": (200, "EGeneral:Internal error"),
        "http429": (200, "EGeneral:Too many requests"),
        "http418": (200, "EGeneral:Temporary lockout"),
    }
    for fault, (status, text) in told.items():
        server = await serve_kraken(faults=f"{fault}=1")
        async with session.get(f"http://{server.address}/0/public/Time") as response:
            assert response.status == status
            assert (await response.json())["error"] == [text]


async def test_stale_books_are_those_of_before(serve_kraken: Serve, session: ClientSession) -> None:
    server = await serve_kraken(faults="stale=1")
    async with session.get(f"http://{server.address}/0/public/Depth?pair=XBTUSD") as response:
        assert (await response.json())["error"] == []

    assert server.state().injected == {"stale": 1}
