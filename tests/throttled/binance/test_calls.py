"""Calls through the wrapper and beside it: any method, priorities, timeouts, the client itself."""

import asyncio

import pytest
import requests
from binance.spot import Spot
from tests.throttled.conftest import Simulated

from penstock.errors import UnknownMethod, WaitTimedOut
from penstock.throttle.gate import Limit
from penstock.throttled import BinanceSpotThrottler

from .test_throttler import serving, throttled, used


async def test_a_client_that_was_handed_over_still_works_when_called_directly(
    usual: Simulated,
) -> None:
    spot = Spot(base_url=usual.address)
    adapters, redirects = dict(spot.session.adapters), spot.session.max_redirects
    throttler = BinanceSpotThrottler(spot)

    assert await throttler.ping() == {}
    assert await asyncio.to_thread(spot.ping) == {}
    assert used(throttler) == 1, "what is called directly is not charged here"
    await throttler.aclose()
    assert await asyncio.to_thread(spot.ping) == {}
    assert (dict(spot.session.adapters), spot.session.max_redirects) == (adapters, redirects)
    spot.session.close()


async def test_an_adapter_of_the_clients_own_is_sent_through(usual: Simulated) -> None:
    class Counting(requests.adapters.HTTPAdapter):
        sent = 0

        def send(self, *args: object, **kwargs: object) -> requests.Response:
            self.sent += 1
            return super().send(*args, **kwargs)  # type: ignore[arg-type]

    spot, counting = Spot(base_url=usual.address), Counting()
    spot.session.mount("http://", counting)
    throttler = BinanceSpotThrottler(spot)
    await throttler.ping()
    await throttler.aclose()

    assert counting.sent == 1


async def test_any_method_of_the_connector_can_be_called_for_what_it_costs() -> None:
    async def answer() -> bytes:
        return b'{"uid": 7}'

    async with serving(answer) as address:
        spot = Spot("key", "secret", base_url=address)
        throttler = BinanceSpotThrottler(spot)
        assert await throttler.call("account", 20, recvWindow=5000, priority=1, timeout=9) == {
            "uid": 7
        }
        assert used(throttler) == 20
        for wrong in ("acount", "_prepare_params", "base_url"):
            with pytest.raises(UnknownMethod) as refused:
                await throttler.call(wrong, 20)
            assert wrong in str(refused.value)
            assert wrong != "acount" or "account" in refused.value.near
        assert used(throttler) == 20
        await throttler.aclose()


async def test_a_call_that_cannot_be_sent_in_time_is_not_sent(usual: Simulated) -> None:
    whole = (Limit(20, 3_600_000),)
    async with throttled(usual.address, whole) as throttler:
        await throttler.get_exchange_info()
        for ask in (throttler.ping, throttler.get_book_ticker, throttler.get_exchange_info):
            with pytest.raises(WaitTimedOut):
                await ask(timeout=0.05)
    assert len(usual.statuses()) == 1


async def test_waiting_for_a_connection_has_the_same_end() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer_late() -> bytes:
        asked.set()
        await may_answer.wait()
        return b"{}"

    async with serving(answer_late) as address, throttled(address, connections=1) as throttler:
        first = asyncio.create_task(throttler.ping())
        await asked.wait()
        with pytest.raises(WaitTimedOut):
            await throttler.ping(timeout=0.05)
        may_answer.set()
        assert await first == {}
        assert used(throttler) == 1


async def test_higher_priorities_get_the_next_connection() -> None:
    asked, may_answer, order = asyncio.Event(), asyncio.Event(), []

    async def answer_late() -> bytes:
        asked.set()
        await may_answer.wait()
        return b"{}"

    async with serving(answer_late) as address, throttled(address, connections=1) as throttler:

        async def ask(name: str, priority: int) -> None:
            await throttler.ping(priority=priority)
            order.append(name)

        tasks = [asyncio.create_task(ask("first", 0))]
        await asked.wait()
        for name, priority in (("low", 0), ("high", 1)):
            tasks.append(asyncio.create_task(ask(name, priority)))
            await asyncio.sleep(0)
        may_answer.set()
        await asyncio.gather(*tasks)
    assert order == ["first", "high", "low"]
