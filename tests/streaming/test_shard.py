"""The shard: connections come and go, and what they bring comes once and is all there."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from penstock.books.commands import FetchSnapshot
from penstock.books.events import PriceLeft
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Ticker, Trade
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import Close, Command, Open, Send, Subscription
from penstock.streaming.shard import SHARD, Shard
from penstock.streaming.shard_connection import Plan

from .toys import (
    SECOND_NS,
    A,
    B,
    NumberedDialect,
    StampingDialect,
    StreamedDialect,
    frame,
    rest_book,
    truth,
)

QUICK = Plan(
    rotate_after_s=1000.0,
    overlap_s=2.0,
    takeover_timeout_s=20.0,
    reconnect=Backoff(first_s=1.0, longest_s=8.0, jitter=0.0),
    rotate_again=Backoff(first_s=10.0, longest_s=40.0, jitter=0.0),
)
TRADES = Subscription("trades", (A, B))
BOOKS = Subscription("book_deltas", (A,))


@dataclass
class Bench:
    """A shard, its clock, and everything it ever asked for."""

    shard: Shard
    now_s: float = 0.0
    asked: list[tuple[int, Command]] = field(default_factory=list)

    @property
    def now_ns(self) -> int:
        return round(self.now_s * SECOND_NS)

    def asks(self) -> list[tuple[int, Command]]:
        """What is asked for since the last call, but to be woken."""
        fresh = [each for each in self.shard.take_commands() if type(each[1]).__name__ != "WakeAt"]
        self.asked += fresh
        return fresh

    def pass_s(self, seconds: float) -> None:
        """Let time pass, waking everybody ten times a second."""
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            for number in (SHARD, *self.shard.members):
                self.shard.woken(number, self.now_ns)

    def bring(self, number: int, *frames: bytes) -> None:
        self.shard.received_many(number, frames, [self.now_ns] * len(frames))

    def open(self, number: int) -> None:
        """Open a connection's socket and let the exchange grant everything it asks for."""
        self.shard.opened(number, self.now_ns)
        for _ in range(20):
            for member, command in self.asks():
                if isinstance(command, Send) and member == number:
                    self.bring(member, frame("ack", int(command.text.partition(":")[0])))
            if self.shard.members[number].connection.settled:
                return
            self.pass_s(0.1)
        pytest.fail("it does not settle")

    def trades(self) -> list[int]:
        return [each.id for each in self.shard.take_events() if isinstance(each, Trade)]


def bench(
    *wanted: Subscription,
    plan: Plan = QUICK,
    dialect: type[NumberedDialect] = NumberedDialect,
) -> Bench:
    """A shard whose connections that are to stay are open."""
    shard = Shard("toy", dialect, wanted or (TRADES,), lambda: 0.0, plan)
    made = Bench(shard)
    shard.start(0)
    made.asks()
    for number in list(shard.members):
        made.open(number)
    made.asks()
    return made


def sends(asks: Sequence[tuple[int, Command]]) -> list[tuple[int, str]]:
    return [(number, each.text) for number, each in asks if isinstance(each, Send)]


def trades(*numbers: int) -> list[bytes]:
    return [frame("trade", "a_usdt", number) for number in numbers]


def test_one_connection_is_all_there_is_and_nothing_is_added_to_it() -> None:
    made = bench()
    made.bring(1, *trades(1, 2))

    assert (made.shard.state, list(made.shard.members), made.shard.primary.number) == (
        "connected",
        [1],
        1,
    )
    assert made.shard.primary.connection.events, "events stay where they are until they are taken"
    assert made.shard.waiting == 2
    assert made.trades() == [1, 2]
    assert not made.shard.deduplicator.enabled


