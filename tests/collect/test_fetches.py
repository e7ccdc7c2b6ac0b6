"""Trades fetched from an exchange that leads from the newest one back, without a hole."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests import events

from penstock.clock import ManualClock
from penstock.collect import fetches
from penstock.collect.facts import FetchFellShort
from penstock.collect.fetches import FetchContext, TradesFetch, kinds_to_fetch
from penstock.collect.recording import RetryingRecorder
from penstock.config import Fetch
from penstock.errors import ConfigError, NoAnswer, StorageFull
from penstock.exchanges import registry
from penstock.exchanges.base import Request, TradePage
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.telemetry import Fact

BTC = Symbol("BTC", "USD")


def trade(number: int) -> Trade:
    return events.trade(number, BTC, "coinbase", received_at_ns=1, source="rest", at_ns=number)


@dataclass
class Backwards:
    """A market whose trades are 1 to ``latest``, ten a page, leading back."""

    latest: int
    loses: set[int] = field(default_factory=set)
    """Questions, counted from 1, that get no answer."""
    asked: int = 0

    def recent_trades(self, _symbol: Symbol, _limit: int) -> Request[Any]:
        return Request("/recent", 1, lambda _body, _at_ns: self._before(self.latest + 1))

    def trades(self, _symbol: Symbol, cursor: int, _source: str) -> Request[Any]:
        def read(_body: bytes, _at_ns: int) -> TradePage:
            found = self._before(cursor)
            return TradePage(found, found[0].id if found else cursor)

        return Request("/trades", 1, read)

    async def fetch(self, request: Request[Any]) -> Any:
        self.asked += 1
        if self.asked in self.loses:
            raise NoAnswer("toy", request.path, "silence")
        return request.read(b"", 1)

    def _before(self, end: int) -> list[Trade]:
        return [trade(number) for number in range(max(1, end - 10), end)]


@dataclass
class Forwards(Backwards):
    """The same trades, all of one millisecond, ten a page; a cursor is the first to be had."""

    def trades(self, _symbol: Symbol, cursor: int, _source: str) -> Request[Any]:
        def read(_body: bytes, _at_ns: int) -> TradePage:
            first = max(1, cursor)
            found = [trade(number) for number in range(first, min(first + 10, self.latest + 1))]
            return TradePage(found, found[-1].id + 1 if found else cursor)

        return Request("/trades", 1, read)


def fetch_from(
    market: Backwards, log: EventLog, facts: list[Fact], pages: Any = "before_id"
) -> TradesFetch:
    async def turn() -> None:
        return None

    recorder, clock = Recorder(log.writer("fetch-coinbase")), ManualClock()
    context = FetchContext(
        replace(registry.load("coinbase"), trade_pages=pages), cast("Any", market),
        cast("Any", market), RetryingRecorder(recorder, "coinbase", Path(), clock), log.reader(),
        clock, turn, facts.append,
    )  # fmt: skip
    return TradesFetch(context, BTC, fresh_s=60.0)


def ids(log: EventLog) -> list[int]:
    stored = log.reader().scan(Stream("coinbase", "trades", "btc_usd"))
    return [cast("Trade", each.event).id for each in stored]


async def test_it_begins_with_the_newest_and_goes_on_after_them() -> None:
    log, facts = open_log("memory:"), list[Fact]()
    market = Backwards(latest=100)
    fetch = fetch_from(market, log, facts)
    assert (await fetch.step()).records == 10
    market.latest = 137
    assert (await fetch.step()).records == 37

    assert ids(log) == list(range(91, 138))
    assert (await fetch.step()).records == 0
    assert facts == []


@pytest.mark.parametrize("pages", ["from_id", "after_ns"])
async def test_it_goes_on_with_the_very_next_trade(pages: str) -> None:
    log = open_log("memory:")
    log.writer("collect-coinbase").append([trade(number) for number in range(1, 6)])

    await fetch_from(Forwards(7), log, [], pages).step()

    assert ids(log) == [*range(1, 8)]


@pytest.mark.parametrize("lost", range(2, 7))
async def test_a_walk_that_is_broken_off_leaves_no_hole(lost: int) -> None:
    log = open_log("memory:")
    market = Backwards(latest=100, loses={lost})
    fetch = fetch_from(market, log, [])
    await fetch.step()
    market.latest = 135
    try:
        await fetch.step()
    except NoAnswer:
        assert ids(log) == list(range(91, 101)), "nothing of it was recorded"
        await fetch.step()

    assert ids(log) == list(range(91, 136))


async def test_a_disk_that_fails_in_the_middle_leaves_no_hole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log("memory:")
    market = Backwards(latest=100)
    fetch = fetch_from(market, log, [])
    await fetch.step()
    market.latest = 135
    record, batches = fetch.context.recorder.record, iter(range(10))

    async def failing(events: Any) -> Any:
        if next(batches) == 2:
            raise StorageFull("log", "no space")
        return await record(events)

    monkeypatch.setattr(fetch.context.recorder, "record", failing)
    with pytest.raises(StorageFull):
        await fetch.step()
    stored = ids(log)
    assert stored == list(range(91, stored[-1] + 1))
    assert 100 < stored[-1] < 135
    await fetch.step()
    assert ids(log) == list(range(91, 136))


async def test_more_than_can_be_held_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "MOST_PAGES", 3)
    log, facts = open_log("memory:"), list[Fact]()
    market = Backwards(latest=100)
    fetch = fetch_from(market, log, facts)
    await fetch.step()
    market.latest = 200
    await fetch.step()

    assert ids(log) == [*range(91, 101), *range(171, 201)]
    short = FetchFellShort(exchange="coinbase", symbol="btc_usd", after_id=100, before_id=171)
    assert facts == [short]


def test_without_a_market_what_is_of_one_is_left_out_or_refused() -> None:
    assert kinds_to_fetch(Fetch(), [BTC]) == ("trades", "book", "info", "tickers")
    assert kinds_to_fetch(Fetch(), []) == ("info", "tickers")
    assert kinds_to_fetch(Fetch(what=("book", "book")), [BTC]) == ("book",)
    with pytest.raises(ConfigError, match="book"):
        kinds_to_fetch(Fetch(what=("info", "book")), [])
