"""UpbitSpotThrottler: ten a second in each group, exactly; no group waits for another."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import closing, suppress
from decimal import Decimal

import pytest
from aiohttp import web
from tests.throttled.upbit.conftest import LIMIT, PERIOD_S, Upbit

from penstock.clock import ManualClock
from penstock.errors import (
    BadRequest,
    Banned,
    ExchangeError,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnexpectedAnswer,
    UnknownCategory,
)
from penstock.throttled import UpbitSpotThrottler
from penstock.throttled.upbit.client import Answer


@pytest.fixture
async def throttler(upbit: Upbit) -> AsyncIterator[UpbitSpotThrottler]:
    it = UpbitSpotThrottler(base_url=upbit.address)
    yield it
    await it.aclose()


def remaining(throttler: UpbitSpotThrottler, group: str) -> int:
    return next(each.remaining for each in throttler.stats().limits if each.category == group)


async def test_ten_a_second_leave_in_each_group_and_never_an_eleventh_arrives(
    upbit: Upbit, throttler: UpbitSpotThrottler
) -> None:
    rounds = 2 * LIMIT + 1
    calls: list[Callable[[], Awaitable[object]]] = [
        throttler.get_markets,
        lambda: throttler.get_candles_minutes("KRW-BTC"),
        lambda: throttler.get_trades("KRW-BTC"),
        lambda: throttler.get_ticker(markets=["KRW-BTC"]),
        lambda: throttler.get_orderbook(markets=["KRW-BTC"]),
    ]
    await asyncio.gather(*(call() for call in calls for _ in range(rounds)))

    assert set(upbit.statuses) == {200}
    assert len(upbit.arrivals) == len(calls)
    for seen in upbit.arrivals.values():
        assert len(seen) == rounds
        eleventh = zip(seen, seen[LIMIT:], strict=False)
        assert all(late - early >= PERIOD_S for early, late in eleventh)
        # Twenty and one more take two seconds, and what a busy machine adds.
        assert seen[-1] - seen[0] < 2 * PERIOD_S + 3


class Recorder:
    """A client that notes when a request left, by the throttler's own clock."""

    def __init__(self, clock: ManualClock, connect_s: float = 0, answer_s: float = 0) -> None:
        self.clock, self.began_ns = clock, clock.monotonic_ns()
        self.connect_s, self.answer_s = connect_s, answer_s
        self.status = 200
        self.asked: list[tuple[float, str]] = []

    async def get(
        self, path: str, params: Mapping[str, str], leaving: Callable[[], None]
    ) -> Answer:
        await self.clock.sleep(self.connect_s)
        leaving()
        past_s = (self.clock.monotonic_ns() - self.began_ns) / 1e9
        self.asked.append((past_s, path.split("/")[2]))
        await self.clock.sleep(self.answer_s)
        return Answer(path, self.status, {}, b"[]")

    async def aclose(self) -> None:
        pass


async def test_where_nothing_takes_time_ten_leave_per_second_to_the_instant() -> None:
    clock = ManualClock(1_790_000_000_000)
    client = Recorder(clock)
    throttler = UpbitSpotThrottler(client, clock=clock)
    asks = [throttler.get_ticker(["KRW-BTC"]) for _ in range(35)]
    asks += [throttler.get_trades("KRW-BTC") for _ in range(15)]
    waiting = asyncio.gather(*asks)
    await clock.advance(10)
    await waiting

    assert Counter(client.asked) == {
        (0.0, "ticker"): 10,
        (1.0, "ticker"): 10,
        (2.0, "ticker"): 10,
        (3.0, "ticker"): 5,
        (0.0, "trades"): 10,
        (1.0, "trades"): 5,
    }


async def test_a_request_is_counted_from_its_answer_on() -> None:
    clock = ManualClock(1_790_000_000_000)
    client = Recorder(clock, connect_s=0.3, answer_s=0.2)
    throttler = UpbitSpotThrottler(client, clock=clock)
    waiting = asyncio.gather(*(throttler.get_ticker(["KRW-BTC"]) for _ in range(LIMIT + 1)))
    await clock.advance(10)
    await waiting

    assert Counter(client.asked) == {(0.3, "ticker"): LIMIT, (1.8, "ticker"): 1}


