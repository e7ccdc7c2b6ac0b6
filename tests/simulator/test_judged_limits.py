"""Limits, judged over whole windows: the greedy client is banned, the polite one never refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import SimulatedBinance, Simulator

LIMIT = 40
WINDOW_MS = 1000
SETTINGS = Simulator(
    port=0,
    symbols=("1inch_usdt",),
    binance=SimulatedBinance(weight_limit=LIMIT, weight_window=WINDOW_MS / 1000),
    refusals_before_ban=3,
    first_ban=1.0,
    uplink_ms=0,
    latency_ms=1,
)
CLOCK = SystemClock()


@asynccontextmanager
async def simulator() -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    server = build_simulator(SETTINGS, CLOCK)
    await server.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield http, f"http://{server.address}"
    finally:
        await server.stop()


async def ask(http: aiohttp.ClientSession, address: str) -> tuple[int, Any, Any]:
    async with http.get(f"{address}/api/v3/ping") as answer:
        return answer.status, answer.headers, await answer.json()


async def windows(http: aiohttp.ClientSession, address: str) -> list[dict[str, Any]]:
    await CLOCK.sleep(WINDOW_MS / 1000)  # let the last window close
    async with http.get(f"{address}/_sim/windows") as answer:
        found: list[dict[str, Any]] = (await answer.json())["windows"]
        return [window for window in found if window["requests"]]


async def test_a_greedy_client_gets_429_with_its_header_and_then_growing_bans() -> None:
    bans: list[int] = []
    refused: list[tuple[int, Any, Any]] = []
    async with simulator() as (http, address):
        while len(bans) < 2:
            status, headers, body = await ask(http, address)
            if status == 429:
                refused.append((status, headers, body))
            elif status == 418:
                bans.append(int(headers["Retry-After"]))
                await CLOCK.sleep(bans[-1])
        judged = await windows(http, address)

    assert len(refused) >= 2 * SETTINGS.refusals_before_ban
    for _, headers, body in refused:
        assert int(headers["Retry-After"]) == 1, "a window of one second ends within one"
        assert int(headers["X-MBX-USED-WEIGHT-1S"]) > LIMIT, "refused requests add weight"
        assert body["code"] == -1003
        assert f"current limit is {LIMIT} request weight per 1 SECOND" in body["msg"]
    assert bans[1] >= 2 * bans[0], "each ban is twice as long as the one before"
    assert any(window["max_used"] > LIMIT and window["refusals"] for window in judged)


async def test_a_client_that_keeps_to_the_limit_is_never_refused() -> None:
    statuses: list[int] = []
    async with simulator() as (http, address):
        # Wait for a fresh window, then send what it holds at once; four windows long.
        for _ in range(4):
            await CLOCK.sleep((WINDOW_MS - CLOCK.now_ms() % WINDOW_MS) / 1000 + 0.02)
            answers = await asyncio.gather(*(ask(http, address) for _ in range(LIMIT)))
            statuses += [status for status, _, _ in answers]
        judged = await windows(http, address)

    assert statuses == [200] * 4 * LIMIT
    assert [window["weight"] for window in judged] == [LIMIT] * 4, "every whole window was used up"
    assert not any(window["refusals"] for window in judged)
