"""Books rebuilt from records: as they were live, and stale where they were."""

from collections.abc import Sequence

from msgspec import Raw
from tests import events

from penstock.market.codec import encode
from penstock.market.events import Disconnect, Event
from penstock.playback.books import BookFeed, RebuiltBook
from penstock.storage.log import Received
from penstock.storage.log.keys import stream_of

SECOND = 1_000_000_000
NONE = Raw(b"[]")


def levels(*pairs: tuple[str, str]) -> Raw:
    return Raw(("[" + ",".join(f'["{price}","{size}"]' for price, size in pairs) + "]").encode())


def received(*made: Event) -> list[Received]:
    return [
        Received(event.received_at_ns, "a", number, str(stream_of(event)), encode(event))
        for number, event in enumerate(made)
    ]


def books(*made: Event, every_s: float = 0.0, depth: int | None = None) -> list[RebuiltBook]:
    feed = BookFeed(every_s, depth)
    return [*feed.add(received(*made)), *feed.rest()]


def seen(found: Sequence[RebuiltBook]) -> list[tuple[str, int, list[tuple[str, str]]]]:
    return [(each.state, each.update_id, [(p, q) for p, q in each.bids]) for each in found]


def delta(first: int, at_ns: int, *bids: tuple[str, str]) -> Event:
    return events.delta(
        first, first, exchange="binance", received_at_ns=at_ns, bids_raw=levels(*bids)
    )


def snapshot(update_id: int, at_ns: int, *bids: tuple[str, str]) -> Event:
    return events.snapshot(
        update_id, exchange="binance", received_at_ns=at_ns, bids_raw=levels(*bids),
        asks_raw=levels(("9", "1")),
    )  # fmt: skip


def test_a_numbered_book_joins_its_snapshot_and_follows_its_deltas() -> None:
    found = books(
        delta(11, 1, ("2", "5")),
        snapshot(10, 2, ("1", "7")),
        delta(12, 3, ("2", "0"), ("3", "1")),
        events.trade(1, exchange="binance", received_at_ns=4),
        snapshot(12, 5, ("3", "1")),  # of a book that goes on
    )

    assert [each.state for each in found] == ["syncing", "synced", "synced"]
    assert seen(found)[1:] == [
        ("synced", 11, [("2", "5"), ("1", "7")]),
        ("synced", 12, [("3", "1"), ("1", "7")]),
    ]
    assert found[-1].received_at_ns == 3
    assert [(price, size) for price, size in found[-1].asks] == [("9", "1")]


def test_a_lost_update_and_a_disconnect_make_it_stale() -> None:
    lost = Disconnect(
        exchange="binance", symbol=events.BTC, received_at_ns=6, channels=("book_deltas",),
        reason="gone",
    )  # fmt: skip
    elsewhere = Disconnect(
        exchange="binance", symbol=events.BTC, received_at_ns=5, channels=("trades",), reason="x"
    )
    found = books(
        delta(10, 1),
        snapshot(10, 2, ("1", "7")),
        delta(13, 3),
        snapshot(13, 4, ("2", "2")),
        elsewhere,
        lost,
    )

    states = [(each.state, each.reason) for each in found]
    assert states[1] == ("synced", "")
    assert states[2] == ("stale", "gap: 2 updates after 10 were lost")
    assert states[3] == ("synced", "")
    assert states[4] == ("stale", "gone")
    assert len(states) == 5


def test_at_an_interval_only_the_books_that_changed_are_emitted() -> None:
    made = [snapshot(10, 0, ("1", "7")), *(delta(10 + n, n * SECOND // 4) for n in range(1, 9))]

    found = books(*made, every_s=1.0)

    assert [each.received_at_ns * 4 // SECOND for each in found] == [3, 7, 8]
    assert [each.update_id for each in found] == [13, 17, 18]


def test_books_are_cut_to_a_depth() -> None:
    found = books(delta(10, 1), snapshot(10, 2, ("3", "1"), ("2", "1"), ("1", "1")), depth=2)

    assert [each[0] for each in found[-1].bids] == ["3", "2"]


def test_of_a_whole_book_a_copy_that_was_recorded_changes_nothing() -> None:
    def whole(at_ns: int, received_at_ns: int, *bids: tuple[str, str]) -> Event:
        return events.snapshot(
            0, exchange="upbit", at_ns=at_ns, received_at_ns=received_at_ns,
            bids_raw=levels(*bids), asks_raw=levels(("9", "1")),
        )  # fmt: skip

    found = books(whole(1, 1, ("1", "1"), ("0.5", "1")), whole(1, 2, ("1", "1")), whole(2, 3))

    assert [each.received_at_ns for each in found] == [1, 3]


def test_an_exchange_that_is_not_known_has_whole_books() -> None:
    found = books(events.snapshot(0, received_at_ns=1, bids_raw=levels(("1", "1"))))

    assert seen(found) == [("synced", 0, [("1", "1")])]
