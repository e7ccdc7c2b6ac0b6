"""A book begun in its stream: synced only while everything that can be checked agrees."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.rules import BookRules, Checksum
from penstock.books.streamed import StreamedBook
from penstock.books.top_book import TopBook
from penstock.books.whole import WholeBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol

A = Symbol("A", "USD")
Levels = Sequence[LevelText]


# A toy of a checksum: all that the two best levels a side say.
WEIGH = Checksum(2, str, lambda bids, asks: crc32(f"{bids} {asks}".encode()))
CHECKED = BookRules(begins="stream", depth=3, checksum=WEIGH)
UNCHECKED = BookRules(begins="stream")


def snapshot(bids: Levels, asks: Levels, checksum: int | None = None) -> BookSnapshot:
    sides: dict[str, Any] = {"bids_raw": write_levels(bids), "asks_raw": write_levels(asks)}
    return events.snapshot(0, A, at_ns=5, checksum=checksum, **sides)


def delta(bids: Levels, asks: Levels, checksum: int | None = None) -> BookDelta:
    sides: dict[str, Any] = {"bids_raw": write_levels(bids), "asks_raw": write_levels(asks)}
    return events.delta(None, None, A, at_ns=7, checksum=checksum, **sides)


def proof(bids: Levels, asks: Levels) -> int | None:
    book = TopBook(3, WEIGH)
    book.load_plain(bids, asks)
    return book.checksum()


BIDS, ASKS = [("9.0", "1.0"), ("8.0", "1.0")], [("10.0", "2.0")]
GOOD = snapshot(BIDS, ASKS, proof(BIDS, ASKS))


def test_it_begins_with_a_snapshot_whose_checksum_agrees() -> None:
    book = StreamedBook(CHECKED)
    assert (book.state, book.reason) == ("syncing", "no snapshot yet")
    book.begin(GOOD)

    assert (book.state, book.reason, book.at_ns) == ("synced", "", 5)
    assert book.levels is not None
    assert book.levels.texts() == (BIDS, ASKS)


def test_a_change_whose_checksum_agrees_is_believed() -> None:
    book = StreamedBook(CHECKED)
    book.begin(GOOD)
    book.receive(delta([("9.5", "4.0")], [], proof([*BIDS, ("9.5", "4.0")], ASKS)))

    assert (book.state, book.at_ns, book.resyncs) == ("synced", 7, 0)
    assert not book.wants_snapshot


@pytest.mark.parametrize("checksum", [0, None])
def test_a_checksum_that_differs_or_lacks_makes_it_stale_until_it_is_begun_again(
    checksum: int | None,
) -> None:
    book = StreamedBook(CHECKED)
    book.begin(GOOD)
    book.receive(delta([("9.5", "4.0")], [], checksum))
    assert (book.state, book.wants_snapshot, book.resyncs) == ("stale", True, 1)
    assert "checksum" in book.reason
    book.receive(delta([], [], proof(BIDS, ASKS)))
    assert book.state == "stale", "a change cannot mend it"

    book.begin(GOOD)
    assert (book.state, book.wants_snapshot, book.resyncs) == ("synced", False, 1)


def test_a_snapshot_that_is_wrong_begins_nothing() -> None:
    book = StreamedBook(CHECKED)
    book.begin(snapshot(BIDS, ASKS, 1))

    assert (book.state, book.wants_snapshot) == ("stale", True)


def test_a_change_before_any_snapshot_means_nothing() -> None:
    book = StreamedBook(CHECKED)
    book.receive(delta(BIDS, ASKS, proof(BIDS, ASKS)))

    assert (book.state, book.wants_snapshot) == ("syncing", False)


def test_without_a_checksum_a_crossed_book_gives_itself_away() -> None:
    book = StreamedBook(UNCHECKED)
    book.begin(snapshot(BIDS, ASKS))
    book.receive(delta([("9.9", "1.0")], []))
    assert book.state == "synced"
    book.receive(delta([("10.0", "1.0")], []))

    assert (book.state, book.wants_snapshot) == ("stale", True)
    assert "crossed" in book.reason


def test_without_a_checksum_a_change_that_comes_late_is_not_believed() -> None:
    book = StreamedBook(UNCHECKED)
    book.begin(snapshot(BIDS, ASKS))
    book.receive(delta([("9.0", "3.0")], []))
    book.receive(msgspec.structs.replace(delta([("9.0", "2.0")], []), at_ns=6))

    assert (book.state, book.reason) == ("stale", "out of order: a change of 6 after one of 7")
    assert book.wants_snapshot


def test_while_disconnected_it_is_stale_and_asks_for_nothing() -> None:
    book = StreamedBook(UNCHECKED)
    book.begin(snapshot(BIDS, ASKS))
    book.interrupt("disconnected: cut")

    assert (book.state, book.wants_snapshot, book.reason) == ("stale", False, "disconnected: cut")


def test_where_every_frame_is_a_whole_book_the_newest_counts() -> None:
    book = WholeBook(BookRules(begins="frame"))
    states = []
    for sides in ((BIDS, ASKS), (ASKS, BIDS), (BIDS, [])):
        book.begin(snapshot(*sides))
        states.append(book.state)

    assert states == ["synced", "stale", "synced"]
    assert book.levels is not None
    assert book.levels.texts() == (BIDS, [])


def test_without_levels_it_believes_what_it_is_told() -> None:
    book = StreamedBook(CHECKED, keep_levels=False)
    book.begin(snapshot(BIDS, ASKS, 1))
    book.receive(delta(BIDS, ASKS, 1))

    assert (book.state, book.levels, book.at_ns) == ("synced", None, 7)


prices = st.integers(1, 9)
sizes = st.integers(0, 3)
updates = st.lists(
    st.tuples(st.lists(st.tuples(prices, sizes), max_size=3), st.booleans()), max_size=20
)


@given(updates)
def test_what_is_shown_as_synced_is_the_exchanges_book(
    updates: list[tuple[list[tuple[int, int]], bool]],
) -> None:
    """Of a book no deeper than the checksum sees, a lost change is noticed at the next one."""
    rules = BookRules(begins="stream", depth=2, checksum=WEIGH)
    truth, book = TopBook(2, WEIGH), StreamedBook(rules)
    book.begin(snapshot([], [], truth.checksum()))
    for rows, lost in updates:
        levels = [(f"{price}.0", f"{size}.0") for price, size in rows]
        truth.apply_plain(levels, [])
        if lost:
            continue
        if book.wants_snapshot:
            bids, asks = truth.texts()
            book.begin(snapshot(bids, asks, truth.checksum()))
            continue
        book.receive(delta(levels, [], truth.checksum()))
        if book.state == "synced":
            assert book.levels is not None
            assert book.levels.texts() == truth.texts()