def test_a_connection_is_replaced_before_it_is_too_old() -> None:
    made = bench()
    made.pass_s(999)
    assert made.asks() == []
    made.pass_s(1)

    assert made.asks() == [(2, Open())]
    assert made.shard.state == "rotating"
    made.open(2)
    made.pass_s(2)
    assert made.asks() == [(1, Close("old age"))]
    assert (made.shard.state, made.shard.primary.number) == ("connected", 2)
    made.shard.closed(1, "closed", made.now_ns)
    assert list(made.shard.members) == [2]
    assert made.shard.stats.rotations == {"old age": 1}
    assert not made.shard.stats.reconnects
    assert [each for each in made.shard.take_events() if isinstance(each, Disconnect)] == []


def test_an_announced_shutdown_opens_another_connection_before_the_old_one_is_closed() -> None:
    made = bench()
    made.bring(1, frame("closing"))
    assert made.asks() == [(2, Open())]
    made.bring(1, frame("closing"), *trades(1))
    assert made.asks() == [], "once is enough"
    made.open(2)
    made.bring(2, *trades(1, 2))
    made.pass_s(2.1)

    assert made.asks() == [(1, Close("the exchange announced its shutdown"))]
    made.bring(1, *trades(2, 3))
    assert made.trades() == [1, 2, 3], "what still comes on the old one counts"


def test_the_old_connection_stays_until_everything_it_brings_was_met_on_the_new_one() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(1, *trades(7), frame("trade", "b_usdt", 1))
    made.bring(2, *trades(7, 8))
    made.pass_s(5)
    assert Close not in [type(each) for _, each in made.asks()], "b_usdt was not met"
    made.bring(2, frame("trade", "b_usdt", 1))
    made.pass_s(0.3)

    assert made.asks() == [(1, Close("wanted"))]
    assert made.trades() == [7, 1, 8]


def test_an_old_connection_that_lags_is_waited_for() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(2, *trades(20, 21))
    for late in range(10, 20):  # what came before the new connection was there
        made.bring(1, *trades(late))
        made.pass_s(0.5)
        assert made.asks() == []
    made.bring(1, *trades(20))
    made.pass_s(0.3)

    assert made.asks() == [(1, Close("wanted"))]
    assert sorted(made.trades()) == list(range(10, 22))


def test_copies_that_come_after_the_old_connection_is_gone_are_known() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(1, *trades(1, 2, 3))
    made.bring(2, *trades(1))
    made.pass_s(2.1)
    made.shard.closed(1, "closed", made.now_ns)
    made.bring(2, *trades(2, 3, 4))
    assert made.trades() == [1, 2, 3, 4]
    assert made.shard.deduplicator.dropped == 3

    made.pass_s(11)
    assert not made.shard.deduplicator.enabled, "nobody looks for copies that cannot come"


def test_a_new_connection_that_cannot_be_had_is_given_up_and_tried_again_ever_more_slowly() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    opened_s = [made.now_s]
    for number in range(2, 6):
        made.shard.closed(number, "refused", made.now_ns)
        while not (asks := made.asks()) or asks[-1] == (number, Open()):
            made.pass_s(0.1)
            assert made.now_s < 500
        assert asks == [(number + 1, Open())]
        opened_s.append(made.now_s)

    waits = [round(b - a) for a, b in pairwise(opened_s)]
    assert waits == [10, 20, 40, 40]
    assert made.shard.primary.number == 1
    assert made.shard.primary.live
    assert made.shard.stats.given_up == {"refused": 4}
    assert not made.shard.stats.reconnects


def test_a_new_connection_that_never_brings_what_the_old_one_does_is_closed() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    for number in range(24):
        made.bring(1, *trades(number))
        made.pass_s(1)

    assert made.asks() == [(2, Close("given up"))]
    made.shard.closed(2, "closed", made.now_ns)
    assert (made.shard.state, made.shard.primary.number, list(made.shard.members)) == (
        "connected",
        1,
        [1],
    )
    assert made.shard.stats.given_up == {"it did not take over in time": 1}


def test_a_new_connection_that_is_told_to_go_too_is_given_up() -> None:
    made = bench()
    made.bring(1, frame("closing"))
    made.open(2)
    made.bring(2, frame("closing"))

    assert made.asks() == [(2, Close("the exchange announced its shutdown"))]
    assert (made.shard.primary.number, made.shard.state) == (1, "connected")
    made.shard.closed(2, "gone", made.now_ns)
    made.pass_s(10.1)
    assert made.asks() == [(3, Open())]


