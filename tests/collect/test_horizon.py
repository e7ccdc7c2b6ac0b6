"""How far down a book is known."""

from decimal import Decimal

from penstock.collect.horizon import Horizon
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
    ends = Horizon(depth=2).ends(begun(levels("10", "9.5"), levels("11", "12")))

    known = ends.known((levels("9.6", "9.50", "9.4"), levels("11.5", "12.0", "12.1")))

    assert known == (levels("9.6", "9.50"), levels("11.5", "12.0"))
    assert ends.known((levels("9"), levels("13"))) == ([], [])


def test_a_snapshot_that_ended_by_itself_hides_nothing() -> None:
    ends = Horizon(depth=3).ends(begun(levels("10", "9"), levels("11", "12", "13")))

    known = ends.known((levels("8", "1"), levels("12", "14")))

    assert known == (levels("8", "1"), levels("12"))


def test_what_is_beyond_the_end_is_not_kept_for_ever() -> None:
    sync = begun(levels("10", "9"), levels("11", "12"))
    assert sync.book is not None
    sync.book.apply(levels("9.5", "8"), levels("13"))

    Horizon(depth=3).forget_beyond(sync)
    assert len(sync.book) == 7, "the snapshot was the whole book: all is known"
    Horizon(depth=2).forget_beyond(sync)
    assert sync.book.texts() == (levels("10", "9.5", "9"), levels("11", "12"))


def test_a_book_that_began_from_no_snapshot_or_in_its_stream_is_known_as_it_is() -> None:
    horizon, frames = Horizon(depth=1), BookRules(begins="frame", depth=1)
    for sync in (BookSync(), BookSync(keep_levels=False), StreamedBook(frames)):
        assert horizon.ends(sync) == (None, None)
        assert not horizon.nears(sync)
        assert not horizon.left(sync)
        horizon.forget_beyond(sync)


def test_the_newest_snapshot_counts_whichever_book_brought_it() -> None:
    book, shadow = begun(levels("10"), levels("11")), begun(levels("8"), levels("9"))

    book.continue_from(shadow)

    assert Horizon(depth=1).ends(book) == (Decimal(8), Decimal(9))


def test_a_price_among_the_last_fifth_of_the_levels_nears_the_horizon() -> None:
    def look(bid: str, ask: str) -> tuple[bool, bool]:
        bids, asks = levels("10", "9", "8", "7", "6"), levels("11", "12", "13", "14", "15")
        sync, horizon = begun(bids, asks), Horizon(depth=5)
        assert sync.book is not None
        sync.book.load_plain(levels(bid) if bid else [], levels(ask) if ask else [])
        return horizon.nears(sync), horizon.left(sync)

    assert look("7", "14") == (False, False)
    assert look("6", "11") == look("10", "15") == (True, False)
    assert look("5", "11") == look("10", "16") == (True, True)
    assert look("", "") == (False, False)
