"""The ledger against the market and the book it is written from."""

from decimal import Decimal
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest

from penstock.clock import ManualClock
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.questions import BadQuestion
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Listing, Market
from penstock.simulator.market.shapes import Library

DAY_MS = 86_400_000
LISTED_MS = 19_000 * DAY_MS
AT_MS = LISTED_MS + 3 * DAY_MS + 12_345_678


@pytest.fixture(scope="module")
def market() -> Market:
    listing = Listing("LINK", "USDT", 4, 2, 140_000, 6, LISTED_MS)
    return Market(listing, 1, Library(6))


@pytest.fixture(scope="module")
def ledger(market: Market) -> Ledger:
    return Ledger([market], ManualClock(AT_MS))


def _ask(ledger: Ledger, question: str, **query: object) -> Any:
    texts = {name: str(value) for name, value in query.items()}
    answer = ledger.answer(question, {"symbol": "link_usdt", **texts})
    return msgspec.json.decode(msgspec.json.encode(answer))


def test_trades_are_told_in_exact_decimals(ledger: Ledger, market: Market) -> None:
    first_id = market.id_at(AT_MS)

    rows = _ask(ledger, "trades", from_id=first_id, limit=50)["trades"]

    trades = market.trades(first_id, 50)
    assert [row["id"] for row in rows] == [trade.id for trade in trades]
    assert [row["at_ms"] for row in rows] == [trade.at_ms for trade in trades]
    assert [Decimal(row["price"]) for row in rows] == [Decimal(t.price) / 10**4 for t in trades]
    assert [Decimal(row["quantity"]) * 100 for row in rows] == [t.quantity for t in trades]
    assert all(len(row["price"].partition(".")[2]) == 4 for row in rows)


def test_aggregated_trades_join_one_another(ledger: Ledger, market: Market) -> None:
    first_id = market.agg_id_at(AT_MS)

    rows = _ask(ledger, "agg_trades", from_id=first_id, limit=20)["agg_trades"]

    assert [row["id"] for row in rows] == list(range(first_id, first_id + 20))
    for left, right in pairwise(rows):
        assert right["first_id"] == left["last_id"] + 1


def test_a_candle_equals_its_trades(ledger: Ledger) -> None:
    end_ms = AT_MS + 3_600_000

    (candle,) = _ask(ledger, "candles", start_ms=AT_MS, end_ms=end_ms)["candles"]

    count = candle["trades"]
    trades = _ask(ledger, "trades", from_id=candle["first_id"], limit=count)["trades"]
    prices = [Decimal(trade["price"]) for trade in trades]
    quantities = [Decimal(trade["quantity"]) for trade in trades]
    assert (Decimal(candle["open"]), Decimal(candle["close"])) == (prices[0], prices[-1])
    assert (Decimal(candle["high"]), Decimal(candle["low"])) == (max(prices), min(prices))
    assert Decimal(candle["volume"]) == sum(quantities)
    assert Decimal(candle["quote"]) == sum(
        price * quantity for price, quantity in zip(prices, quantities, strict=True)
    )


def test_a_step_and_listed_boundaries_ask_for_the_same_candles(ledger: Ledger) -> None:
    start_ms = LISTED_MS + DAY_MS
    boundaries = [start_ms + i * 60_000 for i in range(6)]

    stepped = _ask(ledger, "candles", start_ms=start_ms, end_ms=boundaries[-1], step_ms=60_000)
    listed = _ask(ledger, "candles", boundaries=",".join(map(str, boundaries)))

    assert stepped == listed
    assert len(listed["candles"]) == 5


def test_the_book_is_told_at_any_update_id(ledger: Ledger, market: Market) -> None:
    ids = _ask(ledger, "ids", at_ms=AT_MS)
    assert ids["next_trade_id"] == market.id_at(AT_MS)
    assert ids["next_agg_trade_id"] == market.agg_id_at(AT_MS)

    rows = _ask(ledger, "book", update_id=ids["update_id"], depth=5)

    bids, asks = Book(market).at(ids["update_id"], 5)
    assert [Decimal(price) * 10**4 for price, _ in rows["bids"]] == [p for p, _ in bids]
    assert [Decimal(quantity) * 100 for _, quantity in rows["asks"]] == [q for _, q in asks]