def test_a_socket_that_opens_after_it_was_given_up_is_closed() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.pass_s(22.1)
    assert made.asks() == [(2, Open()), (2, Close("given up"))]
    made.shard.opened(2, made.now_ns)

    assert made.asks() == [(2, Close("not wanted any more"))]
    made.shard.opened(9, made.now_ns)
    assert made.asks() == [(9, Close("not wanted any more"))]


def test_an_old_connection_that_is_cut_before_its_time_is_not_opened_again() -> None:
    made = bench()
    made.shard.rotate("wanted", made.now_ns)
    made.shard.closed(1, "cut", made.now_ns)
    assert made.asks() == [(2, Open())]
    assert (made.shard.state, made.shard.primary.number) == ("connecting", 2)
    assert [type(each) for each in made.shard.take_events()] == [Disconnect, Disconnect]
    made.open(2)
    made.pass_s(30)

    assert list(made.shard.members) == [2]
    assert Open() not in [each for _, each in made.asks()]


def test_the_only_connection_is_opened_again_and_its_loss_is_marked_for_each_symbol_once() -> None:
    shard = Shard("toy", NumberedDialect, [TRADES, BOOKS], lambda: 0.0, QUICK)
    shard.start(0)
    shard.closed(1, "refused", 1)
    assert shard.take_events() == [], "what was never there is not lost"
    made = Bench(shard, 1.1)
    shard.woken(1, made.now_ns)
    made.open(1)
    made.bring(1, *trades(1))
    shard.closed(1, "cut", made.now_ns)
    shard.closed(1, "cut again", made.now_ns)

    before, *markers = shard.take_events()
    assert isinstance(before, Trade)
    assert markers == [
        Disconnect(
            exchange="toy", symbol=symbol, received_at_ns=made.now_ns, channels=channels,
            reason="cut", since_ns=made.now_ns,
        )
        for symbol, channels in ((A, ("trades", "book_deltas")), (B, ("trades",)))
    ]  # fmt: skip
    assert shard.state == "reconnecting"
    assert shard.stats.reconnects == {"refused": 1, "cut": 1, "cut again": 1}


def test_an_end_that_was_wanted_is_marked_as_one_and_nothing_is_opened_again() -> None:
    made = bench()
    made.shard.stop()
    assert made.asks() == [(1, Close("stopped"))]
    made.shard.closed(1, "closed", made.now_ns)
    made.shard.stopped(made.now_ns)
    made.pass_s(5)

    assert {reason for *_, reason, _ in markers(made.shard)} == {"stopped"}
    assert made.asks() == []
    assert made.shard.state == "disconnected"


def test_with_redundancy_the_loss_of_a_connection_loses_nothing() -> None:
    made = bench(plan=Plan(redundancy=2, reconnect=QUICK.reconnect))
    assert list(made.shard.members) == [1, 2]
    made.bring(1, *trades(1, 2))
    made.bring(2, *trades(1, 2, 3))
    made.shard.closed(1, "cut", made.now_ns)
    made.bring(2, *trades(4))

    assert made.shard.primary.number == 2
    assert made.trades() == [1, 2, 3, 4]
    made.pass_s(1.1)
    assert made.asks() == [(1, Open())], "it comes back"
    made.open(1)
    made.bring(1, *trades(4, 5))
    assert made.trades() == [5]
    assert [type(each) for each in made.shard.take_events()] == []
    made.shard.closed(1, "cut", made.now_ns)
    made.shard.closed(2, "cut", made.now_ns)
    assert [type(each) for each in made.shard.take_events()] == [Disconnect, Disconnect]


def begun() -> Bench:
    """One connection with a numbered book that stands at 5."""
    made = bench(BOOKS)
    made.bring(1, frame("delta", "a_usdt", 4))
    assert made.asks() == [(1, FetchSnapshot(A, 0.0))]
    made.shard.snapshot_arrived(1, rest_book(A, 3), made.now_ns)
    made.bring(1, frame("delta", "a_usdt", 5))
    made.shard.take_events()
    return made


