"""BinanceSpotThrottler against the simulator: it pays, keeps in step, stops, and changes nothing.

Windows are seconds here instead of a minute; the whole minutes are in ``bench/throttled.py``.
"""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest
import requests
from binance.error import ClientError, ParameterArgumentError, ServerError
from binance.spot import Spot
from tests.throttled.conftest import WEIGHT, WINDOW_S, Simulated
from tests.waiting import PATIENCE_S

from penstock.errors import CostExceedsLimit, MissingExtra
from penstock.throttle.gate import Limit
from penstock.throttled import BinanceSpotThrottler
from penstock.throttled.binance import client as connector

QUICK = (Limit(WEIGHT, WINDOW_S * 1000),)
TASKS = 50


@asynccontextmanager
async def throttled(
    address: str, limits: tuple[Limit, ...] | None = None, connections: int = 64
) -> AsyncIterator[BinanceSpotThrottler]:
    # What is charged is compared with what is counted, so the minute must not turn meanwhile.
    if (left_s := 60 - time.time() % 60) < 5 and limits is None:
        await asyncio.sleep(left_s)
    throttler = BinanceSpotThrottler(base_url=address, limits=limits, connections=connections)
    try:
        yield throttler
    finally:
        await throttler.aclose()


def used(throttler: BinanceSpotThrottler) -> int:
    """What it believes is used of its first limit."""
    first = throttler.stats().limits[0]
    return first.limit - first.remaining


Windows = list[dict[str, Any]]


def sound_windows(simulated: Simulated, after: int) -> Windows:
    """Later windows in which the simulator counted in time, as in the one before each.

    A busy machine counts requests late, then in the next window: that proves nothing.
    """
    found = {each["window"]: each for each in simulated.ask("windows")["windows"]}
    sound = {number for number, each in found.items() if each["sound"]}
    return [found[number] for number in sorted(sound) if number > after and number - 1 in sound]


