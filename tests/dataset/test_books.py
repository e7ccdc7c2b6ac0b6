"""A book at a time equals one that is kept from the same changes; it says whether it is valid."""

from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal
from tests.events import BTC, NOTHING, delta, snapshot

from penstock.dataset.dataset import Dataset
from penstock.errors import BadQuery, NotCollected
from penstock.market.events import BookDelta, Disconnect, Event
from penstock.market.levels import write_levels
from penstock.storage.log import open_log


def changes(count: int) -> tuple[list[BookDelta], list[dict[str, str]]]:
    """Changes of the bids, one a second, and the bids after each."""
    rng, bids = Random(1), {"100.0": "1.0", "1.0": "1.0"}
    deltas, states = [], []
    for number in range(1, count + 1):
        price = f"{rng.randrange(90, 100)}.5"
        quantity = rng.choice(["0.0", "1.0", "2.5"])
        bids.pop(price, None) if quantity == "0.0" else bids.update({price: quantity})
        at_ns = NOON_NS + number * SECOND_NS
        levels = write_levels([(price, quantity)])
        deltas.append(delta(number, number, at_ns=at_ns, received_at_ns=at_ns, bids_raw=levels))
        states.append(dict(bids))
    return deltas, states


START = snapshot(
    0,
    received_at_ns=NOON_NS,
    bids_raw=write_levels([("100.0", "1.0"), ("1.0", "1.0")]),
    asks_raw=write_levels([("101.0", "1.0")]),
)


def at(second: float) -> int:
    return NOON_NS + int(second * SECOND_NS)


def data_of(events: list[Event], lake: Path | None = None) -> Dataset:
    log = open_log("memory:")
    written = log.writer("a").append(events)
    if lake is not None:
        seal(lake, written)
    return dataset(None if lake is not None else log, lake)


@pytest.mark.parametrize("place", ["log", "lake"])
def test_a_book_is_as_it_was_at_any_time(place: str, tmp_path: Path) -> None:
    deltas, states = changes(30)
    data = data_of([START, *deltas], tmp_path if place == "lake" else None)

    for second in (1, 7, 30):
        book = data.book("BTC/USDT").at(at(second + 0.5))
        truth = {Decimal(p): Decimal(q) for p, q in states[second - 1].items()}
        assert book.synced
        assert book.update_id == second
        assert dict(book.bids) == truth
        assert [price for price, _ in book.bids] == sorted(truth, reverse=True)
        assert book.best_ask == (Decimal("101.0"), Decimal("1.0"))
    frame = data.book("btc_usdt").at(at(30)).polars()
    assert frame.columns == ["side", "level", "price", "quantity"]


def test_a_lost_change_makes_a_book_stale_until_the_next_snapshot() -> None:
    deltas, states = changes(30)
    later = snapshot(
        20, received_at_ns=at(20.1), asks_raw=NOTHING,
        bids_raw=write_levels([*states[19].items()]),
    )  # fmt: skip
    data = data_of([START, *deltas[:9], *deltas[10:], later])

    before, broken, after = (data.book("BTC/USDT").at(at(s)) for s in (9.5, 12.5, 25.5))
    assert before.synced
    assert broken.state == "stale"
    assert "updates after 9 were lost" in broken.reason
    assert after.synced
    assert after.update_id == 25


def test_a_lost_connection_makes_a_book_stale() -> None:
    deltas, _ = changes(5)
    lost = Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=at(5.5), channels=("book_deltas",),
        reason="reset",
    )  # fmt: skip

    book = data_of([START, *deltas, lost]).book("BTC/USDT").at(at(6))
    assert (book.state, book.reason) == ("stale", "reset")


def test_before_the_first_snapshot_there_is_no_book() -> None:
    book = data_of([START]).book("BTC/USDT").at("2026-10-01")

    assert (book.state, book.bids, book.best_bid) == ("syncing", [], None)
    assert "no snapshot" in book.reason


def test_levels_beyond_the_snapshot_are_not_shown() -> None:
    beyond = write_levels([("0.5", "1.0")])
    data = data_of([START, delta(1, 1, at_ns=at(1), received_at_ns=at(1), bids_raw=beyond)])

    assert [float(price) for price, _ in data.book("BTC/USDT").at(at(2)).bids] == [100.0, 1.0]


def test_a_market_on_two_exchanges_needs_the_exchange() -> None:
    other = snapshot(1, exchange="other", received_at_ns=NOON_NS)
    data = data_of([START, other])

    with pytest.raises(BadQuery, match="is on other, toy"):
        data.book("BTC/USDT")
    assert data.book("BTC/USDT", exchange="toy").at(at(1)).synced
    with pytest.raises(NotCollected):
        data.book("ETH/USDT")
