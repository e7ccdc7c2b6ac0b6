"""Published files: the rows of REST, zipped, with their checksum, once their day is over."""

import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.simulator.answers import answered

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Simulator
from penstock.simulator.binance import Binance
from penstock.simulator.binance.files import CHECKSUM, KLINES, TRADES
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS
from penstock.simulator.engine.exchange import Asked, Refused

Get = Callable[..., Any]
QUIET = "1INCHUSDT"
DAY = "2025-03-04"
SINCE_MS = 1_741_046_400_000


@pytest.fixture
def file(exchange: Binance, as_of_ms: int) -> Callable[..., bytes]:
    def ask(name: str, frequency: str = "daily", interval: str = "", symbol: str = QUIET) -> bytes:
        path = KLINES if interval else TRADES
        query = {"frequency": frequency, "symbol": symbol, "file": name}
        if interval:
            query["interval"] = interval
        body = answered(exchange.routes[path], Asked(query), as_of_ms)
        assert isinstance(body, bytes)
        return body

    return ask


def lines(data: bytes, member: str) -> list[list[str]]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        assert archive.namelist() == [member]
        return [line.split(",") for line in archive.read(member).decode().splitlines()]


def test_a_file_of_trades_has_the_days_trades(
    file: Callable[..., bytes], get: Get, instruments: dict[str, Instrument]
) -> None:
    market = instruments[QUIET].market
    first, end = market.id_at(SINCE_MS), market.id_at(SINCE_MS + DAY_MS)

    rows = lines(file(f"{QUIET}-trades-{DAY}.zip"), f"{QUIET}-trades-{DAY}.csv")

    assert [int(row[0]) for row in rows] == list(range(first, end))
    (shown,) = get("historicalTrades", symbol=QUIET, fromId=first, limit=1)
    assert rows[0] == [
        str(first), shown["price"], shown["qty"], shown["quoteQty"], f"{shown['time']}000",
        str(shown["isBuyerMaker"]), "True",
    ]  # fmt: skip


def test_before_2025_times_are_in_milliseconds(file: Callable[..., bytes]) -> None:
    name = f"{QUIET}-trades-2024-12-31"

    rows = lines(file(f"{name}.zip"), f"{name}.csv")

    assert {len(row[4]) for row in rows} == {13}


def test_a_file_of_candles_has_the_rows_of_rest(file: Callable[..., bytes], get: Get) -> None:
    name = f"{QUIET}-1h-2024-12-31"

    rows = lines(file(f"{name}.zip", interval="1h"), f"{name}.csv")

    since_ms = 1_735_603_200_000
    shown = get("klines", symbol=QUIET, interval="1h", startTime=since_ms, limit=24)
    assert rows == [[str(value) for value in row] for row in shown]


def test_a_month_is_its_days(file: Callable[..., bytes]) -> None:
    month = lines(file(f"{QUIET}-1h-2025-02.zip", "monthly", "1h"), f"{QUIET}-1h-2025-02.csv")

    days = [f"{QUIET}-1h-2025-02-{day:02}" for day in range(1, 29)]
    assert month == [
        row for day in days for row in lines(file(f"{day}.zip", "daily", "1h"), f"{day}.csv")
    ]


def test_a_checksum_is_that_of_the_file(file: Callable[..., bytes]) -> None:
    name = f"{QUIET}-trades-{DAY}.zip"

    data = file(name)

    assert file(name + CHECKSUM) == f"{sha256(data).hexdigest()}  {name}\n".encode()
    assert file(name) == data


@pytest.mark.parametrize(
    ("name", "frequency"),
    [
        (f"{QUIET}-trades-2025-03-05.zip", "daily"),
        (f"{QUIET}-trades-2025-03.zip", "monthly"),
        (f"{QUIET}-trades-2020-12-24.zip", "daily"),
        (f"{QUIET}-trades-2025-02-30.zip", "daily"),
        (f"{QUIET}-trades-2025-02.zip", "daily"),
        (f"{QUIET}-trades-{DAY}.zip", "weekly"),
        (f"BTCUSDT-trades-{DAY}.zip", "daily"),
        (f"{QUIET}-1m-{DAY}.zip", "daily"),
        (f"{QUIET}-trades-{DAY}.csv", "daily"),
    ],
)
def test_other_files_do_not_exist(file: Callable[..., bytes], name: str, frequency: str) -> None:
    with pytest.raises(Refused) as raised:
        file(name, frequency)

    assert raised.value.reply.status == 404


async def test_files_are_served_uncounted_and_with_faults() -> None:
    settings = Simulator(port=0, uplink_ms=0, latency_ms=1, symbols=("1inch_usdt",))
    server = build_simulator(settings, SystemClock(), exchange="binance")
    await server.start()
    name = f"/data/spot/daily/trades/{QUIET}/{QUIET}-trades-{DAY}.zip"
    try:
        async with ClientSession(f"http://{server.address}") as http:

            async def plan(text: str) -> None:
                async with http.post("/_sim/faults", json={"plan": text}) as answer:
                    assert answer.status == 200

            async def body() -> tuple[int, bytes]:
                async with http.get(name) as answer:
                    return answer.status, await answer.read()

            status, data = await body()
            assert status == 200
            async with http.head(name) as answer:
                assert answer.headers["Content-Length"] == str(len(data))
            async with http.head("/api/v3/time") as answer:
                assert answer.status == 404
            await plan("short=1")
            assert await body() == (200, data[: len(data) // 2])
            await plan("corrupt=1")
            assert (await body())[1] != data
            await plan("http404@*.zip=1")
            assert (await body())[0] == 404
            await plan("")
            assert await body() == (200, data)
        assert max(server.state().used.values()) == 1, "only the request for the time counts"
    finally:
        await server.stop()
