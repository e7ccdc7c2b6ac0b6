"""The feed's channels tell the market as it is, whole and in order, in the recorded shapes."""

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.coinbase import Coinbase
from penstock.simulator.coinbase.product import SEQUENCE_BITS, Product
from penstock.simulator.market.book import Book

Frames = Callable[..., list[Any]]
Products = dict[str, Product]
SECOND_MS, DAY_MS = 1000, 86_400_000
IDS = ("BTC-USD", "ETH-BTC", "1INCH-USD", "SHIB-USD")


def _ms(frame: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(frame["time"]).timestamp() * 1_000_000) // 1000


@pytest.mark.parametrize("product_id", IDS)
def test_every_trade_is_a_match_once(
    frames: Frames, products: Products, product_id: str, as_of_ms: int
) -> None:
    market, until_ms = products[product_id].market, as_of_ms + 60 * SECOND_MS
    last, *matches = frames(f"matches:{product_id}", as_of_ms, until_ms, opening=True)

    first, end = market.id_at(as_of_ms + 1), market.id_at(until_ms + 1)
    assert (last["type"], last["trade_id"]) == ("last_match", first - 1)
    assert [each["trade_id"] for each in matches] == list(range(first, end))
    decimals = market.listing.price_decimals, market.listing.quantity_decimals
    for match, trade in zip(matches, market.trades(first, end - first), strict=True):
        assert match["type"] == "match"
        assert match["side"] == ("sell" if trade.taker_buys else "buy"), "the maker's"
        assert Decimal(match["price"]).scaleb(decimals[0]) == trade.price
        assert Decimal(match["size"]).scaleb(decimals[1]) == trade.quantity
        assert _ms(match) == trade.at_ms
    for before, after in pairwise([last, *matches]):
        assert before["sequence"] < after["sequence"]
    orders = {UUID(each["maker_order_id"]) for each in matches}
    assert len(orders) == len(matches)
    assert {(order.version, order.variant) for order in orders} == {(4, RFC_4122)}
    assert {str(order) for order in orders} == {each["maker_order_id"] for each in matches}


def test_one_taker_may_meet_several_makers(frames: Frames, as_of_ms: int) -> None:
    matches = frames("matches:BTC-USD", as_of_ms, as_of_ms + 30 * SECOND_MS)

    sweeps = [pair for pair in pairwise(matches) if pair[0]["time"] == pair[1]["time"]]
    assert sweeps
    for one, other in sweeps:
        same = one["taker_order_id"] == other["taker_order_id"]
        assert same == (one["side"] == other["side"])


@pytest.mark.parametrize("product_id", IDS)
def test_a_ticker_tells_the_last_match_of_an_instant(
    frames: Frames, products: Products, product_id: str, as_of_ms: int
) -> None:
    market, until_ms = products[product_id].market, as_of_ms + 20 * SECOND_MS
    tickers = frames(f"ticker:{product_id}", as_of_ms, until_ms, opening=True)
    matches = frames(f"matches:{product_id}", as_of_ms, until_ms, opening=True)

    by_time = {each["time"]: each for each in matches}
    assert [each["time"] for each in tickers] == list(by_time)
    for ticker in tickers:
        match = by_time[ticker["time"]]
        assert ticker["trade_id"] == match["trade_id"]
        assert ticker["sequence"] == match["sequence"]
        assert (ticker["price"], ticker["last_size"]) == (match["price"], match["size"])
        assert {ticker["side"], match["side"]} == {"buy", "sell"}, "the taker's, and the maker's"
        bid, ask = Decimal(ticker["best_bid"]), Decimal(ticker["best_ask"])
        assert bid < ask
        assert Decimal(ticker["price"]) == (ask if ticker["side"] == "buy" else bid)
        day = market.sums(_ms(ticker) + 1 - DAY_MS, _ms(ticker) + 1)
        lots = Decimal(ticker["volume_24h"]).scaleb(market.listing.quantity_decimals)
        assert lots == day.volume
        ticks = Decimal(ticker["high_24h"]).scaleb(market.listing.price_decimals)
        assert ticks == day.high