def shown(made: Bench) -> dict[str, str] | None:
    sync = made.shard.books[A]
    if sync.state != "synced" or sync.levels is None:
        return None
    return {str(price): str(quantity) for price, quantity in sync.levels.texts()[0]}


def test_a_numbered_book_is_handed_over_without_a_request() -> None:
    made = begun()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(2, frame("delta", "a_usdt", 7))
    made.pass_s(3)
    assert made.asks() == [], "6 is in neither yet"
    made.bring(1, frame("delta", "a_usdt", 6), frame("delta", "a_usdt", 7))
    made.pass_s(0.3)

    assert made.asks() == [(1, Close("wanted"))]
    made.shard.closed(1, "closed", made.now_ns)
    made.bring(2, frame("delta", "a_usdt", 8))
    assert shown(made) == truth(8)
    deltas = [each for each in made.shard.take_events() if isinstance(each, BookDelta)]
    assert sorted(each.final_update_id or 0 for each in deltas) == [6, 7, 8]


@pytest.mark.parametrize("lost", [True, False])
def test_a_book_that_cannot_be_handed_over_is_fetched(lost: bool) -> None:
    made = begun()
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(2, frame("delta", "a_usdt", 9))
    if lost:
        made.shard.closed(1, "cut", made.now_ns)
    else:
        made.pass_s(5.1)  # the old connection never gets there

    assert made.asks() == [(2, FetchSnapshot(A, 0.0))]
    made.shard.snapshot_arrived(2, rest_book(A, 9), made.now_ns)
    if lost:
        assert shown(made) == truth(9)


def test_how_often_a_book_began_again_is_not_forgotten_with_its_connection() -> None:
    made = begun()
    made.bring(1, frame("delta", "a_usdt", 9))
    made.shard.snapshot_arrived(1, rest_book(A, 9), made.now_ns)
    assert made.shard.books[A].resyncs == 1
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    for number in (1, 2):
        made.bring(number, frame("delta", "a_usdt", 10))
    made.pass_s(2.3)

    assert (made.shard.primary.number, made.shard.books[A].resyncs) == (2, 1)


def test_the_primary_connections_book_is_fetched_though_another_has_it() -> None:
    made = bench(BOOKS, plan=Plan(redundancy=2))
    for number in (2, 1):
        made.bring(number, frame("delta", "a_usdt", 4))
    assert made.asks() == [(1, FetchSnapshot(A, 0.0))], "one snapshot is for both"
    made.pass_s(30)
    assert made.asks() == []
    made.shard.snapshot_arrived(1, rest_book(A, 3), made.now_ns)
    made.bring(2, frame("delta", "a_usdt", 5))
    assert made.shard.members[2].synced_books == 1
    made.shard.book_event(A, PriceLeft(), made.now_ns)
    made.bring(1, frame("delta", "a_usdt", 5))

    assert made.asks() == [(1, FetchSnapshot(A, 0.0, lost=True))]


def test_a_book_without_numbers_comes_from_the_primary_and_begins_anew_with_the_next() -> None:
    made = bench(BOOKS, dialect=StreamedDialect)
    made.bring(1, frame("whole", "a_usdt", 3), frame("delta", "a_usdt", 4))
    made.shard.rotate("wanted", made.now_ns)
    made.open(2)
    made.bring(2, frame("whole", "a_usdt", 4), frame("delta", "a_usdt", 5))
    made.bring(1, frame("delta", "a_usdt", 5))
    made.bring(2, frame("delta", "a_usdt", 6))
    made.pass_s(2.1)
    made.bring(1, frame("delta", "a_usdt", 6))
    made.bring(2, frame("delta", "a_usdt", 7))

    told = made.shard.take_events()
    assert [type(each) for each in told] == [
        BookSnapshot, BookDelta, BookDelta, BookSnapshot, BookDelta,
    ]  # fmt: skip
    baseline = told[3]
    assert isinstance(baseline, BookSnapshot)
    assert {str(p): str(q) for p, q in baseline.bids} == truth(6)
    assert (baseline.exchange, baseline.at_ns) == ("toy", None), "nothing proves it"
    assert shown(made) == truth(7)