async def test_what_took_longer_to_connect_than_its_second_pays_again_before_it_leaves() -> None:
    clock = ManualClock(1_790_000_000_000)
    client = Recorder(clock, connect_s=1.5)
    throttler = UpbitSpotThrottler(client, clock=clock)
    asking = asyncio.create_task(throttler.get_ticker(["KRW-BTC"]))
    await clock.advance(1)
    client.connect_s = 0.1
    await clock.advance(1)
    await asking

    assert client.asked == [(1.6, "ticker")]
    assert remaining(throttler, "ticker") == LIMIT - 1


async def test_a_full_group_holds_up_no_other(upbit: Upbit, throttler: UpbitSpotThrottler) -> None:
    waiting = [asyncio.create_task(throttler.get_ticker(["KRW-BTC"])) for _ in range(3 * LIMIT)]
    await asyncio.sleep(0)
    await throttler.get_trades("KRW-BTC")

    assert len(upbit.arrivals["ticker"]) <= LIMIT
    assert sum(not task.done() for task in waiting) >= LIMIT
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_what_others_use_of_a_group_is_taken_over_from_remaining_req(
    upbit: Upbit, throttler: UpbitSpotThrottler
) -> None:
    upbit.foreign = 6
    await throttler.get_ticker(["KRW-BTC"])

    assert remaining(throttler, "ticker") == LIMIT - 7
    assert remaining(throttler, "candle") == LIMIT


async def test_every_method_asks_its_own_path_and_returns_the_answer_unchanged(
    upbit: Upbit, throttler: UpbitSpotThrottler
) -> None:
    answers = [
        await throttler.get_markets(is_details=True),
        await throttler.get_candles_seconds("KRW-BTC", count=2),
        await throttler.get_candles_minutes("KRW-BTC", 5, to="2025-06-24T04:56:53Z"),
        await throttler.get_candles_days("KRW-BTC", converting_price_unit="KRW"),
        await throttler.get_candles_weeks("KRW-BTC"),
        await throttler.get_candles_months("KRW-BTC"),
        await throttler.get_candles_years("KRW-BTC"),
        await throttler.get_trades("KRW-BTC", count=500, cursor=17510687993360000, days_ago=1),
        await throttler.get_ticker(markets=["KRW-BTC", "KRW-ETH"]),
        await throttler.get_ticker_all(["KRW", "BTC"]),
        await throttler.get_orderbook(["KRW-BTC"], level=0, count=30),
        await throttler.get_orderbook_instruments(["KRW-BTC"]),
    ]

    for answer in answers:
        assert answer[0]["trade_volume"] == Decimal("0.00006043")
        assert answer[0]["sequential_id"] == 17510687993360000
    btc = {"market": "KRW-BTC"}
    assert upbit.queries == [
        ("/v1/market/all", {"is_details": "true"}),
        ("/v1/candles/seconds", {**btc, "count": "2"}),
        ("/v1/candles/minutes/5", {**btc, "to": "2025-06-24T04:56:53Z"}),
        ("/v1/candles/days", {**btc, "converting_price_unit": "KRW"}),
        ("/v1/candles/weeks", btc),
        ("/v1/candles/months", btc),
        ("/v1/candles/years", btc),
        (
            "/v1/trades/ticks",
            {**btc, "count": "500", "cursor": "17510687993360000", "days_ago": "1"},
        ),
        ("/v1/ticker", {"markets": "KRW-BTC,KRW-ETH"}),
        ("/v1/ticker/all", {"quote_currencies": "KRW,BTC"}),
        ("/v1/orderbook", {"markets": "KRW-BTC", "level": "0", "count": "30"}),
        ("/v1/orderbook/instruments", {"markets": "KRW-BTC"}),
    ]
    assert not any("Origin" in headers for headers in upbit.headers)


async def test_older_names_charge_every_group_they_stand_for() -> None:
    throttler = UpbitSpotThrottler(clock=ManualClock(1_790_000_000_000))
    await throttler.acquire(category="QUOTATION")
    await throttler.acquire(category="EXCHANGE_ORDER")
    await throttler.acquire(category="EXCHANGE_NON_ORDER")

    left = {each.category: each.remaining for each in throttler.stats().limits}
    quotation = ("market", "candle", "trade", "ticker", "orderbook")
    assert {left[group] for group in quotation} == {LIMIT - 1}
    assert (left["order"], left["default"], left["order-cancel-all"]) == (11, 29, 1)
    with pytest.raises(UnknownCategory, match="orderbook"):
        await throttler.acquire(category="candles")


