"""The walk through adding a channel: what it adds is subscribed, recorded, published and judged."""

import asyncio
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import random
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.walks import funding_rates
from tests.walks.funding_rates import FUNDING_RATES, STREAMED, FundingRate

from penstock.cli.record_lines import record_line
from penstock.clock import ManualClock
from penstock.collect.availability import RestAvailability
from penstock.collect.stall_detector import ProbeContext, StallDetector
from penstock.errors import UnknownChannel
from penstock.exchanges.base import MarketProgress, Request, Rest
from penstock.exchanges.binance import stream as binance
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.codec import decode
from penstock.market.symbol import Symbol
from penstock.publish.frames import Frame, FrameKind, payload_of, record_of
from penstock.publish.memory import MemoryPublisher
from penstock.recorder import Recorder
from penstock.storage.log import Span, open_log
from penstock.storage.log.keys import Stream
from penstock.streaming.commands import Send, Subscription
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import Plan

BTC = Symbol("BTC", "USDT")
AT_NS = 1_562_305_380_000_000_000
DOC = (Path(__file__).parents[2] / "docs" / "add-a-channel.md").read_text()


def rate(number: int) -> bytes:
    data = {"e": "markPriceUpdate", "E": 1_562_305_380_000 + number, "s": "BTCUSDT",
            "p": "11794.15", "r": f"-0.000{number}", "T": 1_562_306_400_000}  # fmt: skip
    return msgspec.json.encode({"stream": "btcusdt@markPrice", "data": data})


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row and the dialect's entry, as if they stood in the package's files."""
    if channels.find(FUNDING_RATES.name) is None:
        channels.register(FUNDING_RATES)
    monkeypatch.setattr(binance, "_CHANNELS", binance._CHANNELS | STREAMED)
    monkeypatch.setattr(BinanceDialect, "channels", (*BinanceDialect.channels, *STREAMED))


def make_shard(channel: str) -> Shard:
    def dialect() -> BinanceDialect:
        return BinanceDialect(SymbolMap("binance", [("BTCUSDT", BTC)]))

    wanted = [Subscription(channel, (BTC,))]
    return Shard("binance", dialect, wanted, random, Plan(redundancy=2))


def collected() -> list[FundingRate]:
    """Two connections deliver three rates each; the second is delivered by one of them only."""
    shard = make_shard(FUNDING_RATES.name)
    shard.start(AT_NS)
    for number in list(shard.members):
        shard.opened(number, AT_NS)
    sent = [each.text for _, each in shard.take_commands() if isinstance(each, Send)]
    assert len(sent) == 2
    assert all('"btcusdt@markPrice"' in text for text in sent)
    for number, rates in zip(list(shard.members), ((1, 2, 3), (1, 3)), strict=True):
        shard.received_many(number, [rate(each) for each in rates], [AT_NS + n for n in rates])
    return cast("list[FundingRate]", shard.take_events())


def test_the_walk_shows_the_code_that_is_tested() -> None:
    source = Path(funding_rates.__file__).read_text()
    shown = re.findall(r"^```python\n(.*?)^```", DOC, re.M | re.S)

    assert len(shown) == 3
    for block in shown:
        assert block in source
    for each in fields(Channel):
        assert f"`{each.name}`" in DOC, f"{each.name} is not explained"


def test_it_is_subscribed_and_copies_are_dropped() -> None:
    events = collected()

    assert [type(each) for each in events] == [FundingRate] * 3
    assert [each.rate_text for each in events] == ["-0.0001", "-0.0002", "-0.0003"]


def test_another_name_cannot_be_subscribed() -> None:
    with pytest.raises(UnknownChannel, match="Did you mean funding_rates"):
        make_shard("funding_rate")


async def test_it_is_recorded_read_back_and_published() -> None:
    log, publisher, events = open_log("memory:"), MemoryPublisher(), collected()
    subscription = publisher.subscribe("binance.funding_rates.btc_usdt")
    recorder = Recorder(log.writer("test"), publisher)
    try:
        await recorder.record(events)
        await recorder.record([replace(events[0])])
    finally:
        recorder.close()

    reader, stream = log.reader(), Stream("binance", "funding_rates", "btc_usdt")
    assert reader.streams() == [stream]
    assert [each.event for each in reader.scan(stream)] == events
    late = Span(market_since_ns=events[1].at_ns)
    assert [each.event for each in reader.scan(stream, late)] == events[1:]
    published = subscription.take()
    assert [each.number for each in published] == [1, 2, 3]
    for each, event in zip(published, events, strict=True):
        kind, payload = payload_of(each.record, FrameKind.MSGPACK)
        assert decode(record_of(Frame(each.topic, "test", each.number, kind, payload))) == event
    told = f"funding_rate: at_ns {events[0].at_ns}, rate -0.0001, next_ms 1562306400000"
    assert record_line(events[0], AT_NS).endswith(told)


@dataclass
class Probed:
    """An exchange whose funding rate changes, and what is done to its stream."""

    state: int = 0
    resubscribed: list[str] = field(default_factory=list)

    def latest(self, _symbol: Symbol, channel: str) -> Request[MarketProgress]:
        assert channel == FUNDING_RATES.name
        return Request("rate", 1, lambda _body, _at_ns: MarketProgress(""))

    async def fetch(self, _: Request[MarketProgress]) -> MarketProgress:
        return MarketProgress(str(self.state))

    def connected_since_ns(self, _channel: str, _symbol: Symbol) -> int:
        return 0

    def resubscribe(self, channel: str, _symbol: Symbol) -> None:
        self.resubscribed.append(channel)

    def rotate(self, _channel: str, _symbol: Symbol, _reason: str) -> None: ...


@pytest.mark.parametrize("delivers", [True, False])
async def test_it_is_judged_for_liveness(delivers: bool) -> None:
    clock, probed, event = ManualClock(1_000_000), Probed(), collected()[0]
    context = ProbeContext(
        "binance", cast("Rest", probed), probed.fetch, RestAvailability("binance", clock)
    )
    detector = StallDetector(context, clock)
    detector.expect([FUNDING_RATES.name], [BTC])
    running = asyncio.create_task(detector.run(probed))
    for _ in range(200):
        probed.state += 1
        if delivers:
            detector.heard([replace(event, received_at_ns=clock.now_ns())])
        await clock.advance(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert detector.stalled() == ([] if delivers else ["funding_rates btc_usdt"])
    assert set(probed.resubscribed) == (set() if delivers else {FUNDING_RATES.name})
