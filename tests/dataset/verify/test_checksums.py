"""A book with checksums that does not fit them is found, unless the collector noticed it."""

from tests.events import BTC, delta, snapshot

from penstock.books.rules import BookRules, Checksum
from penstock.dataset.verify.books import BookCheck
from penstock.market.events import Disconnect, Event
from penstock.market.levels import write_levels
from penstock.storage.log.keys import Stream

STREAM = Stream("toy", "book_deltas", "btc_usdt")
CHECKSUM = Checksum(1, str, lambda bids, asks: 11 if bids and asks else 0)
RULES = BookRules(begins="stream", depth=10, checksum=CHECKSUM)


def frames(wrong: int | None = None) -> list[Event]:
    """A book that the stream begins, and ten changes; one of them may have a wrong checksum."""
    bids, asks = write_levels([("9.0", "1.0")]), write_levels([("11.0", "1.0")])
    found: list[Event] = [
        snapshot(0, source="live", checksum=11, received_at_ns=1, bids_raw=bids, asks_raw=asks)
    ]
    for number in range(1, 11):
        bids = write_levels([("9.0", f"{number}.0")])
        checksum = 99 if number == wrong else 11
        found.append(delta(None, None, received_at_ns=1 + number, bids_raw=bids, checksum=checksum))
    return found


def marker(at_ns: int) -> Event:
    return Disconnect(
        exchange="toy",
        symbol=BTC,
        received_at_ns=at_ns,
        channels=("book_deltas",),
        reason="checksum",
        cause="book",
    )


def found(events: list[Event]) -> list[str]:
    return [each.problem for each in BookCheck(STREAM, RULES).run(events)]


def test_a_book_that_fits_its_checksums_has_no_findings() -> None:
    assert found([*frames(), *frames()]) == []


def test_a_change_that_does_not_fit_its_checksum_is_found() -> None:
    (problem,) = found([*frames(5), *frames()])
    assert problem.startswith("the book is wrong after this change")


def test_what_the_collector_noticed_is_no_finding() -> None:
    assert found([*frames(5), marker(20), *frames()]) == []
