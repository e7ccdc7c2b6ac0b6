"""Every endpoint shows what market and book hold, newest first, and nothing of the future."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.coinbase import Coinbase
from penstock.simulator.coinbase.product import SEQUENCE_BITS, Product
from penstock.simulator.engine.exchange import Asked, Refused, Reply
from penstock.simulator.market.book import Book

Get = Callable[..., Any]
Refusal = Callable[..., tuple[int, str]]
Products = dict[str, Product]
IDS = ("BTC-USD", "ETH-BTC", "1INCH-USD", "SHIB-USD")
DAY_MS = 86_400_000


def _price(product: Product, ticks: int) -> Decimal:
    return Decimal(ticks).scaleb(-product.market.listing.price_decimals)


def _size(product: Product, lots: int) -> Decimal:
    return Decimal(lots).scaleb(-product.market.listing.quantity_decimals)


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def test_the_clock_tells_one_instant_twice(get: Get, as_of_ms: int) -> None:
    told = get("time")

    assert told == {"iso": "2025-03-05T12:34:56.789Z", "epoch": as_of_ms / 1000}


def test_products_are_listed_with_their_increments(get: Get, products: Products) -> None:
    listed = {each["id"]: each for each in get("products")}

    for product_id, product in products.items():
        entry, listing = listed[product_id], product.market.listing
        assert entry["status"] == "online"
        assert Decimal(entry["quote_increment"]) == Decimal(1).scaleb(-listing.price_decimals)
        assert Decimal(entry["base_increment"]) == Decimal(1).scaleb(-listing.quantity_decimals)
        assert get(f"products/{product_id}") == entry


def test_products_that_readers_trip_over_are_listed_too(
    get: Get, refusal: Refusal, products: Products
) -> None:
    listed = {each["id"]: each for each in get("products")}

    assert set(listed) - set(products) == {"BTCAUCTION-USD", "REP-USD"}
    assert listed["BTCAUCTION-USD"]["base_currency"] == "BTC", "its id says another"
    assert listed["REP-USD"]["status"] == "delisted"
    assert refusal("products/REP-USD/book") == (404, "NotFound")


def test_every_currency_is_listed_once(get: Get) -> None:
    entries = get("currencies")

    assert [each["id"] for each in entries] == ["BTC", "USD", "ETH", "1INCH", "SHIB"]
    assert [each["details"]["type"] for each in entries].count("fiat") == 1


@pytest.mark.parametrize("product_id", IDS)
def test_the_newest_trades_come_without_a_range(
    get: Get, products: Products, product_id: str, as_of_ms: int
) -> None:
    product = products[product_id]
    rows = get(f"products/{product_id}/trades")

    end = product.market.id_at(as_of_ms + 1)
    assert [row["trade_id"] for row in rows] == list(range(end - 1, end - 1001, -1))
    truth = product.market.trades(end - 1000, 1000)[::-1]
    for row, trade in zip(rows, truth, strict=True):
        assert list(row) == ["trade_id", "side", "size", "price", "time"]
        assert row["side"] == ("sell" if trade.taker_buys else "buy"), "the maker's"
        assert Decimal(row["price"]) == _price(product, trade.price)
        assert Decimal(row["size"]) == _size(product, trade.quantity)
        assert _ms(row["time"]) == trade.at_ms
    assert {row["side"] for row in rows} == {"buy", "sell"}


def test_the_cursors_lead_back_to_the_first_trade(reply: Callable[..., Reply], get: Get) -> None:
    path, after, seen = "products/1INCH-USD/trades", 2345, list[int]()
    for _ in range(3):
        rows = get(path, after=after, limit=900)
        headers = reply(path, after=after, limit=900).headers
        seen += [row["trade_id"] for row in rows]
        assert headers == {"CB-BEFORE": str(seen[-len(rows)]), "CB-AFTER": str(seen[-1])}
        after = int(headers["CB-AFTER"])

    assert seen == list(range(2344, 0, -1))
    end = reply(path, after=after)
    assert (end.body, end.headers) == (b"[]", {}), "behind the first there is nothing to lead to"


def test_before_gives_the_newest_page_and_not_the_next(
    get: Get, products: Products, as_of_ms: int
) -> None:
    end = products["BTC-USD"].market.id_at(as_of_ms + 1)
    far, near = (get("products/BTC-USD/trades", before=end - back) for back in (5000, 6))

    assert [row["trade_id"] for row in far] == list(range(end - 1, end - 1001, -1))
    assert [row["trade_id"] for row in near] == list(range(end - 1, end - 6, -1))
    assert get("products/BTC-USD/trades", before=end) == []
    between = get("products/BTC-USD/trades", before=100, after=104)
    assert [row["trade_id"] for row in between] == [103, 102, 101]


def test_more_trades_than_a_page_holds_are_cut_to_a_page(get: Get) -> None:
    assert len(get("products/BTC-USD/trades", limit=5000)) == 1000
    assert len(get("products/BTC-USD/trades", limit=3)) == 3


@pytest.mark.parametrize("name", ["after", "before", "limit"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", ""])
def test_a_cursor_that_is_no_number_is_refused(refusal: Refusal, name: str, value: str) -> None:
    refused = refusal("products/BTC-USD/trades", **{name: value})

    assert refused == (400, f'Invalid value for "{name}"')
    assert refusal("products/BTC-USD/trades", limit=0) == (400, 'Invalid value for "limit"')


@pytest.mark.parametrize("product_id", IDS)
@pytest.mark.parametrize("granularity", [60, 300, 900, 3600, 21600, 86400])
def test_candles_are_sums_of_trades_and_missing_where_there_are_none(
    get: Get, products: Products, product_id: str, granularity: int, as_of_ms: int
) -> None:
    product, step_ms = products[product_id], granularity * 1000
    rows = get(f"products/{product_id}/candles", granularity=granularity)

    latest_ms = as_of_ms - as_of_ms % step_ms
    truth = []
    for number in range(300):
        open_ms = latest_ms - number * step_ms
        if open_ms < product.listed_at_ms:
            break
        sums = product.market.sums(open_ms, min(open_ms + step_ms, as_of_ms + 1))
        prices = (sums.low, sums.high, sums.open, sums.close)
        if sums.trades:
            row = [float(_price(product, each)) for each in prices]
            truth.append([open_ms // 1000, *row, float(_size(product, sums.volume))])
    assert rows == truth
    if product_id == "1INCH-USD" and granularity == 60:
        assert len(rows) < 300, "nobody traded in some of these minutes"


def test_a_range_has_both_its_ends(get: Get, as_of_ms: int) -> None:
    path = "products/BTC-USD/candles"
    start_s = as_of_ms // 60_000 * 60 - 299 * 60
    end_s = start_s + 299 * 60

    rows = get(path, granularity=60, start=start_s, end=end_s)

    assert [row[0] for row in rows] == list(range(end_s, start_s - 1, -60))
    assert rows == get(path, granularity=60, start=_iso(start_s * 1000), end=_iso(end_s * 1000))
    assert rows == get(path, granularity=60), "the newest"
    assert rows == get(path, granularity=60, start=start_s), "half a range is none"


def test_a_candle_may_open_before_the_range(get: Get, as_of_ms: int) -> None:
    minute_s = as_of_ms // 60_000 * 60 - 6000

    rows = get("products/BTC-USD/candles", granularity=60, start=minute_s + 7, end=minute_s + 130)

    assert [row[0] for row in rows] == [minute_s + 120, minute_s + 60, minute_s]


def test_a_range_of_more_than_a_page_is_refused(get: Get, refusal: Refusal, as_of_ms: int) -> None:
    path, minute_s = "products/BTC-USD/candles", as_of_ms // 60_000 * 60 - 90_000

    status, message = refusal(path, granularity=60, start=minute_s, end=minute_s + 300 * 60)
    unaligned = get(path, granularity=60, start=minute_s + 1, end=minute_s + 1 + 300 * 60)

    assert (status, message[-12:]) == (400, " exceeds 300")
    assert len(unaligned) == 300


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, "Unsupported granularity"),
        ({"granularity": 61}, "Unsupported granularity"),
        ({"granularity": 60, "start": "soon", "end": "later"}, 'Invalid value for "start"'),
        (
            {"granularity": 60, "start": "2025-01-02", "end": "2025-01-01"},
            "start must be before end",
        ),
    ],
)
def test_candles_of_no_kind_are_refused(
    refusal: Refusal, query: dict[str, Any], message: str
) -> None:
    assert refusal("products/BTC-USD/candles", **query) == (400, message)


def test_there_are_no_candles_outside_of_history(
    get: Get, products: Products, as_of_ms: int
) -> None:
    listed_s, path = products["1INCH-USD"].listed_at_ms // 1000, "products/1INCH-USD/candles"

    before = get(path, granularity=3600, start=listed_s - 90_000, end=listed_s - 1)
    across = get(path, granularity=3600, start=listed_s - 36_000, end=listed_s + 36_000)
    future = get(path, granularity=60, start=as_of_ms // 1000 + 60, end=as_of_ms // 1000 + 600)

    assert before == future == []
    assert across[-1][0] >= listed_s


@pytest.mark.parametrize("product_id", IDS)
def test_a_book_is_the_markets_at_its_sequence(
    get: Get, products: Products, product_id: str
) -> None:
    product = products[product_id]
    best, whole = (get(f"products/{product_id}/book", level=level) for level in (1, 2))

    update_id = whole["sequence"] >> SEQUENCE_BITS
    for side, truth in zip(("bids", "asks"), product.book.at(update_id, 10**6), strict=True):
        assert best[side] == whole[side][:1]
        rows = [(Decimal(price), Decimal(size)) for price, size, _ in whole[side]]
        assert rows == [(_price(product, at), _size(product, lots)) for at, lots in truth]
        assert all(count >= 1 for _, _, count in whole[side])
    assert len(whole["bids"]) > 500
    assert get(f"products/{product_id}/book") == best


def test_the_orders_of_a_level_make_up_the_level(get: Get) -> None:
    levels, orders = (get("products/1INCH-USD/book", level=level) for level in (2, 3))

    for side in ("bids", "asks"):
        sizes: dict[str, list[Decimal]] = {}
        for price, size, _ in orders[side]:
            sizes.setdefault(price, []).append(Decimal(size))
        assert levels[side] == [
            [price, next(size for at, size, _ in levels[side] if at == price), len(parts)]
            for price, parts in sizes.items()
        ]
        assert [sum(parts) for parts in sizes.values()] == [
            Decimal(size) for _, size, _ in levels[side]
        ]
    ids = [order for side in ("bids", "asks") for _, _, order in orders[side]]
    assert len(set(ids)) == len(ids)


def test_a_level_that_does_not_exist_is_refused(refusal: Refusal) -> None:
    assert refusal("products/BTC-USD/book", level=4) == (400, 'Invalid value for "level"')


@pytest.mark.parametrize("product_id", IDS)
def test_a_ticker_is_the_last_trade_and_the_last_day(
    get: Get, products: Products, product_id: str, as_of_ms: int
) -> None:
    product = products[product_id]
    ticker, stats = (get(f"products/{product_id}/{name}") for name in ("ticker", "stats"))

    last = product.market.last_before(as_of_ms + 1)
    day = product.market.sums(as_of_ms + 1 - DAY_MS, as_of_ms + 1)
    month = product.market.sums(as_of_ms + 1 - 30 * DAY_MS, as_of_ms + 1)
    book = get(f"products/{product_id}/book")
    assert ticker["trade_id"] == last.id
    assert Decimal(ticker["price"]) == Decimal(stats["last"]) == _price(product, last.price)
    assert Decimal(ticker["size"]) == _size(product, last.quantity)
    assert Decimal(ticker["bid"]) == Decimal(book["bids"][0][0])
    assert Decimal(ticker["ask"]) == Decimal(book["asks"][0][0])
    assert ticker["volume"] == stats["volume"]
    assert Decimal(stats["volume"]) == _size(product, day.volume)
    assert Decimal(stats["volume_30day"]) == _size(product, month.volume)
    for name, ticks in (("open", day.open), ("high", day.high), ("low", day.low)):
        assert Decimal(stats[name]) == _price(product, ticks)


def test_spark_lines_are_a_day_of_hours(get: Get, products: Products, as_of_ms: int) -> None:
    lines = get("products/spark-lines")

    assert set(lines) == set(products)
    candles = get("products/BTC-USD/candles", granularity=3600)
    assert lines["BTC-USD"] == [row[:5] for row in candles[:24]]


@given(st.integers(0, 600_000))
def test_sequence_numbers_never_fall(products: Products, later_ms: int) -> None:
    product = products["BTC-USD"]
    start_ms = 1_741_178_000_000 + later_ms
    first = product.market.id_at(start_ms)
    trades = product.market.trades(first, 200)

    numbers = [product.trade_sequence(trade) for trade in trades]

    assert all(before < after for before, after in pairwise(numbers))
    last_ms = trades[-1].at_ms
    ended_ms = last_ms - last_ms % Book.SLOT_MS + Book.SLOT_MS
    assert product.sequence_at(last_ms) >= numbers[-1]
    assert product.book.update_id(ended_ms // Book.SLOT_MS - 1) << SEQUENCE_BITS > numbers[-1]


def test_unknown_products_and_paths_are_not_found(exchange: Coinbase, refusal: Refusal) -> None:
    for name in ("", "/book", "/trades", "/ticker", "/stats"):
        assert refusal(f"products/NO-SUCH{name}") == (404, "NotFound")
    assert refusal("products/btc-usd/book") == (404, "NotFound"), "ids are upper case"
    assert exchange.not_found("/nothing").body == b'{"message":"NotFound"}'
    assert exchange.failure().status == 500


def test_programs_must_say_who_they_are(exchange: Coinbase, as_of_ms: int) -> None:
    with pytest.raises(Refused) as raised:
        exchange.routes["/time"].answer(Asked({}), as_of_ms)

    assert raised.value.reply.status == 400


def test_nothing_exists_before_its_listing(products: Products, refusal: Refusal) -> None:
    before_ms = products["SHIB-USD"].listed_at_ms - 1

    assert refusal("products/SHIB-USD/ticker", as_of_ms=before_ms) == (404, "NotFound")