def test_what_has_no_key_comes_from_the_primary_connection_alone() -> None:
    tickers = Subscription("tickers", (A,))
    made, stamping = (
        bench(tickers, plan=Plan(redundancy=2), dialect=each)
        for each in (NumberedDialect, StampingDialect)
    )
    for each in (made, stamping):
        each.bring(2, frame("ticker", "a_usdt", "2"), frame("ticker", "a_usdt", "3"))
        each.bring(1, frame("ticker", "a_usdt", "1"), frame("ticker", "a_usdt", "2"))

    def told(each: Bench) -> list[str | None]:
        return [event.bid_text for event in each.shard.take_events() if isinstance(event, Ticker)]

    assert told(made) == ["1", "2"]
    assert told(stamping) == ["2", "3", "1"], "its exchange knows how to tell copies"


def test_a_symbol_is_added_and_removed_without_touching_the_others() -> None:
    made = begun()
    made.shard.add(Subscription("book_deltas", (B,)), made.now_ns)
    made.pass_s(0.3)
    assert sends(made.asks()) == [(1, "2:b_usdt@book_deltas")]
    made.bring(1, frame("ack", 2), frame("delta", "b_usdt", 1))
    assert made.asks() == [(1, FetchSnapshot(B, 0.0))]
    assert made.shard.books[A].state == "synced"
    made.shard.remove(Subscription("book_deltas", (B,)), made.now_ns)
    made.pass_s(0.3)

    assert sends(made.asks()) == [(1, "3:-b_usdt@book_deltas")]
    assert list(made.shard.books) == [A]
    made.shard.snapshot_arrived(1, rest_book(B, 1), made.now_ns)
    made.shard.snapshot_failed(1, B, made.now_ns)
    assert made.asks() == []
    assert shown(made) == truth(5)


def test_what_was_added_is_asked_for_on_every_later_connection() -> None:
    made = bench()
    made.shard.add(BOOKS, made.now_ns)
    made.shard.remove(Subscription("trades", (B,)), made.now_ns)
    made.shard.rotate("wanted", made.now_ns)
    made.shard.opened(2, made.now_ns)

    assert (2, "1:a_usdt@trades,a_usdt@book_deltas") in sends(made.asks())


def test_a_stream_is_subscribed_again_on_the_primary_connection() -> None:
    made = bench()
    made.shard.resubscribe("trades", A, made.now_ns)
    made.shard.resubscribe("tickers", A, made.now_ns)
    made.pass_s(1)

    assert sends(made.asks()) == [(1, "2:-a_usdt@trades"), (1, "3:a_usdt@trades")]


def test_connections_do_not_all_grow_old_at_once() -> None:
    draws = iter([0.0, 0.5, 0.9])
    lives_s = []
    for _ in range(3):
        shard = Shard("toy", NumberedDialect, [TRADES], lambda: next(draws), QUICK)
        shard.start(0)
        shard.opened(1, 0)
        assert shard.primary.rotate_at_ns is not None
        lives_s.append(shard.primary.rotate_at_ns / SECOND_NS)

    assert lives_s == [1000.0, 900.0, pytest.approx(820.0)]


def markers(shard: Shard) -> list[tuple[str, tuple[str, ...], str, int | None]]:
    return [
        (each.symbol.slug, each.channels, each.reason, each.since_ns)
        for each in shard.take_events()
        if isinstance(each, Disconnect)
    ]


def streaming(*wanted: Subscription, plan: Plan = QUICK) -> Bench:
    made = Bench(Shard("toy", NumberedDialect, wanted, lambda: 0.0, plan), 1.0)
    made.shard.start(made.now_ns)
    made.asks()
    made.open(1)
    return made