async def ask_until(
    enough: Callable[[Windows], bool], call: Callable[[], Awaitable[object]], simulated: Simulated
) -> Windows:
    """Fifty tasks ask without a pause: the sound windows after the first, in which it connects."""

    async def ask() -> None:
        while True:
            try:
                await call()
            except ClientError as error:  # a late request, or one that a foreign client displaced
                assert error.status_code == 429

    first = int(time.time() // WINDOW_S) + 1
    await asyncio.sleep(first * WINDOW_S + 0.02 - time.time())
    tasks = [asyncio.create_task(ask()) for _ in range(TASKS)]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not enough(found := await asyncio.to_thread(sound_windows, simulated, first)):
                done, _ = await asyncio.wait(
                    tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return found


async def test_every_method_returns_what_the_connector_returns_and_pays_what_is_charged(
    usual: Simulated,
) -> None:
    pair, plain = ["BTCUSDT", "ETHUSDT"], Spot(base_url=usual.address)
    past = {"startTime": 1_700_000_000_000, "endTime": 1_700_000_600_000, "limit": 3}
    symbols = plain.exchange_info(symbol="BTCUSDT")["symbols"]
    trades = plain.historical_trades("BTCUSDT", fromId=5, limit=3)
    aggregates = plain.agg_trades("BTCUSDT", fromId=5, limit=3)
    candles = plain.klines("BTCUSDT", "1m", **past)
    usual.look()
    async with throttled(usual.address) as it:
        assert await it.ping() == {}
        before = used(it) - 1
        assert (await it.get_time())["serverTime"] > 1_700_000_000_000
        assert (await it.get_exchange_info(symbol="BTCUSDT"))["symbols"] == symbols
        assert len((await it.get_depth("BTCUSDT", limit=500))["bids"]) == 500
        assert len(await it.get_trades("BTCUSDT", limit=7)) == 7
        assert await it.get_historical_trades("BTCUSDT", fromId=5, limit=3) == trades
        assert await it.get_agg_trades("BTCUSDT", fromId=5, limit=3) == aggregates
        assert await it.get_kline("BTCUSDT", "1m", **past) == candles
        assert await it.get_ui_kline("BTCUSDT", "1m", **past) == candles
        assert "price" in await it.get_avg_price("BTCUSDT")
        assert len(await it.get_ticker_24hr(symbols=pair)) == 2
        assert len(await it.get_trading_day_ticker(symbols=pair)) == 2
        assert len(await it.get_ticker_price()) == 3
        assert (await it.get_book_ticker("BTCUSDT"))["symbol"] == "BTCUSDT"
        assert len(await it.get_rolling_window_ticker(symbols=pair, windowSize="1h")) == 2

        assert used(it) - before == sum(each["weight"] for each in usual.requests())
    assert usual.statuses() == 15 * [200]


async def test_fifty_tasks_use_the_budget_up_and_are_never_refused(quick: Simulated) -> None:
    def used_up(windows: Windows) -> bool:
        return any(each["weight"] >= 0.98 * WEIGHT for each in windows)

    async with throttled(quick.address, QUICK) as throttler:
        windows = await ask_until(
            used_up, lambda: throttler.get_kline("BTCUSDT", "1m", limit=1), quick
        )

    assert [each["refusals"] for each in windows] == len(windows) * [0]
    assert 418 not in quick.statuses()


async def test_a_foreign_client_at_the_same_address_is_seen_and_left_its_part(
    quick: Simulated,
) -> None:
    share, cost = WEIGHT // 4, 2
    foreign, end = Spot(base_url=quick.address), threading.Event()

    def disturb() -> None:
        while not end.wait(WINDOW_S * cost / share):
            try:
                foreign.book_ticker("BTCUSDT")
            except ClientError:
                end.wait(WINDOW_S - time.time() % WINDOW_S)

    async with throttled(quick.address, QUICK) as throttler:
        disturbing = asyncio.get_running_loop().run_in_executor(None, disturb)
        try:
            windows = await ask_until(
                lambda windows: len(windows) >= 2,
                lambda: throttler.get_kline("BTCUSDT", "1m", limit=1),
                quick,
            )
        finally:
            end.set()
            await disturbing

    assert max(each["max_used"] for each in windows) <= WEIGHT + cost
    assert [each["refusals"] for each in windows] == len(windows) * [0]
    assert 418 not in quick.statuses()


async def test_usage_that_others_caused_is_taken_over(usual: Simulated) -> None:
    async with throttled(usual.address) as throttler:
        await throttler.ping()
        before = used(throttler)
        Spot(base_url=usual.address).ticker_24hr()
        await throttler.ping()

        assert used(throttler) >= before + 81


async def test_when_the_exchange_says_stop_nothing_leaves_until_it_listens_again(
    quick: Simulated,
) -> None:
    wrong = (Limit(10 * WEIGHT, WINDOW_S * 1000),)
    async with throttled(quick.address, wrong) as throttler:
        asked = [throttler.get_ticker_24hr() for _ in range(2 * WEIGHT // 80)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refusals = [each for each in answers if isinstance(each, ClientError)]

        assert {each.status_code for each in refusals} == {429}
        assert throttler.stats().blocked_for_s <= WINDOW_S
        assert await throttler.ping() == {}

    *before, after = quick.requests()
    assert after["status"] == 200
    assert after["window"] > max(each["window"] for each in before if each["status"] == 429)


async def test_what_the_exchange_refused_was_paid_and_is_not_asked_again(usual: Simulated) -> None:
    async with throttled(usual.address) as throttler:
        await throttler.ping()
        before = used(throttler)
        with pytest.raises(ClientError) as refused:
            await throttler.get_kline("NOSUCH", "1m")

        assert refused.value.error_code == -1121
        assert used(throttler) - before == 2
    assert usual.statuses() == [200, 200]


async def test_a_servers_failure_is_paid_and_handed_on(usual: Simulated) -> None:
    usual.plan_faults("http500@*/avgPrice=1")
    try:
        async with throttled(usual.address) as throttler:
            await throttler.ping()
            before = used(throttler)
            with pytest.raises(ServerError):
                await throttler.get_avg_price("BTCUSDT")

            assert used(throttler) - before == 2
    finally:
        usual.plan_faults("")
    assert len(usual.statuses()) == 2


async def test_what_the_connector_refuses_to_send_is_given_back(usual: Simulated) -> None:
    async with throttled(usual.address) as throttler:
        with pytest.raises(ParameterArgumentError):
            await throttler.get_ticker_price("BTCUSDT", ["ETHUSDT"])

        assert used(throttler) == 0
    assert usual.statuses() == []


async def test_what_found_no_server_is_given_back() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with throttled(address) as throttler:
        with pytest.raises(requests.ConnectionError):
            await throttler.get_depth("BTCUSDT")

        assert used(throttler) == 0


@asynccontextmanager
async def serving(answer: Callable[[], Awaitable[bytes]]) -> AsyncIterator[str]:
    """A server on this very loop, whose answers are what is made of each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                body = await answer()
                if not body:
                    return
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                writer.write(head + body)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_what_was_sent_and_not_answered_stays_paid() -> None:
    async def hang_up() -> bytes:
        return b""

    async with serving(hang_up) as address, throttled(address) as throttler:
        with pytest.raises(requests.ConnectionError):
            await throttler.get_depth("BTCUSDT")

        assert used(throttler) == 5


async def test_the_loop_goes_on_while_the_client_blocks() -> None:
    async def echo() -> bytes:
        return b'{"served":"by the loop that waits"}'

    async with serving(echo) as address, throttled(address) as throttler:
        assert await throttler.ping() == {"served": "by the loop that waits"}


async def test_who_gives_up_waiting_for_an_answer_frees_its_connection_when_it_comes() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer_late() -> bytes:
        asked.set()
        await may_answer.wait()
        return b"{}"

    async with serving(answer_late) as address, throttled(address, connections=1) as throttler:
        first = asyncio.create_task(throttler.ping())
        await asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(throttler.ping())
        done, _ = await asyncio.wait([second], timeout=0.05)
        assert not done, "the only connection is still in use"
        may_answer.set()

        assert await second == {}
        assert used(throttler) == 2


async def test_a_request_dearer_than_a_window_is_refused_at_once_and_holds_no_connection() -> None:
    tiny = (Limit(10, 1000),)
    async with throttled("http://127.0.0.1:1", tiny, connections=1) as throttler:
        for _ in range(2):
            with pytest.raises(CostExceedsLimit):
                await throttler.get_exchange_info()


def test_without_the_connector_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(connector, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock\[binance\]'"):
        BinanceSpotThrottler()
