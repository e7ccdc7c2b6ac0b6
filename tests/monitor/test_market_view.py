"""A market's view: its book is the exchange's whenever it is called synced, and says so if not."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests import events

from penstock.books.rules import BookRules
from penstock.collect.status import BookStatus
from penstock.market.events import BookSnapshot, Disconnect, Event, Source
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.monitor.candle_series import CandleSeries, Traded
from penstock.monitor.market_documents import MarketDocument
from penstock.monitor.market_view import MOST_TRADES, CollectorView, MarketView
from penstock.simulator.market.book import Book, Level
from penstock.simulator.market.market import Listing, Market
from penstock.simulator.market.shapes import Library

DAY_MS = 86_400_000
LISTED_MS = 19_000 * DAY_MS
AT_MS = LISTED_MS + 3 * DAY_MS + 12_345_600
SLOT = AT_MS // Book.SLOT_MS
LINK = Symbol("LINK", "USDT")
RULES = BookRules(begins="rest")
MS_NS = 1_000_000


@pytest.fixture(scope="module")
def market() -> Market:
    return Market(Listing("LINK", "USDT", 4, 2, 140_000, 6, LISTED_MS), 1, Library(6))


@pytest.fixture(scope="module")
def truth(market: Market) -> Book:
    return Book(market)


def raw(levels: Sequence[Level]) -> Raw:
    return write_levels([(str(price), str(quantity)) for price, quantity in levels])


def snapshot(truth: Book, slot: int, depth: int, source: Source = "live") -> BookSnapshot:
    """The book at the end of a slot, or for a fetched one, as REST would show it."""
    at_ms = slot * Book.SLOT_MS
    update_id = truth.update_id(slot) if source == "live" else truth.snapshot_id(at_ms)
    bids, asks = truth.at(update_id, depth)
    return events.snapshot(
        update_id, LINK, received_at_ns=at_ms * MS_NS, source=source, bids_raw=raw(bids),
        asks_raw=raw(asks),
    )  # fmt: skip


def delta(truth: Book, slot: int) -> Event | None:
    change = truth.delta(slot - 1, slot)
    if change is None:
        return None
    return events.delta(
        change.first_update_id, change.final_update_id, LINK,
        received_at_ns=slot * Book.SLOT_MS * MS_NS, bids_raw=raw(change.bids),
        asks_raw=raw(change.asks),
    )  # fmt: skip


def cut(slot: int) -> Disconnect:
    return Disconnect(
        exchange="toy", symbol=LINK, received_at_ns=slot * Book.SLOT_MS * MS_NS,
        channels=("trades", "book_deltas"), reason="the line was cut",
    )  # fmt: skip


def collector(at_ms: int = AT_MS, **fields: object) -> CollectorView:
    book = BookStatus(symbol=LINK.slug, state="synced", reason="", update_id=0, resyncs=0)
    return CollectorView(at_ms, replace(book, **fields), "running")


def document(view: MarketView, now_ms: int = AT_MS) -> MarketDocument:
    return view.document("1m", collector(now_ms), now_ms)


What = Literal["delta", "lost", "shown", "fetched", "cut", "again"]
whats = st.sampled_from(["delta"] * 12 + ["lost", "shown", "shown", "fetched", "cut", "again"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(whats, min_size=10, max_size=60))
def test_a_book_that_is_called_synced_is_the_exchanges(truth: Book, steps: list[What]) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 100, "rest"))
    slot, synced = SLOT, 0
    for what in steps:
        match what:
            case "shown":
                view.receive("a", snapshot(truth, slot, 50))
            case "fetched":
                view.receive("a", snapshot(truth, slot, 100, "rest"))
            case "cut":
                view.receive("a", cut(slot))
            case "delta" | "lost" | "again":
                slot += what != "again"
                change = delta(truth, slot)
                if change is not None and what != "lost":
                    view.receive("a", change)
        shown = document(view)
        if shown.badge == "synced":
            synced += 1
            assert shown.sequence is not None
            bids, asks = truth.at(shown.sequence, 50)
            theirs = [[(str(p), str(q)) for p, q in side] for side in (bids, asks)]
            assert shown.book.bids == theirs[0][: len(shown.book.bids)]
            assert shown.book.asks == theirs[1][: len(shown.book.asks)]
            assert shown.book.bids
            assert shown.book.asks
            assert shown.bid == theirs[0][0][0]
    view.receive("a", snapshot(truth, slot, 50))
    view.receive("a", snapshot(truth, slot, 50))
    assert document(view).badge == "synced" or steps[-1] in ("lost", "cut")


def test_a_book_is_not_synced_after_its_stream_has_ended(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))
    assert document(view).badge == "synced"

    view.receive("a", cut(SLOT))

    assert (document(view).badge, document(view).why) == ("resyncing", "the line was cut")


def test_a_later_snapshot_shows_the_levels_that_the_price_came_to(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 10))
    slots = range(SLOT + 1, SLOT + 100)
    for slot in slots:
        change = delta(truth, slot)
        if change is not None:
            view.receive("a", change)
    before = document(view).book
    bids, _ = truth.at(truth.update_id(slots[-1]), 50)
    assert before.bids == [(str(p), str(q)) for p, q in bids][: len(before.bids)]
    assert max(len(before.bids), len(before.asks)) < 50, "only ten levels a side are known"
    later = slots[-1] + 1
    change = delta(truth, later)
    if change is not None:
        view.receive("a", change)

    view.receive("a", snapshot(truth, slots[-1], 50))

    assert document(view).badge == "synced"
    assert len(document(view).book.bids) == len(document(view).book.asks) == 50


def test_a_price_beyond_all_that_is_known_is_shown_and_not_called_synced() -> None:
    view = MarketView("toy", LINK, RULES)
    whole: dict[str, Any] = {
        "bids_raw": raw([(10, 1), (9, 1)]),
        "asks_raw": raw([(12, 1), (13, 1)]),
    }
    view.receive("a", events.snapshot(1, symbol=LINK, **whole))
    assert document(view).badge == "synced"

    fallen = raw([(10, 0), (9, 0), (5, 1)])
    view.receive("a", events.delta(2, 2, LINK, bids_raw=fallen, asks_raw=raw([(6, 1)])))

    shown = document(view)
    assert (shown.badge, shown.bid, shown.ask) == ("resyncing", "5", "6")
    assert "levels may be missing" in shown.why
    view.receive("a", events.snapshot(2, LINK, bids_raw=raw([(5, 1)]), asks_raw=raw([(6, 1)])))
    assert document(view).badge == "synced"


def test_an_older_snapshot_does_not_replace_the_book(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 10))
    later = SLOT + 50

    view.receive("a", snapshot(truth, later, 10))
    view.receive("a", snapshot(truth, SLOT, 50))

    assert document(view).sequence == truth.update_id(later)


def test_what_the_collector_says_of_its_book_is_what_the_page_shows(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))
    old = AT_MS - 60_000

    def badge(said: CollectorView | None) -> tuple[str, str]:
        shown = view.document("1m", said, AT_MS)
        return shown.badge, shown.why

    assert badge(collector()) == ("synced", "")
    assert badge(None) == ("stale", "No collector of this folder keeps this book.")
    assert badge(collector(state="stale", reason="gap: 3 updates")) == (
        "resyncing", "gap: 3 updates",
    )  # fmt: skip
    assert badge(collector(old)) == ("stale", "The collector has written no status for 60 s.")
    assert badge(collector(state="stopped"))[0] == "stale"
    assert badge(collector()._replace(state="failed"))[0] == "stale"
    behind = collector(AT_MS - 6000, update_id=truth.update_id(SLOT) + 7)
    assert badge(behind) == ("stale", "7 updates behind the collector.")


def test_a_book_is_stale_soon_after_its_collector_was_killed(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))

    shown = view.document("1m", collector(AT_MS), AT_MS + 6_000)

    assert (shown.badge, shown.why) == (
        "stale", "Neither a change nor a status was written for 6 s.",
    )  # fmt: skip


def test_a_book_that_lacks_what_the_collector_had_a_while_ago_is_stale(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))
    update_id = truth.update_id(SLOT)

    def badge(after_s: int, theirs: int) -> str:
        at_ms = AT_MS + after_s * 1000
        return view.document("1m", collector(at_ms, update_id=theirs), at_ms).badge

    assert [badge(second, update_id) for second in (0, 60)] == ["synced", "synced"]
    badges = [badge(61 + second, update_id + 1 + second) for second in range(8)]
    assert badges == ["synced"] * 6 + ["stale"] * 2
    view.receive("a", snapshot(truth, SLOT + 50, 50))
    for slot in range(SLOT + 1, SLOT + 50):
        if (change := delta(truth, slot)) is not None:
            view.receive("a", change)
    assert badge(70, truth.update_id(SLOT + 49)) == "synced"


def test_a_book_is_stale_while_its_collector_cannot_write(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))

    shown = view.document("1m", collector()._replace(unwritten="the disk is full"), AT_MS)

    assert (shown.badge, shown.why) == ("stale", "The collector cannot write: the disk is full")


def test_a_quiet_book_and_a_late_status_are_no_reason_to_call_a_book_stale(truth: Book) -> None:
    view = MarketView("toy", LINK, RULES)
    view.receive("a", snapshot(truth, SLOT, 50))

    assert view.document("1m", collector(AT_MS + 59_000), AT_MS + 60_000).badge == "synced"
    assert view.document("1m", collector(AT_MS - 10_000), AT_MS + 1_000).badge == "synced"


def test_a_book_without_ids_is_continued_by_another_collector_if_its_own_ended() -> None:
    view = MarketView("toy", LINK, BookRules(begins="stream"))

    def shows(slot: str, bid: int, at_s: int) -> str | None:
        levels: dict[str, Any] = {"bids_raw": raw([(bid, 1)]), "asks_raw": raw([(90, 1)])}
        at_ns = AT_MS * MS_NS + at_s * 1000 * MS_NS
        view.receive(slot, events.snapshot(0, LINK, at_ns=at_ns, received_at_ns=at_ns, **levels))
        return document(view).bid

    assert (shows("a", 10, 0), view.book_slot) == ("10", "a")
    assert (shows("b", 11, 10), view.book_slot) == ("10", "a")
    assert document(view).book_ms == AT_MS, "what another collector recorded is no change of it"
    assert (shows("b", 12, 20), view.book_slot) == ("12", "b")


def test_a_market_without_a_book_says_so() -> None:
    view = MarketView("toy", LINK, None)
    view.receive("a", events.trade(1, LINK, received_at_ns=AT_MS * MS_NS))

    shown = document(view)

    assert (shown.badge, shown.bid, shown.spread, shown.sequence) == ("no book", None, None, None)
    assert [row.id for row in shown.trades] == ["1"]


def test_without_ids_only_one_collectors_changes_are_applied() -> None:
    view = MarketView("toy", LINK, BookRules(begins="stream"))
    whole: dict[str, Any] = {
        "bids_raw": raw([(10, 1), (9, 1)]),
        "asks_raw": raw([(12, 1), (13, 1)]),
    }
    view.receive("a", events.snapshot(0, symbol=LINK, at_ns=1, **whole))
    change = events.delta(None, None, LINK, at_ns=2, bids_raw=raw([(10, 5)]))

    view.receive("b", replace(change, bids_raw=raw([(10, 7)])))
    view.receive("a", change)
    view.receive("a", events.delta(None, None, LINK, at_ns=3, bids_raw=raw([(5, 1)])))

    bids = document(view).book.bids
    assert bids == [("10", "5"), ("9", "1")], "levels beyond the snapshot's last are not known"


def test_a_fetched_book_without_ids_is_not_begun_from() -> None:
    view = MarketView("toy", LINK, BookRules(begins="stream"))

    view.receive("a", events.snapshot(0, LINK, source="rest", bids_raw=raw([(10, 1)])))

    assert document(view).badge == "resyncing"


def test_damaged_levels_leave_the_book_stale() -> None:
    view = MarketView("toy", LINK, RULES)

    view.receive("a", events.snapshot(1, LINK, bids_raw=Raw(b'[["x","1"]]')))

    assert document(view).badge == "resyncing"


@given(st.permutations(range(80)), st.sets(st.integers(0, 79)))
def test_the_tape_has_the_newest_trades_once(order: list[int], twice: set[int]) -> None:
    view = MarketView("toy", LINK, None)
    for number in order:
        for slot in "ab" if number in twice else "a":
            view.receive(slot, events.trade(number, LINK, at_ns=number))

    newest = sorted(order, reverse=True)[:MOST_TRADES]
    assert [row.id for row in document(view).trades] == [str(each) for each in newest]


def test_the_candle_continues_from_what_was_read_and_counts_no_trade_twice() -> None:
    view = MarketView("toy", LINK, None)
    minute = Interval.parse("1m")
    now_ms = minute.open_of(AT_MS) + 30_000
    trades = [events.trade(n, LINK, at_ns=(now_ms + n) * MS_NS) for n in range(6)]
    series = CandleSeries(minute)
    series.add(
        Traded(each.at_ns, each.id, each.price_text, each.quantity_text) for each in trades[:4]
    )
    view.chart("1m", series, {2, 3})

    for each in trades[2:]:
        view.receive("a", each)

    candle = document(view, now_ms).candle
    assert candle is not None
    assert (candle.at_ms, candle.volume) == (minute.open_of(now_ms), "6")
    assert document(view, now_ms + 60_000).candle is None, "the next one has no trade yet"


def test_a_candle_that_lacks_its_first_trades_is_not_shown() -> None:
    view = MarketView("toy", LINK, None)
    minute = Interval.parse("1m")
    now_ms = minute.open_of(AT_MS)
    view.chart("1m", CandleSeries(minute), (), since_ms=now_ms + 60_000)

    for number, at_ms in enumerate((now_ms, now_ms + 60_000)):
        view.receive("a", events.trade(number, LINK, at_ns=at_ms * MS_NS))

    assert document(view, now_ms + 30_000).candle is None
    assert document(view, now_ms + 60_000).candle is not None


def test_candles_of_intervals_that_nobody_asks_for_are_not_kept() -> None:
    view = MarketView("toy", LINK, None)
    series = CandleSeries(Interval.parse("1s"))
    view.chart("1s", series, ())

    for second in range(100):
        view.receive("a", events.trade(second, LINK, at_ns=(AT_MS + 1000 * second) * MS_NS))
        view.document("1m", None, AT_MS + 1000 * second)

    assert len(series.rows()) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.integers(0, 500))
def test_trades_and_candles_are_those_of_the_exchange(market: Market, after: int) -> None:
    first = market.id_at(AT_MS) + after
    trades = market.trades(first, 60)
    view = MarketView("toy", LINK, None)
    minute = Interval.parse("1m")
    view.chart("1m", CandleSeries(minute), ())
    for each in trades:
        view.receive(
            "a",
            events.trade(
                each.id, LINK, at_ns=each.at_ms * MS_NS, price_text=str(each.price),
                quantity_text=str(each.quantity),
            ),
        )  # fmt: skip

    shown = document(view, trades[-1].at_ms)

    assert [row.id for row in shown.trades] == [str(each.id) for each in trades[:-51:-1]]
    open_ms = minute.open_of(trades[-1].at_ms)
    inside = [each for each in trades if each.at_ms >= open_ms]
    assert shown.candle is not None
    assert shown.candle.volume == str(sum(each.quantity for each in inside))
    assert shown.candle.high == str(max(each.price for each in inside))
    assert shown.candle.close == str(inside[-1].price)