def test_a_connection_that_is_cut_while_the_new_one_has_nothing_yet_leaves_a_marker() -> None:
    made = streaming(TRADES)
    made.bring(1, *trades(1))
    last_message_ns = made.now_ns
    made.shard.rotate("on request", made.now_ns)
    made.asks()
    made.shard.opened(2, made.now_ns)
    made.pass_s(0.3)
    made.shard.closed(1, "cut", made.now_ns)

    assert made.shard.primary.number == 2
    assert markers(made.shard) == [
        (slug, ("trades",), "cut", last_message_ns) for slug in (A.slug, B.slug)
    ], "it is open, but the exchange has not said that it brings anything"


def test_a_stream_that_is_subscribed_again_leaves_a_marker_unless_another_brings_it() -> None:
    made = streaming(TRADES)
    made.bring(1, *trades(1))
    last_message_ns = made.now_ns
    made.pass_s(1)
    made.shard.resubscribe("trades", B, made.now_ns)
    assert markers(made.shard) == [(B.slug, ("trades",), "resubscribed", last_message_ns)]

    two = streaming(TRADES, plan=replace(QUICK, redundancy=2))
    two.open(2)
    two.shard.resubscribe("trades", B, two.now_ns)
    assert markers(two.shard) == []


def test_what_is_removed_and_what_is_stopped_leaves_markers() -> None:
    made = streaming(TRADES, BOOKS)
    last_message_ns = made.shard.primary.last_message_ns
    made.pass_s(1)
    made.shard.remove(Subscription("trades", (B,)), made.now_ns)
    assert markers(made.shard) == [(B.slug, ("trades",), "removed", last_message_ns)]
    made.shard.stop()
    made.shard.stopped(made.now_ns)
    assert markers(made.shard) == [(A.slug, ("trades", "book_deltas"), "stopped", last_message_ns)]


@pytest.mark.parametrize("redundancy", [1, 2])
def test_what_arrives_while_connections_are_closed_comes_before_the_marker(redundancy: int) -> None:
    made = streaming(TRADES, plan=replace(QUICK, redundancy=redundancy))
    if redundancy > 1:
        made.open(2)
    made.shard.take_events()
    made.shard.stop()
    made.pass_s(1)
    made.bring(1, *trades(1))
    made.shard.closed(1, "closed", made.now_ns)
    if redundancy > 1:
        made.shard.closed(2, "closed", made.now_ns)
    made.shard.stopped(made.now_ns)

    *received, last = made.shard.take_events()
    assert received
    assert not any(isinstance(each, Disconnect) for each in received[: len(trades(1))])
    assert isinstance(last, Disconnect)
    assert last.since_ns == made.now_ns


def test_a_shard_that_was_never_open_is_stopped_without_a_marker() -> None:
    shard = Shard("toy", NumberedDialect, [TRADES], lambda: 0.0, QUICK)
    shard.start(0)
    shard.stop()
    shard.stopped(1)
    assert markers(shard) == []


def test_a_book_without_numbers_that_is_begun_again_leaves_a_marker() -> None:
    made = Bench(Shard("toy", StreamedDialect, [BOOKS], lambda: 0.0, QUICK), 1.0)
    made.shard.start(made.now_ns)
    made.asks()
    made.open(1)
    made.bring(1, frame("whole", A.slug, 5))
    made.bring(1, frame("delta", A.slug, 4))

    ((slug, channels, reason, _),) = markers(made.shard)
    assert (slug, channels) == (A.slug, ("book_deltas",))
    assert reason.startswith("out of order")


def test_a_stream_that_is_refused_is_not_lost_with_its_connection_and_covers_no_other() -> None:
    made = streaming(TRADES)
    made.shard.add(Subscription("tickers", (A,)), made.now_ns)
    made.pass_s(1)
    (request,) = [each.text for _, each in made.asks() if isinstance(each, Send)]
    made.bring(1, frame("refused", int(request.partition(":")[0])))
    assert ("tickers", A) not in made.shard.primary.connection.carried()
    made.shard.closed(1, "cut", made.now_ns)

    assert [channels for _, channels, *_ in markers(made.shard)] == [("trades",), ("trades",)]
