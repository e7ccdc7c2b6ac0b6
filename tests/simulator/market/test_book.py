"""A book looked at anywhere equals the book that its deltas lead to, and is never crossed."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.simulator.market.book import Book, Delta, Level
from penstock.simulator.market.market import Listing, Market, library_of
from penstock.simulator.market.rng import draws

DAY = 86_400_000
LISTED = 1_502_928_000_000
NOW = 1_784_000_000_000
WHOLE = 30_000
"""More levels than any side has."""
LISTINGS = {
    "busiest": Listing("BTC", "USDT", 2, 5, 6_000_000, 3600, LISTED),
    "busy": Listing("BTC", "USDT", 2, 5, 6_000_000, 600, LISTED),
    "middling": Listing("ETH", "BTC", 6, 2, 50_000, 60, LISTED),
    "quiet": Listing("LINK", "USDT", 4, 2, 140_000, 6, LISTED),
    "coarse": Listing("SHIB", "USDT", 8, 0, 1_234, 6, LISTED, quantity_factor=20_000),
}

slots = st.integers(LISTED // 100, NOW // 100)
any_book = pytest.mark.parametrize("name", LISTINGS)


@cache
def market_of(name: str) -> Market:
    return Market(LISTINGS[name], 7, library_of(LISTINGS[name]))


def book_of(name: str) -> Book:
    """A book that remembers nothing of other tests."""
    return Book(market_of(name))


class Copy:
    """A reader's copy of a book, kept as exchanges tell readers to."""

    def __init__(self, update_id: int, bids: list[Level], asks: list[Level]) -> None:
        self.update_id = update_id
        self.bids, self.asks = dict(bids), dict(asks)

    def apply(self, delta: Delta) -> None:
        assert delta.first_update_id <= self.update_id + 1 <= delta.final_update_id
        for side, levels in ((self.bids, delta.bids), (self.asks, delta.asks)):
            for price, quantity in levels:
                side[price] = quantity
                if not quantity:
                    del side[price]
        self.update_id = delta.final_update_id

    def sides(self) -> tuple[list[Level], list[Level]]:
        return sorted(self.bids.items(), reverse=True), sorted(self.asks.items())


def deltas(book: Book, after: int, upto: int, step: int) -> Iterator[Delta]:
    for slot in range(after, upto, step):
        delta = book.delta(slot, slot + step)
        if delta:
            yield delta