def test_a_batched_ticker_comes_every_five_seconds_with_a_trade(
    frames: Frames, products: Products, as_of_ms: int
) -> None:
    until_ms = as_of_ms + 300 * SECOND_MS
    tickers = frames("ticker_batch:1INCH-USD", as_of_ms, until_ms)

    market, expected = products["1INCH-USD"].market, []
    for due_ms in range(as_of_ms // 5000 * 5000 + 5000, until_ms + 1, 5000):
        first, end = market.id_at(due_ms - 5000), market.id_at(due_ms)
        expected += [end - 1] if end > first else []
    assert [each["trade_id"] for each in tickers] == expected
    assert len(expected) < 60, "there were five seconds without a trade"


@pytest.mark.parametrize("product_id", IDS)
def test_a_heartbeat_knows_the_last_trade(
    frames: Frames, products: Products, product_id: str, as_of_ms: int
) -> None:
    beats = frames(f"heartbeat:{product_id}", as_of_ms, as_of_ms + 10 * SECOND_MS)

    assert len(beats) == 10
    for beat in beats:
        assert beat["last_trade_id"] == products[product_id].market.id_at(_ms(beat) + 1) - 1
        assert _ms(beat) % SECOND_MS == 0
    for before, after in pairwise(beats):
        assert before["sequence"] <= after["sequence"]


@pytest.mark.parametrize("channel", ["level2", "level2_batch"])
@pytest.mark.parametrize("product_id", IDS)
def test_a_book_kept_by_its_changes_is_the_markets(
    frames: Frames, products: Products, channel: str, product_id: str, as_of_ms: int
) -> None:
    product = products[product_id]
    # Of the busiest market there are thousands of changes within seconds.
    until_ms = as_of_ms + (5 if product_id == "BTC-USD" else 20) * SECOND_MS
    snapshot, *updates = frames(f"{channel}:{product_id}", as_of_ms, until_ms, opening=True)

    sides = {"buy": _levels(snapshot["bids"]), "sell": _levels(snapshot["asks"])}
    assert _as_told(product, as_of_ms) == sides
    ends = 0
    for update in updates:
        assert channel == "level2_batch" or len(update["changes"]) == 1
        for side, price, size in update["changes"]:
            sides[side][Decimal(price)] = Decimal(size)
            if not Decimal(size):
                del sides[side][Decimal(price)]
        assert max(sides["buy"]) < min(sides["sell"]), "never crossed, not even for a moment"
        if update["time"][-6:] == "00000Z" and _ms(update) % Book.SLOT_MS == 0:
            ends += 1
            if ends % 10 == 1:
                assert _as_told(product, _ms(update)) == sides
    assert ends > 5
    assert _as_told(product, until_ms) == sides


def _levels(rows: list[list[str]]) -> dict[Decimal, Decimal]:
    return {Decimal(price): Decimal(size) for price, size in rows}


def _as_told(product: Product, at_ms: int) -> dict[str, dict[Decimal, Decimal]]:
    """What the ledger knows the book by this time to be."""
    listing = product.market.listing
    bids, asks = product.book.at(product.book.update_id(at_ms // Book.SLOT_MS - 1), 10**6)
    return {
        side: {
            Decimal(price).scaleb(-listing.price_decimals): Decimal(lots).scaleb(
                -listing.quantity_decimals
            )
            for price, lots in levels
        }
        for side, levels in (("buy", bids), ("sell", asks))
    }


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=8))
def test_frames_do_not_depend_on_how_often_one_asks(
    exchange: Coinbase, as_of_ms: int, pieces: list[int]
) -> None:
    for channel in ("matches", "ticker_batch", "level2", "level2_batch", "heartbeat"):
        feed = exchange.feed(f"{channel}:ETH-BTC")
        assert feed is not None
        cut, at_ms = list[bytes](), as_of_ms
        for piece_ms in pieces:
            cut += feed.frames(at_ms, at_ms + piece_ms)
            at_ms += piece_ms
        assert cut == feed.frames(as_of_ms, at_ms)


def test_the_status_lists_everything_again_and_again(frames: Frames, as_of_ms: int) -> None:
    told = frames("status", as_of_ms, as_of_ms + 10 * SECOND_MS, opening=True)

    assert len(told) == 3
    assert {each["id"] for each in told[0]["products"]} >= set(IDS)
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("stream", ["matches:NO-SUCH", "nothing:BTC-USD", "matches", ""])
def test_a_stream_that_does_not_exist_is_none(exchange: Coinbase, stream: str) -> None:
    assert exchange.feed(stream) is None


def test_a_books_sequence_leads_to_the_ledger(frames: Frames, products: Products) -> None:
    beat = frames("heartbeat:1INCH-USD", 1_741_178_099_500, 1_741_178_100_000)[0]

    slot = 1_741_178_100_000 // Book.SLOT_MS - 1
    assert beat["sequence"] >> SEQUENCE_BITS >= products["1INCH-USD"].book.update_id(slot)


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """A recorded frame of each type."""
    beside = Path(__file__).parents[4] / "shared" / "captures"
    if not beside.is_dir():
        pytest.skip(f"there are no recordings at {beside}")
    lines = (beside / "cryptofeed" / "COINBASE.ws.28.0").read_text().splitlines()
    found = [re.match(r"[\d.]+: (\{.*)", line) for line in lines]
    decoded = [msgspec.json.decode(match[1]) for match in found if match]
    return {each["type"]: each for each in decoded}


@pytest.mark.parametrize(
    ("kind", "stream", "newer"),
    [
        ("last_match", "matches", ()),
        ("match", "matches", ()),
        ("ticker", "ticker", ("best_bid_size", "best_ask_size")),
        ("snapshot", "level2", ()),
        ("l2update", "level2", ()),
    ],
)
def test_frames_have_the_recorded_shape(
    frames: Frames,
    recorded: dict[str, dict[str, Any]],
    kind: str,
    stream: str,
    newer: tuple[str, ...],
    as_of_ms: int,
) -> None:
    told = frames(f"{stream}:BTC-USD", as_of_ms, as_of_ms + 5 * SECOND_MS, opening=True)
    frame = next(each for each in told if each["type"] == kind)

    assert [name for name in frame if name not in newer] == list(recorded[kind])
    for name, value in recorded[kind].items():
        assert type(frame[name]) is type(value)
        if name == "time" or name.endswith("order_id"):
            assert len(frame[name]) == len(value)
