"""Microseconds: the same answers and frames, every time a thousand times as long, nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from tests.simulator.answers import answered
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator.binance import Binance
from penstock.simulator.engine.exchange import Asked, Refused
from penstock.simulator.engine.server import SimulatorServer

HEADER, MICRO = "X-MBX-TIME-UNIT", "MICROSECOND"
WRONG = {
    "code": -1194,
    "msg": "Invalid value for time unit; expected either MICROSECOND or MILLISECOND.",
}
PRINTED = [
    ("time", {}),
    ("exchangeInfo", {"symbol": "BTCUSDT"}),
    ("depth", {"symbol": "BTCUSDT", "limit": "20"}),
    ("trades", {"symbol": "BTCUSDT", "limit": "20"}),
    ("historicalTrades", {"symbol": "BTCUSDT", "fromId": "5", "limit": "20"}),
    ("aggTrades", {"symbol": "BTCUSDT", "limit": "20"}),
    ("avgPrice", {"symbol": "BTCUSDT"}),
    ("ticker/24hr", {"symbol": "BTCUSDT"}),
    ("ticker/24hr", {"type": "MINI"}),
    ("ticker", {"symbols": '["BTCUSDT","ETHBTC"]'}),
    ("ticker/price", {}),
    ("ticker/bookTicker", {}),
    ("ping", {}),
]
KINDS = (
    *("trade", "aggTrade", "bookTicker", "depth", "depth@100ms", "depth5"),
    *("ticker", "miniTicker", "ticker_1h", "avgPrice"),
)


def ask(exchange: Binance, endpoint: str, query: dict[str, str], at_ms: int, unit: str) -> Any:
    asked = Asked(query, {HEADER: unit})
    body = answered(exchange.routes[f"/api/v3/{endpoint}"], asked, at_ms)
    assert isinstance(body, bytes)
    return msgspec.json.decode(body)


def in_microseconds(value: Any) -> Any:
    """The same with every time a thousand times as long: no id here is of that size."""
    if isinstance(value, dict):
        return {name: in_microseconds(each) for name, each in value.items()}
    if isinstance(value, list):
        return [in_microseconds(each) for each in value]
    is_time = isinstance(value, int) and 1_400_000_000_000 < value < 2_000_000_000_000
    return value * 1000 if is_time else value


@pytest.mark.parametrize(("endpoint", "query"), PRINTED)
def test_an_answer_differs_in_its_times_alone(
    exchange: Binance, as_of_ms: int, endpoint: str, query: dict[str, str]
) -> None:
    usual = ask(exchange, endpoint, query, as_of_ms, "MILLISECOND")

    assert ask(exchange, endpoint, query, as_of_ms, MICRO) == in_microseconds(usual)


@pytest.mark.parametrize("endpoint", ["klines", "uiKlines"])
def test_a_candle_closes_a_microsecond_before_the_next_opens(
    exchange: Binance, as_of_ms: int, endpoint: str
) -> None:
    query = {"symbol": "BTCUSDT", "interval": "1m", "limit": "5"}
    expected = in_microseconds(ask(exchange, endpoint, query, as_of_ms, "MILLISECOND"))
    for row in expected:
        row[6] += 999

    rows = ask(exchange, endpoint, query, as_of_ms, MICRO)

    assert rows == expected
    assert all(row[6] == row[0] + 60_000_000 - 1 for row in rows)


def test_a_trading_day_closes_a_microsecond_before_the_next_opens(
    exchange: Binance, as_of_ms: int
) -> None:
    day = ask(exchange, "ticker/tradingDay", {"symbol": "BTCUSDT"}, as_of_ms, MICRO)

    assert day["openTime"] % 86_400_000_000 == 0
    assert day["closeTime"] == day["openTime"] + 86_400_000_000 - 1


@pytest.mark.parametrize("stream", [*(f"btcusdt@{kind}" for kind in KINDS), "!miniTicker@arr"])
def test_a_frame_differs_in_its_times_alone(exchange: Binance, as_of_ms: int, stream: str) -> None:
    usual, micro = exchange.feed(stream), exchange.feed(stream, MICRO)
    assert usual is not None
    assert micro is not None
    expected = [msgspec.json.decode(each) for each in usual.frames(as_of_ms, as_of_ms + 2000)]

    frames = [msgspec.json.decode(each) for each in micro.frames(as_of_ms, as_of_ms + 2000)]

    assert frames == in_microseconds(expected)
    assert frames


def test_a_candle_of_a_stream_closes_as_over_rest(exchange: Binance, as_of_ms: int) -> None:
    feed = exchange.feed("btcusdt@kline_1m", MICRO)
    assert feed is not None

    (frame,) = map(msgspec.json.decode, feed.frames(as_of_ms, as_of_ms + 2000))

    assert frame["E"] == (as_of_ms // 2000 + 1) * 2_000_000
    assert frame["k"]["t"] % 60_000_000 == 0
    assert frame["k"]["T"] == frame["k"]["t"] + 60_000_000 - 1


def test_a_planned_stop_is_announced_in_the_unit_of_the_connection(exchange: Binance) -> None:
    _, payload = exchange.shutdown_notice(1_770_123_456_789, MICRO)

    assert payload == b'{"e":"serverShutdown","E":1770123456789000}'


@pytest.mark.parametrize(
    ("name", "length"),
    [("MICROSECOND", 16), ("microsecond", 16), ("MILLISECOND", 13), ("millisecond", 13)],
)
def test_a_unit_is_spelled_in_capitals_or_in_none(
    exchange: Binance, as_of_ms: int, name: str, length: int
) -> None:
    at = ask(exchange, "time", {}, as_of_ms, name)["serverTime"]
    opening = exchange.open("/ws/btcusdt@trade", Asked({"timeUnit": name}))

    assert len(str(at)) == length
    assert opening is not None
    assert opening == (("btcusdt@trade",), False, MICRO if length == 16 else "", "")


@pytest.mark.parametrize("name", ["", "SECOND", "Microsecond", "MICROSECOND "])
def test_another_unit_is_refused(exchange: Binance, as_of_ms: int, name: str) -> None:
    for ask_for in (
        lambda: ask(exchange, "time", {}, as_of_ms, name),
        lambda: exchange.open("/ws", Asked({"timeUnit": name})),
        lambda: exchange.open("/stream", Asked({"streams": "btcusdt@trade", "timeUnit": name})),
    ):
        with pytest.raises(Refused) as refused:
            ask_for()
        assert refused.value.reply.status == 400
        assert msgspec.json.decode(refused.value.reply.body) == WRONG


@pytest.fixture
async def address(exchange: Binance) -> AsyncIterator[str]:
    quick = Simulator(port=0, uplink_ms=0, latency_ms=1)
    server = SimulatorServer(exchange, quick, SystemClock())
    await server.start()
    yield f"http://{server.address}"
    await server.stop()


async def test_over_the_wire_a_header_chooses_the_unit(
    address: str, session: ClientSession
) -> None:
    url = f"{address}/api/v3/time"
    for headers, length in (({}, 13), ({HEADER.lower(): MICRO}, 16)):
        async with session.get(url, headers=headers) as response:
            assert len(str((await response.json())["serverTime"])) == length
            assert response.headers.getall("Content-Type") == ["application/json;charset=UTF-8"]
            assert response.headers.getall("Server") == ["nginx"]
    async with session.get(url, headers={HEADER: "SECOND"}) as response:
        assert (response.status, await response.json()) == (400, WRONG)
        assert response.headers["X-MBX-USED-WEIGHT-1M"] == "3", "a refused request counts too"


async def test_over_the_wire_connections_of_both_units_share_a_stream(
    address: str, session: ClientSession
) -> None:
    url = f"{address}/ws/btcusdt@trade"

    async with (
        session.ws_connect(url) as usual,
        session.ws_connect(f"{url}?timeUnit={MICRO}") as us,
    ):
        for socket, length in ((usual, 13), (us, 16)):
            frame = msgspec.json.decode(await socket.receive_str(timeout=PATIENCE_S))
            assert (len(str(frame["E"])), len(str(frame["T"]))) == (length, length)
    with pytest.raises(WSServerHandshakeError) as refused:
        await session.ws_connect(f"{url}?timeUnit=SECOND")
    assert refused.value.status == 400
