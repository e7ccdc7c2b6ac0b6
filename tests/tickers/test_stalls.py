"""A stream that stalls on a live connection is detected, shown, and subscribed to again."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from tests.tickers.conftest import BTC, ETH, Simulate, entries, settings_for, ticked, until

from penstock.collect.facts import StreamRecovered, StreamStalled
from penstock.collect.stall_detector import StallDetector
from penstock.live import ProcessStatus
from penstock.market.events import Event
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import Fact
from penstock.tickers import LiveTickerCollector
from penstock.tickers import stalls as stalls_module
from penstock.tickers.facts import ExchangeMeasured, StallDetectionFailed, TicksMeasured
from penstock.tickers.stalls import TickerStalls


async def hold(server: SimulatorServer, streams: str) -> None:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"http://{server.address}/_sim/hold", json={"streams": streams}) as answer,
    ):
        assert answer.status == 200


async def subscriptions(server: SimulatorServer) -> list[Any]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://{server.address}/_sim/connections") as answer,
    ):
        [only] = (await answer.json())["open"]
    changes: list[Any] = only["subscriptions"]
    return changes


async def test_a_stalled_stream_is_shown_and_subscribed_to_again(
    tmp_path: Path, simulate: Simulate
) -> None:
    server, facts = await simulate(), list[Fact]()
    settings = settings_for(tmp_path, server)
    quick = replace(settings.collect, min_silence=0.5, first_message_timeout=0.5)
    settings = replace(settings, collect=quick)
    url = f"sqlite:{tmp_path / 'live.db'}"
    collector = LiveTickerCollector([BTC, ETH], settings=settings, listener=facts.append)
    await collector.start_collection()
    try:
        await until(lambda: ticked(url, BTC, ETH))
        asked = len(await subscriptions(server))
        await hold(server, "btcusdt@*")

        async def stalled() -> bool:
            return (await entries(url))[BTC.key].message.startswith("Stalled: no tick although")

        await until(stalled)
        found = await entries(url)
        assert found[BTC.key].status is ProcessStatus.ERROR
        assert found[ETH.key].status is ProcessStatus.RUNNING
        assert [each.symbol for each in facts if isinstance(each, StreamStalled)] == ["btc_usdt"]
        await until(lambda: _longer(server, asked))
        await until(lambda: _measured(facts).symbols == {"error": 1, "running": 1})
        measured = _measured(facts)
        assert measured.received > 0
        assert measured.oldest_s is not None
        assert measured.oldest_s > 0.5

        await hold(server, "")

        async def running() -> bool:
            return (await entries(url))[BTC.key].status is ProcessStatus.RUNNING

        await until(running)
        await until(lambda: any(isinstance(each, StreamRecovered) for each in facts))
    finally:
        await collector.stop_collection()


def _measured(facts: list[Fact]) -> ExchangeMeasured:
    [*_, last] = [each for each in facts if isinstance(each, TicksMeasured)]
    assert last.written > 0
    return last.exchanges["binance"]


async def _longer(server: SimulatorServer, asked: int) -> bool:
    return len(await subscriptions(server)) > asked


async def test_a_detector_that_fails_is_started_again_and_hurts_no_tick(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, facts = await simulate(), list[Fact]()
    heard: list[Event] = []
    monkeypatch.setattr(stalls_module, "_AGAIN_S", 0.01)
    monkeypatch.setattr(TickerStalls, "heard", lambda _, events: heard.extend(events))

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(StallDetector, "run", fail)
    collector = LiveTickerCollector(
        [BTC], settings=settings_for(tmp_path, server), listener=facts.append
    )
    await collector.start_collection()
    try:
        await until(lambda: len([1 for f in facts if isinstance(f, StallDetectionFailed)]) > 1)
        await until(lambda: ticked(f"sqlite:{tmp_path / 'live.db'}", BTC))
        assert heard
    finally:
        await collector.stop_collection()


async def test_a_detector_that_fails_when_it_is_stopped_is_not_started_again(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, started = await simulate(), 0
    monkeypatch.setattr(stalls_module, "_AGAIN_S", 0.01)

    async def fail(*_: object) -> None:
        nonlocal started
        started += 1
        if started > 1:
            raise asyncio.CancelledError  # so that stopping it ends
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError

    monkeypatch.setattr(StallDetector, "run", fail)
    collector = LiveTickerCollector([BTC], settings=settings_for(tmp_path, server))
    await collector.start_collection()
    await until(lambda: ticked(f"sqlite:{tmp_path / 'live.db'}", BTC))
    await collector.stop_collection()

    assert started == 1