@any_book
def test_a_book_is_that_of_every_other_machine(name: str) -> None:
    book = book_of(name)
    sample = [
        (
            *book.snapshot(at_ms, 10),
            tuple(book.delta(at_ms // 100, at_ms // 100 + 50) or ()),
            book.touches(at_ms, at_ms + 5_000),
        )
        for at_ms in (LISTED + draw % (NOW - LISTED) for draw in draws(20, "sample"))
    ]

    assert (
        sha256(repr(sample).encode()).hexdigest()[:32]
        == {
            "busiest": "eb1ca8c11ce3152693fe6fcf40159973",
            "busy": "48fb6d7e35b92838f2d22d3cedc3c876",
            "middling": "6ab292c8f064d2fe7843f4a9d55f00b2",
            "quiet": "607880a2163e4d83a8bf61a83c2e1091",
            "coarse": "b9d9d8a76582e3d219d8faa4f76e0cc8",
        }[name]
    )


@any_book
@settings(deadline=None, max_examples=6)
@given(slot=slots, step=st.sampled_from([1, 10, 7]))
def test_deltas_of_any_grouping_lead_to_the_book(name: str, slot: int, step: int) -> None:
    book = book_of(name)
    upto = slot + 15 * step
    start = book.update_id(slot)
    copy = Copy(start, *book.at(start, WHOLE))

    for delta in deltas(book, slot, upto, step):
        assert delta.first_update_id == copy.update_id + 1
        copy.apply(delta)

    assert copy.update_id == book.update_id(upto)
    assert copy.sides() == book.at(copy.update_id, WHOLE)


@pytest.mark.parametrize(
    ("name", "count"), [("busy", 1_200), ("middling", 1_200), ("quiet", 6_000)]
)
def test_a_long_run_of_deltas_loses_nothing(name: str, count: int) -> None:
    book = book_of(name)
    slot = NOW // 100
    start = book.update_id(slot)
    copy = Copy(start, *book.at(start, WHOLE))

    for delta in deltas(book, slot, slot + count, 1):
        copy.apply(delta)

    assert copy.sides() == book_of(name).at(book_of(name).update_id(slot + count), WHOLE)


@any_book
@settings(deadline=None, max_examples=5)
@given(slot=slots, into_ms=st.integers(0, 99))
def test_a_snapshot_joins_the_deltas_of_its_instant(name: str, slot: int, into_ms: int) -> None:
    book = book_of(name)
    copy = Copy(*book.snapshot(slot * 100 + into_ms, WHOLE))
    assert copy.sides() == book.at(copy.update_id, WHOLE)
    assert book.update_id(slot - 1) <= copy.update_id <= book.update_id(slot)

    for delta in deltas(book, slot - 5, slot + 10, 1):
        if delta.final_update_id > copy.update_id:
            copy.apply(delta)

    assert copy.sides() == book.at(book.update_id(slot + 10), WHOLE)


@pytest.mark.parametrize("name", ["busy", "middling"])
def test_snapshots_are_taken_between_events_and_within_them(name: str) -> None:
    book = book_of(name)
    within = between = 0
    for slot in range(NOW // 100, NOW // 100 + 400):
        update_id, _, _ = book.snapshot(slot * 100 + 50, 1)
        delta = book.delta(slot - 1, slot)
        if delta:
            assert delta.first_update_id <= update_id + 1 <= delta.final_update_id
            within += update_id >= delta.first_update_id
            between += update_id < delta.first_update_id

    assert within > 20
    assert between > 2 * within


@any_book
@settings(deadline=None, max_examples=4)
@given(slot=slots)
def test_no_update_id_shows_a_crossed_book(name: str, slot: int) -> None:
    book = book_of(name)
    first, end = book.update_id(slot), book.update_id(slot + 8)

    for update_id in range(first, min(end, first + 200) + 1, 3):
        bids, asks = book.at(update_id, 30)
        assert bids[0][0] < asks[0][0]
        assert all(a[0] > b[0] for a, b in pairwise(bids))
        assert all(a[0] < b[0] for a, b in pairwise(asks))
        assert all(price > 0 and quantity > 0 for price, quantity in bids + asks)
        assert len(bids) == len(asks) == 30


@any_book
@settings(deadline=None, max_examples=10)
@given(slot=slots)
def test_the_last_trade_was_at_the_touch(name: str, slot: int) -> None:
    book, market = book_of(name), market_of(name)
    trade = market.last_before((slot + 1) * 100)

    (bid, _), (ask, _) = (side[0] for side in book.at(book.update_id(slot), 1))

    assert trade.price == (ask if trade.taker_buys else bid)
    assert 0 < ask - bid <= 2 * market.grain


@any_book
@settings(deadline=None, max_examples=10)
@given(at_ms=st.integers(LISTED, NOW), length_ms=st.integers(1, 20_000))
def test_touches_show_each_trade_and_end_where_the_book_does(
    name: str, at_ms: int, length_ms: int
) -> None:
    book, market = book_of(name), market_of(name)
    upto_ms = (at_ms + length_ms) // 100 * 100 + 99

    touches = book.touches(at_ms, upto_ms)

    ids = [touch[0] for touch in touches]
    assert all(a < b for a, b in pairwise(ids))
    assert all(bid < ask for _, bid, _, ask, _ in touches)
    first, end = market.id_at(at_ms + 1), market.id_at(upto_ms + 1)
    assert bool(touches) == (end > first)
    if touches:
        last = market.trades(end - 1, 1)[0]
        bids, asks = book.at(book.update_id(last.at_ms // 100), 1)
        assert touches[-1] == (book.update_id(last.at_ms // 100), *bids[0], *asks[0])
        met, left = touches[-2:]
        hit = 4 if last.taker_buys else 2
        assert met[hit] - left[hit] == last.quantity
    middle_ms = (at_ms + upto_ms) // 2
    assert touches == book.touches(at_ms, middle_ms) + book.touches(middle_ms, upto_ms)


@any_book
@settings(deadline=None, max_examples=10)
@given(at_ms=st.integers(LISTED + DAY, NOW), length_ms=st.integers(1, 3_000))
def test_every_touch_that_is_told_is_that_of_the_book_at_its_id(
    name: str, at_ms: int, length_ms: int
) -> None:
    book, market = book_of(name), market_of(name)
    after_ms = market.last_before(at_ms).at_ms - 1

    touches = book.touches(after_ms, (after_ms + length_ms) // 100 * 100 + 99)

    assert touches
    for update_id, *touch in touches:
        (bid,), (ask,) = book.at(update_id, 1)
        assert [*bid, *ask] == touch


@any_book
@settings(deadline=None, max_examples=2)
@given(at_ms=st.integers(LISTED + DAY, NOW))
def test_between_two_touches_that_are_told_the_best_levels_stay(name: str, at_ms: int) -> None:
    book, slot = book_of(name), market_of(name).last_before(at_ms).at_ms // 100
    (bid,), (ask,) = book.at(book.update_id(slot - 1), 1)
    told = {
        update_id: touch for update_id, *touch in book.touches(slot * 100 - 1, slot * 100 + 299)
    }

    touch = [*bid, *ask]
    for update_id in range(book.update_id(slot - 1), book.update_id(slot + 2) + 1):
        touch = told.pop(update_id, touch)
        (bid,), (ask,) = book.at(update_id, 1)
        assert [*bid, *ask] == touch
    assert not told


@any_book
@settings(deadline=None, max_examples=2)
@given(at_ms=st.integers(LISTED + DAY, NOW))
def test_from_any_id_of_an_event_its_delta_leads_to_its_end(name: str, at_ms: int) -> None:
    book, slot = book_of(name), market_of(name).last_before(at_ms).at_ms // 100
    delta = book.delta(slot - 1, slot)
    assert delta is not None
    end = book.at(delta.final_update_id, WHOLE)

    first, final = delta.first_update_id - 1, delta.final_update_id
    for update_id in range(first, final, (final - first) // 5):
        copy = Copy(update_id, *book.at(update_id, WHOLE))
        copy.apply(delta)
        assert copy.sides() == end


@any_book
@settings(deadline=None, max_examples=4)
@given(slot=slots)
def test_nothing_depends_on_what_was_asked_before(name: str, slot: int) -> None:
    book = book_of(name)
    walked = [book.update_id(each) for each in range(slot, slot + 60)]
    back = [book.update_id(each) for each in range(slot + 59, slot - 1, -1)]

    assert (
        walked == back[::-1] == [book_of(name).update_id(each) for each in range(slot, slot + 60)]
    )
    assert all(a <= b for a, b in pairwise(walked))
    changed = [book.delta(slot + i, slot + i + 1) is not None for i in range(59)]
    assert changed == [a != b for a, b in pairwise(walked)]


def test_a_busy_book_has_five_thousand_levels_a_side_near_the_price() -> None:
    book = book_of("busy")
    for draw in draws(25, "levels"):
        _, bids, asks = book.snapshot(LISTED + draw % (NOW - LISTED), 5_000)

        assert len(bids) == len(asks) == 5_000
        assert bids[-1][0] > bids[0][0] * 9 // 10
        assert asks[-1][0] < asks[0][0] * 11 // 10


def test_a_busy_book_changes_in_nearly_every_slot_and_a_quiet_one_is_silent_for_seconds() -> None:
    slot = NOW // 100

    def silences(name: str, count: int) -> list[int]:
        book = book_of(name)
        events = [i for i in range(count) if book.delta(slot + i, slot + i + 1)]
        return [b - a for a, b in pairwise(events)]

    assert max(silences("busy", 300)) <= 2
    quiet = silences("quiet", 3_000)
    assert max(quiet) > 30, "three seconds without a change"
    assert len(quiet) > 50, "but not dead"


@pytest.mark.parametrize(("name", "most"), [("busy", 60), ("middling", 8), ("quiet", 12)])
def test_a_delta_has_a_handful_of_levels(name: str, most: int) -> None:
    book = book_of(name)
    sizes = [
        len(delta.bids) + len(delta.asks)
        for delta in deltas(book, NOW // 100, NOW // 100 + 1_500, 1)
    ]

    assert all(sizes), "an event says something"
    assert sum(sizes) / len(sizes) < most


def test_a_book_is_there_when_its_market_is_listed() -> None:
    book = book_of("quiet")
    copy = Copy(*book.snapshot(LISTED, WHOLE))

    for delta in deltas(book, LISTED // 100 - 1, LISTED // 100 + 3_000, 10):
        copy.apply(delta)

    assert copy.sides() == book.at(book.update_id(LISTED // 100 + 3_000), WHOLE)
