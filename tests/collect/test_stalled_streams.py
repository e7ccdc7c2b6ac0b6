"""Streams that every exchange acknowledges and never sends: named, and nobody else's trouble."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.collect import collector
from penstock.collect.facts import StreamProbed, StreamStalled
from penstock.collect.stall_detector import SilenceLimits
from penstock.collect.status import CollectorStatus
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.simulator import registry as simulators
from penstock.telemetry import Fact

# The streams of trades, as each simulated exchange names them, from their first moment on.
FAULTS = "mute@*@trade|trade*|match*=1ms"


@pytest.mark.parametrize("name", simulators.names())
async def test_a_stream_that_never_speaks_is_named_and_costs_nobody_the_connection(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the simulator sends is here at once.
    monkeypatch.setattr(collector, "SilenceLimits", partial(SilenceLimits, grace_s=0.7))
    clock, stop, facts = SystemClock(), asyncio.Event(), list[Fact]()
    simulator = Simulator(port=0, uplink_ms=0, latency_ms=1, faults=FAULTS)
    server = build_simulator(simulator, clock, exchange=name)
    await server.start()
    slug, urls = (
        min(s for s in server.symbols if s.startswith("btc")),
        {name: f"http://{server.address}"},
    )
    settings = Settings(
        collect=Collect(data_dir=str(tmp_path), min_silence=1.0, first_message_timeout=1.0),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
    )
    async with open_collector(settings, name, clock, facts.append) as opened:
        running = asyncio.create_task(opened.run([slug], stop))
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not _done(opened.reporter.status("running"), facts):
                    assert not running.done(), running.result()
                    await asyncio.sleep(0.05)
            status = opened.reporter.status("running")
        finally:
            stop.set()
            await running
            await server.stop()

    assert status.stalled == [f"trades {slug}"]
    assert not status.reconnects
    assert {fact.remedy for fact in facts if isinstance(fact, StreamStalled)} == {"asked_anew"}
    assert {fact.channel for fact in facts if isinstance(fact, StreamStalled)} == {"trades"}
    assert any(isinstance(fact, StreamProbed) and fact.found == "news" for fact in facts)


def _done(status: CollectorStatus, facts: list[Fact]) -> bool:
    """The trades were asked for twice, and the rest comes all the while."""
    remedies = [fact for fact in facts if isinstance(fact, StreamStalled)]
    books = {book.state for book in status.books}
    return len(remedies) >= 2 and books == {"synced"}
