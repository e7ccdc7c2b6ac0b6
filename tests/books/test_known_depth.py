"""How far down a book is known."""

from decimal import Decimal
from math import inf

import pytest
from tests import events

from penstock.books.known_depth import KnownDepth
from penstock.books.rules import BookRules
from penstock.books.sequenced import SequencedBook
from penstock.books.whole import WholeBook
from penstock.market.events import BookSnapshot
from penstock.market.levels import LevelText, write_levels


def levels(*prices: str) -> list[LevelText]:
    return [(price, "1") for price in prices]


def begun(bids: list[LevelText], asks: list[LevelText]) -> SequencedBook:
    sync = SequencedBook()
    assert sync.begin(snapshot(bids, asks))
    return sync


def snapshot(bids: list[LevelText], asks: list[LevelText]) -> BookSnapshot:
    return events.snapshot(1, bids_raw=write_levels(bids), asks_raw=write_levels(asks))


def test_levels_below_the_end_of_a_full_snapshot_are_not_known() -> None:
    ends = KnownDepth(depth=2).ends(begun(levels("10", "9.5"), levels("11", "12")))

    known = ends.known((levels("9.6", "9.50", "9.4"), levels("11.5", "12.0", "12.1")))

    assert known == (levels("9.6", "9.50"), levels("11.5", "12.0"))
    assert ends.known((levels("9"), levels("13"))) == ([], [])


def test_a_snapshot_that_ended_by_itself_hides_nothing() -> None:
    ends = KnownDepth(depth=3).ends(begun(levels("10", "9"), levels("11", "12", "13")))

    known = ends.known((levels("8", "1"), levels("12", "14")))

    assert known == (levels("8", "1"), levels("12"))


def test_what_is_beyond_the_end_is_not_kept_for_ever() -> None:
    sync = begun(levels("10", "9"), levels("11", "12"))
    assert sync.levels is not None
    sync.levels.apply_raw(write_levels(levels("9.5", "8")), write_levels(levels("13")))

    sync.forget_beyond(3)
    assert len(sync.levels) == 7, "the snapshot was the whole book: all is known"
    sync.forget_beyond(2)
    assert sync.levels.texts() == (levels("10", "9.5", "9"), levels("11", "12"))


def test_a_book_that_began_from_no_snapshot_or_in_its_stream_is_known_as_it_is() -> None:
    known_depth, frames = KnownDepth(depth=1), BookRules(begins="frame", depth=1)
    for sync in (SequencedBook(), SequencedBook(keep_levels=False), WholeBook(frames)):
        assert known_depth.ends(sync) == (None, None)
        assert known_depth.distance(sync) == inf
        assert not known_depth.left(sync)
        sync.forget_beyond(1)


def test_the_newest_snapshot_counts_also_if_an_audit_brought_it() -> None:
    book = begun(levels("10", "9"), levels("11", "12"))
    audit = book.audit(depth=1)
    audit.receive(snapshot(levels("10"), levels("11")))
    audit.finish(book)

    assert KnownDepth(depth=1).ends(book) == (Decimal(10), Decimal(11))


def test_a_price_among_the_last_fifth_of_the_levels_nears_the_end_of_the_known_depth() -> None:
    def judged(bid: str, ask: str) -> tuple[bool, bool]:
        bids, asks = levels("10", "9", "8", "7", "6"), levels("11", "12", "13", "14", "15")
        sync, known_depth = begun(bids, asks), KnownDepth(depth=5)
        assert sync.levels is not None
        sync.levels.load_plain(levels(bid) if bid else [], levels(ask) if ask else [])
        return known_depth.distance(sync) == 0, known_depth.left(sync)

    assert judged("7", "14") == (False, False)
    assert judged("6", "11") == judged("10", "15") == (True, False)
    assert judged("5", "11") == judged("10", "16") == (True, True)
    assert judged("", "") == (False, False)


def test_the_distance_from_the_end_of_the_known_depth_is_that_of_the_nearer_side() -> None:
    known_depth = KnownDepth(depth=5)
    bids, asks = levels("100", "99", "98", "97", "90"), levels("101", "102", "103", "104", "105")

    assert known_depth.distance(begun(bids, asks)) == pytest.approx(105 / 101 - 1)
    assert known_depth.distance(begun(bids, asks[:4])) == pytest.approx(0.1), (
        "the asks are known to 0"
    )