@pytest.mark.parametrize(
    ("question", "query", "says"),
    [
        ("lies", {}, "Known: trades agg_trades book candles ids"),
        ("trades", {"symbol": "BTCUSDT"}, "Known: link_usdt"),
        ("trades", {"from_id": "x"}, "from_id must be a whole number"),
        ("book", {}, "update_id must be a whole number"),
        ("candles", {}, "start_ms must be"),
        ("candles", {"boundaries": "1,x"}, "separated by commas"),
        ("candles", {"boundaries": "5,4"}, "strictly ascending"),
        ("candles", {"boundaries": "5"}, "1 to 10000"),
        ("candles", {"start_ms": "0", "end_ms": "99999999", "step_ms": "1"}, "1 to 10000"),
        ("candles", {"start_ms": "5", "end_ms": "5"}, "1 to 10000"),
    ],
)
def test_a_bad_question_says_why(
    ledger: Ledger, question: str, query: dict[str, str], says: str
) -> None:
    with pytest.raises(BadQuestion, match=says):
        ledger.answer(question, {"symbol": "link_usdt", **query})


def test_a_book_without_ids_is_asked_for_by_the_time_on_its_update(
    ledger: Ledger, market: Market
) -> None:
    book = Book(market)
    for at_ms in range(AT_MS, AT_MS + 300_000, 777):
        slot = at_ms // Book.SLOT_MS - 1

        told = _ask(ledger, "book", at_ms=at_ms, depth=5)

        assert told == _ask(ledger, "book", update_id=book.update_id(slot), depth=5)


def test_a_snapshot_by_rest_may_be_within_a_slot(ledger: Ledger, market: Market) -> None:
    book, within = Book(market), 0
    for at_ms in range(AT_MS, AT_MS + 100_000, 777):
        told = _ask(ledger, "book", snapshot_ms=at_ms, depth=5)
        assert told["update_id"] == book.snapshot_id(at_ms)
        within += told["update_id"] != _ask(ledger, "book", at_ms=at_ms, depth=5)["update_id"]

    assert within


def test_a_tick_of_many_units_is_told_in_full() -> None:
    listing = Listing("BTC", "KRW", 0, 8, 90_000, 6, LISTED_MS, price_step=1000)
    market = Market(listing, 1, Library(6, coarse=True))

    row = Ledger([market], ManualClock(AT_MS)).answer(
        "trades", {"symbol": "btc_krw", "limit": "1"}
    )["trades"]

    (trade,) = market.trades(1, 1)
    assert isinstance(row, list)
    assert row[0]["price"] == str(trade.price * 1000)
    sums = market.sums(LISTED_MS, LISTED_MS + DAY_MS)
    asked = {"symbol": "btc_krw", "start_ms": str(LISTED_MS), "end_ms": str(LISTED_MS + DAY_MS)}
    (candle,) = cast(
        "list[dict[str, str]]",
        Ledger([market], ManualClock(AT_MS)).answer("candles", asked)["candles"],
    )
    assert Decimal(candle["quote"]) == Decimal(sums.quote * 1000).scaleb(-8)


def test_a_ticker_is_the_last_trade_and_the_best_levels_of_the_book(
    ledger: Ledger, market: Market
) -> None:
    first_id = market.id_at(AT_MS)
    for trade in market.trades(first_id, 20):
        told = _ask(ledger, "ticker", at_ms=trade.at_ms)

        assert (
            told["trade"]
            == _ask(ledger, "trades", from_id=told["trade"]["id"], limit=1)["trades"][0]
        )
        assert told["trade"]["at_ms"] == trade.at_ms
        [*_, (_, *touch)] = Book(market).touches(trade.at_ms - 1, trade.at_ms)
        levels = [Decimal(text) for text in (*told["bid"], *told["ask"])]
        assert levels == [Decimal(n).scaleb(-d) for n, d in zip(touch, (4, 2, 4, 2), strict=True)]