async def test_a_refusal_stops_its_group_alone_for_a_second(
    upbit: Upbit, throttler: UpbitSpotThrottler
) -> None:
    upbit.answer_with.append(web.Response(status=429, text="Too many API requests."))
    with pytest.raises(RateLimited, match="Too many API requests"):
        await throttler.get_ticker(["KRW-BTC"])

    assert remaining(throttler, "ticker") == 0
    await throttler.get_trades("KRW-BTC")
    await throttler.get_ticker(["KRW-BTC"])
    first, second = upbit.arrivals["ticker"]
    assert second - first > PERIOD_S
    assert upbit.statuses == [429, 200, 200]


async def test_a_refused_group_stops_for_a_whole_second_whatever_comes_back_meanwhile() -> None:
    clock = ManualClock(1_790_000_000_000)
    client = Recorder(clock)
    throttler = UpbitSpotThrottler(client, clock=clock)
    for _ in range(LIMIT - 1):
        await throttler.get_ticker(["KRW-BTC"])
    await clock.advance(0.9)
    client.status = 429
    with pytest.raises(RateLimited) as refused:
        await throttler.get_ticker(["KRW-BTC"])
    client.status = 200
    asking = asyncio.create_task(throttler.get_ticker(["KRW-BTC"]))
    await clock.advance(2)
    await asking

    assert refused.value.retry_at_ms == 1_790_000_000_000 + 1900
    assert client.asked[-1] == (1.9, "ticker")


async def test_a_ban_stops_every_group_and_the_next_one_for_longer(upbit: Upbit) -> None:
    clock = ManualClock(1_790_000_000_000)
    throttler = UpbitSpotThrottler(base_url=upbit.address, clock=clock)
    upbit.answer_with.extend(
        web.Response(status=418, text='{"error":{"name":418,"message":"banned"}}') for _ in range(2)
    )
    until_ms = []
    for _ in range(2):
        with pytest.raises(Banned, match="banned") as banned:
            await throttler.get_ticker(["KRW-BTC"])
        until_ms.append(banned.value.until_ms - clock.now_ms())
        assert throttler.try_acquire(category="candle") is None
        await clock.advance(throttler.stats().blocked_for_s)
        assert throttler.try_acquire(category="candle") is not None
    await throttler.aclose()

    assert until_ms == [60_000, 120_000]


@pytest.mark.parametrize(
    ("status", "text", "kind", "words"),
    [
        (404, '{"error":{"name":404,"message":"Code not found"}}', BadRequest, "Code not found"),
        (500, "<html>", ExchangeError, "<html>"),
        (200, "<html>", UnexpectedAnswer, "<html>"),
    ],
)
async def test_a_failure_is_paid_handed_on_and_not_asked_again(
    status: int,
    text: str,
    kind: type[Exception],
    words: str,
    upbit: Upbit,
    throttler: UpbitSpotThrottler,
) -> None:
    upbit.answer_with.append(web.Response(status=status, text=text))
    with pytest.raises(kind, match=words):
        await throttler.get_candles_days("KRW-NONE")

    assert upbit.statuses == [status]
    assert remaining(throttler, "candle") == LIMIT - 1


async def test_what_found_no_server_is_given_back() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    throttler = UpbitSpotThrottler(base_url=address)
    with pytest.raises(NeverSent):
        await throttler.get_markets()
    await throttler.aclose()

    assert remaining(throttler, "market") == LIMIT


async def test_what_was_sent_and_not_answered_stays_paid_and_is_not_sent_again() -> None:
    asked = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with closing(writer), suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            asked += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
            # A connection that was kept and then breaks: aiohttp would ask again on another.
            await reader.readuntil(b"\r\n\r\n")
            asked += 1

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        throttler = UpbitSpotThrottler(base_url=f"http://127.0.0.1:{port}")
        assert await throttler.get_markets() == []
        with pytest.raises(NoAnswer):
            await throttler.get_markets()
        await throttler.aclose()

    assert asked == 2
    assert remaining(throttler, "market") == LIMIT - 2


async def test_who_gives_up_before_it_left_has_paid_nothing() -> None:
    class Never(Recorder):
        async def get(
            self, path: str, params: Mapping[str, str], leaving: Callable[[], None]
        ) -> Answer:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    clock = ManualClock(1_790_000_000_000)
    throttler = UpbitSpotThrottler(Never(clock), clock=clock)
    asking = asyncio.create_task(throttler.get_markets())
    await asyncio.sleep(0)
    assert remaining(throttler, "market") == LIMIT - 1
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert remaining(throttler, "market") == LIMIT
