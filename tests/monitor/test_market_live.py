"""Live markets: one follower for all viewers, opened with the first and closed after the last."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import events
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock
from penstock.collect.status import BookStatus, CollectorStatus, write_status
from penstock.errors import NoData, NotCollected, StorageError, TooManyMarkets
from penstock.market.events import BookDelta, BookSnapshot, Trade
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.monitor.market_feed import MarketFeed, Watch
from penstock.monitor.market_live import MOST_MARKETS, LiveMarkets
from penstock.storage.log import EventLog, LogReader, open_log

NOW_MS = 1_790_000_000_000
BTC = Symbol("BTC", "USDT")
WATCH = Watch("binance", "BTC/USDT")
LEVELS = {"bids_raw": write_levels([("10", "1")]), "asks_raw": write_levels([("12", "2")])}


class Counted:
    """A log that counts how often it is opened, and may be away."""

    def __init__(self, log: EventLog) -> None:
        self.folder = log.folder
        self._log, self.opened, self.away = log, 0, False

    def writer(self, slot: str) -> object:
        return self._log.writer(slot)

    def reader(self) -> LogReader:
        if self.away:
            raise StorageError("log", "the disk is away")
        self.opened += 1
        return self._log.reader()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def log() -> Counted:
    return Counted(open_log("memory:"))


@pytest.fixture
async def markets(log: Counted, clock: ManualClock, tmp_path: Path) -> AsyncIterator[LiveMarkets]:
    found = LiveMarkets(log, tmp_path, clock)  # type: ignore[arg-type]
    yield found
    await found.close()


def record(log: Counted, *found: Trade | BookDelta | BookSnapshot) -> None:
    writer = log.writer("collect-binance")
    writer.append(found)  # type: ignore[attr-defined]
    writer.close()  # type: ignore[attr-defined]


def trade(number: int, symbol: Symbol = BTC, **fields: object) -> Trade:
    at_ns = (NOW_MS + number) * 1_000_000
    return events.trade(number, symbol, "binance", at_ns=at_ns, received_at_ns=at_ns, **fields)


def snapshot(update_id: int, at_ms: int = NOW_MS) -> BookSnapshot:
    at_ns = at_ms * 1_000_000
    return events.snapshot(update_id, BTC, "binance", received_at_ns=at_ns, **LEVELS)


def status(folder: Path, clock: ManualClock, update_id: int) -> None:
    book = BookStatus(symbol=BTC.slug, state="synced", reason="", update_id=update_id, resyncs=0)
    write_status(
        folder,
        CollectorStatus(
            exchange="binance", slot="collect-binance", pid=1, started_ms=0, at_ms=clock.now_ms(),
            state="running", books=[book],
        ),
    )  # fmt: skip


async def test_a_market_is_followed_while_it_is_asked_for(
    log: Counted, markets: LiveMarkets, clock: ManualClock, tmp_path: Path
) -> None:
    record(log, trade(1), snapshot(100))
    status(tmp_path, clock, 100)

    first = await markets.document(WATCH)
    assert (first.badge, first.sequence, first.bid, first.ask) == ("synced", 100, "10", "12")
    assert first.spread == "2"
    assert first.candle is not None
    await clock.advance(0.1)
    changed = write_levels([("11", "3")])
    record(
        log,
        trade(2, price_text="7"),
        events.delta(101, 102, BTC, "binance", received_at_ns=clock.now_ns(), bids_raw=changed),
    )
    await clock.advance(1)

    second = await markets.document(WATCH)

    assert (second.sequence, second.bid) == (102, "11")
    assert [row.id for row in second.trades] == ["2", "1"]
    assert second.candle is not None
    assert (second.candle.close, second.candle.volume) == ("7", "2")
    assert log.opened == 1


async def test_no_candle_is_shown_if_its_first_trades_were_not_read(
    log: Counted, markets: LiveMarkets, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.monitor.market_feed._MOST_IN_CANDLE", 2)
    record(log, *(trade(number) for number in range(3)))
    assert (await markets.document(WATCH)).candle is None

    record(log, trade(3))
    await clock.advance(1)

    shown = await markets.document(WATCH)
    assert (shown.trades[0].id, shown.candle) == ("3", None)


async def test_viewers_share_one_read(
    log: Counted, markets: LiveMarkets, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(log, trade(1), trade(1, Symbol("ETH", "USDT")))
    made: list[int] = []
    documents = MarketFeed.documents

    def counted(self: MarketFeed, asked: dict[Watch, int]) -> object:
        made.append(len(asked))
        return documents(self, asked)

    monkeypatch.setattr(MarketFeed, "documents", counted)
    watches = [WATCH] * 10 + [Watch("binance", "ETH/USDT")] * 10

    found = await asyncio.gather(*map(markets.document, watches))

    assert {each.symbol for each in found} == {"BTC/USDT", "ETH/USDT"}
    assert len(made) <= 2


async def test_the_log_is_closed_after_the_last_viewer_and_opened_for_the_next(
    log: Counted, markets: LiveMarkets, clock: ManualClock
) -> None:
    record(log, trade(1))
    await markets.document(WATCH)
    assert markets.is_following
    await clock.advance(4)
    await markets.document(WATCH)
    await clock.advance(4)
    assert markets.is_following

    async with asyncio.timeout(PATIENCE_S):
        while markets.is_following:
            await clock.advance(1)
            await asyncio.sleep(0.01)  # the log is closed in a thread

    assert (await markets.document(WATCH)).trades
    assert log.opened == 2


async def test_at_most_so_many_markets_are_followed(
    log: Counted, markets: LiveMarkets, clock: ManualClock
) -> None:
    symbols = [Symbol(f"A{n}", "USDT") for n in range(MOST_MARKETS + 1)]
    record(log, *(trade(1, symbol) for symbol in symbols))
    watches = [Watch("binance", each.unified) for each in symbols]
    for watch in watches[:-1]:
        await markets.document(watch)

    with pytest.raises(TooManyMarkets):
        await markets.document(watches[-1])

    assert (await markets.document(watches[0])).trades, "those that are shown already still are"
    await clock.advance(6)
    assert (await markets.document(watches[-1])).trades


async def test_an_unknown_market_has_near_ones_and_takes_no_place(
    log: Counted, markets: LiveMarkets
) -> None:
    record(log, trade(1))
    for number in range(MOST_MARKETS + 1):
        with pytest.raises(NotCollected) as refused:
            await markets.document(Watch("binance", f"BTC/USD{number}"))
    assert refused.value.near == ["BTC/USDT"]

    assert (await markets.document(WATCH)).trades


async def test_without_any_data_the_answer_says_how_to_begin(markets: LiveMarkets) -> None:
    with pytest.raises(NoData, match="penstock collect"):
        await markets.document(WATCH)


async def test_a_market_that_appears_is_found_within_a_second(
    log: Counted, markets: LiveMarkets, clock: ManualClock
) -> None:
    with pytest.raises(NoData):
        await markets.document(WATCH)
    record(log, trade(1))
    await clock.advance(1)

    assert (await markets.document(WATCH)).badge == "no book"

    record(log, snapshot(7, clock.now_ms()))
    await clock.advance(5)
    assert (await markets.document(WATCH)).bid == "10", "its book was recorded since"


async def test_a_log_that_is_away_is_opened_when_it_is_back(
    log: Counted, markets: LiveMarkets, clock: ManualClock
) -> None:
    record(log, trade(1))
    log.away = True
    with pytest.raises(StorageError):
        await markets.document(WATCH)
    log.away = False

    assert (await markets.document(WATCH)).trades


async def test_a_snapshot_that_is_too_old_to_apply_all_changes_to_is_waited_for(
    log: Counted, markets: LiveMarkets, clock: ManualClock, tmp_path: Path
) -> None:
    hour_ms = 3_600_000
    late = events.delta(101, 101, BTC, "binance", received_at_ns=NOW_MS * 1_000_000)
    record(log, snapshot(100, NOW_MS - hour_ms), late)
    status(tmp_path, clock, 101)

    shown = await markets.document(WATCH)

    assert (shown.badge, shown.why) == (
        "resyncing", "The last recorded snapshot is 3600 s old: waiting for the next.",
    )  # fmt: skip
    record(log, snapshot(102, NOW_MS + 500))
    await clock.advance(1)
    status(tmp_path, clock, 102)
    assert (await markets.document(WATCH)).badge == "synced"


async def test_one_of_several_collectors_with_a_synced_book_is_enough(
    log: Counted, markets: LiveMarkets, clock: ManualClock, tmp_path: Path
) -> None:
    record(log, snapshot(100))
    book = BookStatus(symbol=BTC.slug, state="synced", reason="", update_id=100, resyncs=0)
    waiting = BookStatus(symbol=BTC.slug, state="syncing", reason="new", update_id=0, resyncs=0)
    for slot, found, at_ms in (("a", book, NOW_MS - 500), ("b", waiting, NOW_MS)):
        running = CollectorStatus(
            exchange="binance", slot=slot, pid=1, started_ms=0, at_ms=at_ms, state="running",
            books=[found],
        )  # fmt: skip
        write_status(tmp_path, running)

    assert (await markets.document(WATCH)).badge == "synced"


async def test_without_ids_the_collector_that_recorded_the_book_decides_its_badge(
    log: Counted, clock: ManualClock, tmp_path: Path
) -> None:
    at_ns = NOW_MS * 1_000_000
    found = events.snapshot(0, BTC, "coinbase", at_ns=at_ns, received_at_ns=at_ns, **LEVELS)
    record(log, found)
    book = BookStatus(symbol=BTC.slug, state="synced", reason="", update_id=0, resyncs=0)
    for slot, at_ms in (("collect-binance", NOW_MS - 60_000), ("other", NOW_MS)):
        running = CollectorStatus(
            exchange="coinbase", slot=slot, pid=1, started_ms=0, at_ms=at_ms, state="running",
            books=[book],
        )  # fmt: skip
        write_status(tmp_path, running)
    markets = LiveMarkets(log, tmp_path, clock)  # type: ignore[arg-type]

    shown = await markets.document(Watch("coinbase", "BTC/USDT"))
    await markets.close()

    assert (shown.badge, shown.bid) == ("stale", "10")
