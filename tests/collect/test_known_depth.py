"""How far down a book is known."""

from decimal import Decimal

from penstock.collect.known_depth import KnownDepth
from penstock.market.events import BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook


def levels(*prices: str) -> list[LevelText]:
    return [(price, "1") for price in prices]


def begun(bids: list[LevelText], asks: list[LevelText]) -> BookSync:
    sync = BookSync()
    assert sync.join(
        BookSnapshot(
            exchange="toy", symbol=Symbol("BTC", "USDT"), received_at_ns=1, update_id=1,
            bids_raw=write_levels(bids), asks_raw=write_levels(asks),
        )
    )  # fmt: skip
    return sync


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
    assert sync.book is not None
    sync.book.apply(levels("9.5", "8"), levels("13"))

    KnownDepth(depth=3).forget_beyond(sync)
    assert len(sync.book) == 7, "the snapshot was the whole book: all is known"
    KnownDepth(depth=2).forget_beyond(sync)
    assert sync.book.texts() == (levels("10", "9.5", "9"), levels("11", "12"))


def test_a_book_that_began_from_no_snapshot_or_in_its_stream_is_known_as_it_is() -> None:
    known_depth, frames = KnownDepth(depth=1), BookRules(begins="frame", depth=1)
    for sync in (BookSync(), BookSync(keep_levels=False), StreamedBook(frames)):
        assert known_depth.ends(sync) == (None, None)
        assert not known_depth.nears(sync)
        assert not known_depth.left(sync)
        known_depth.forget_beyond(sync)


def test_the_newest_snapshot_counts_whichever_book_brought_it() -> None:
    book, shadow = begun(levels("10"), levels("11")), begun(levels("8"), levels("9"))

    book.continue_from(shadow)

    assert KnownDepth(depth=1).ends(book) == (Decimal(8), Decimal(9))


def test_a_price_among_the_last_fifth_of_the_levels_nears_the_end_of_the_known_depth() -> None:
    def judged(bid: str, ask: str) -> tuple[bool, bool]:
        bids, asks = levels("10", "9", "8", "7", "6"), levels("11", "12", "13", "14", "15")
        sync, known_depth = begun(bids, asks), KnownDepth(depth=5)
        assert sync.book is not None
        sync.book.load_plain(levels(bid) if bid else [], levels(ask) if ask else [])
        return known_depth.nears(sync), known_depth.left(sync)

    assert judged("7", "14") == (False, False)
    assert judged("6", "11") == judged("10", "15") == (True, False)
    assert judged("5", "11") == judged("10", "16") == (True, True)
    assert judged("", "") == (False, False)
