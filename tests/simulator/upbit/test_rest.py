"""Every endpoint shows what market and book hold, newest first, and nothing of the future."""

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from penstock.config import SimulatedUpbit, Simulator
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Sums
from penstock.simulator.upbit import Upbit
from penstock.simulator.upbit.instrument import IDS_PER_MS, Instrument
from penstock.simulator.upbit.periods import Period

Get = Callable[..., Any]
Refusal = Callable[..., tuple[int, str | int]]
Instruments = dict[str, Instrument]
CODES = ("KRW-BTC", "BTC-ETH", "KRW-LINK", "BTC-XRP")
DAY_MS = 86_400_000


def _price(instrument: Instrument, ticks: int) -> float:
    listing = instrument.market.listing
    return float(Decimal(ticks * listing.price_step).scaleb(-listing.price_decimals))


def _volume(instrument: Instrument, lots: int) -> float:
    return float(Decimal(lots).scaleb(-instrument.market.listing.quantity_decimals))


def _amount(instrument: Instrument, tick_lots: int) -> float:
    listing = instrument.market.listing
    decimals = listing.price_decimals + listing.quantity_decimals
    return float(Decimal(tick_lots * listing.price_step).scaleb(-decimals))


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1000


def test_markets_are_listed_by_quote_and_base(get: Get) -> None:
    markets = get("market/all")

    assert tuple(each["market"] for each in markets) == CODES
    assert markets[0] == {
        "market": "KRW-BTC",
        "korean_name": "비트코인",
        "english_name": "Bitcoin",
    }
    detailed = get("market/all", is_details="true")
    assert detailed[0]["market_event"]["warning"] is False
    assert len(detailed[0]["market_event"]["caution"]) == 5


KINDS = [
    ("seconds", Period("seconds")),
    *((f"minutes/{unit}", Period("minutes", unit)) for unit in (1, 3, 5, 10, 15, 30, 60, 240)),
    ("days", Period("days")),
    ("weeks", Period("weeks")),
    ("months", Period("months")),
    ("years", Period("years")),
]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("path", "period"), KINDS)
def test_candles_are_sums_of_trades_and_missing_where_there_are_none(
    get: Get, instruments: Instruments, code: str, path: str, period: Period, as_of_ms: int
) -> None:
    instrument = instruments[code]
    rows = get(f"candles/{path}", market=code, count=60)

    truth, number = list[tuple[int, Sums]](), period.number(as_of_ms)
    while len(truth) < 60 and number >= period.number(instrument.listed_at_ms):
        open_ms = period.open_ms(number)
        end_ms = min(period.open_ms(number + 1), as_of_ms + 1)
        sums = instrument.market.sums(max(open_ms, instrument.listed_at_ms), end_ms)
        truth += [(open_ms, sums)] if sums.trades else []
        number -= 1
    assert [_ms(row["candle_date_time_utc"]) for row in rows] == [at_ms for at_ms, _ in truth]
    for row, (_, sums) in zip(rows, truth, strict=True):
        assert row["market"] == code
        assert row["opening_price"] == _price(instrument, sums.open)
        assert row["high_price"] == _price(instrument, sums.high)
        assert row["low_price"] == _price(instrument, sums.low)
        assert row["trade_price"] == _price(instrument, sums.close)
        assert row["candle_acc_trade_volume"] == _volume(instrument, sums.volume)
        assert row["candle_acc_trade_price"] == _amount(instrument, sums.quote)
        assert row["timestamp"] == instrument.market.trades(sums.last_id, 1)[0].at_ms
        assert ("unit" in row) == (period.kind == "minutes")
        assert ("prev_closing_price" in row) == (period.kind == "days")
        assert ("first_day_of_period" in row) == (period.kind in ("weeks", "months", "years"))
    if path == "minutes/1" and code == "KRW-LINK":
        gaps = {before - after for (before, _), (after, _) in pairwise(truth)}
        assert len(gaps) > 1, "nobody traded in some of these minutes"


def test_candles_are_paged_back_by_their_own_times(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    rows = get("candles/minutes/1", market="KRW-LINK", count=200)
    while len(rows) < 1000:
        to = rows[-1]["candle_date_time_utc"]
        page = get("candles/minutes/1", market="KRW-LINK", count=200, to=f"{to}Z")
        assert page[0]["candle_date_time_utc"] < to, "the end is not in the page"
        rows += page

    opens = [_ms(row["candle_date_time_utc"]) for row in rows]
    market = instruments["KRW-LINK"].market
    every = range(opens[-1], as_of_ms, 60_000)
    traded = [
        open_ms
        for open_ms in every
        if market.sums(open_ms, min(open_ms + 60_000, as_of_ms + 1)).trades
    ]
    assert opens[::-1] == traded


@pytest.mark.parametrize(
    "to",
    [
        "2025-03-05T10:00:00Z",
        "2025-03-05T10:00:00",
        "2025-03-05 10:00:00",
        "2025-03-05T19:00:00+09:00",
        "2025-03-05T19:00:00 09:00",
        "2025-03-05T10:00:00.000Z",
    ],
)
def test_an_end_may_be_written_in_many_ways(get: Get, to: str) -> None:
    (row,) = get("candles/minutes/60", market="KRW-BTC", to=to)

    assert row["candle_date_time_utc"] == "2025-03-05T09:00:00"
    assert row["candle_date_time_kst"] == "2025-03-05T18:00:00"


def test_candles_of_a_second_do_not_reach_back_for_ever(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    old = "2024-11-01T00:00:00Z"
    forgetful = Upbit(
        [instruments["KRW-BTC"]], Simulator(upbit=SimulatedUpbit(second_candle_days=200))
    )

    assert get("candles/seconds", market="KRW-BTC", to=old) == []
    assert len(get("candles/seconds", market="KRW-BTC", to=old, of=forgetful)) == 1
    assert get("candles/minutes/1", market="KRW-BTC", to=old)
    assert get("candles/days", market="KRW-BTC", to="2017-09-25T00:00:00Z") == []


def test_a_day_knows_the_closing_price_before_it(get: Get) -> None:
    rows = get("candles/days", market="KRW-BTC", count=3, converting_price_unit="KRW")

    for newer, older in pairwise(rows):
        assert newer["prev_closing_price"] == older["trade_price"]
        change = newer["trade_price"] - older["trade_price"]
        assert newer["change_price"] == change
        assert newer["change_rate"] == pytest.approx(change / older["trade_price"], abs=1e-10)
        assert newer["converted_trade_price"] == newer["trade_price"]
    (foreign,) = get("candles/days", market="BTC-XRP", converting_price_unit="KRW")
    assert foreign["converted_trade_price"] is None


@pytest.mark.parametrize("code", CODES)
def test_the_newest_trades_come_without_a_cursor(
    body: Callable[..., bytes], instruments: Instruments, code: str, as_of_ms: int
) -> None:
    instrument, market = instruments[code], instruments[code].market
    rows = msgspec.json.decode(body("trades/ticks", market=code, count=500))

    end = market.id_at(as_of_ms + 1)
    for row, trade in zip(rows, market.trades(end - 500, 500)[::-1], strict=True):
        assert row["trade_price"] == _price(instrument, trade.price)
        assert row["trade_volume"] == _volume(instrument, trade.quantity)
        assert row["ask_bid"] == ("BID" if trade.taker_buys else "ASK")
        assert row["timestamp"] == trade.at_ms
        whole_second_ms = _ms(f"{row['trade_date_utc']}T{row['trade_time_utc']}")
        assert whole_second_ms == trade.at_ms // 1000 * 1000
        assert row["sequential_id"] // IDS_PER_MS == trade.at_ms
    ids = [row["sequential_id"] for row in rows]
    assert len(set(ids)) == 500
    assert min(ids) > 2**53
    assert any(newer - older > 1 for newer, older in pairwise(ids))
    assert any(newer - older == 1 for newer, older in pairwise(ids)), "of one instant"


@pytest.mark.parametrize("code", CODES)
def test_the_cursor_leads_back_to_midnight_and_days_before_it(
    get: Get, instruments: Instruments, code: str
) -> None:
    as_of_ms = 1_741_132_800_000 + 15 * 60_000  # a quarter of an hour into the day
    market, seen = instruments[code].market, list[int]()
    for days_ago in (None, 1):
        more: dict[str, Any] = {} if days_ago is None else {"days_ago": days_ago}
        for _ in range(6 if days_ago else 1000):
            page = get("trades/ticks", market=code, count=500, as_of_ms=as_of_ms, **more)
            if not page:
                break
            seen += [row["sequential_id"] for row in page]
            more["cursor"] = seen[-1]

    end = market.id_at(as_of_ms + 1)
    truth = market.trades(end - len(seen), len(seen))[::-1]
    assert seen == [instruments[code].sequential_id(trade) for trade in truth]
    assert truth[-1].at_ms < as_of_ms - as_of_ms % DAY_MS < truth[0].at_ms


def test_a_page_may_cross_midnight_if_it_is_set_so(get: Get, instruments: Instruments) -> None:
    as_of_ms = 1_741_132_800_000 + 1000
    crossing = Upbit(
        list(instruments.values()),
        Simulator(upbit=SimulatedUpbit(trade_pages_end_at_midnight=False)),
    )

    strict = get("trades/ticks", market="KRW-LINK", count=500, as_of_ms=as_of_ms)
    lenient = get("trades/ticks", market="KRW-LINK", count=500, as_of_ms=as_of_ms, of=crossing)

    assert len(strict) < 10
    assert len(lenient) == 500


@pytest.mark.parametrize("spelling", ["days_ago", "daysAgo"])
@pytest.mark.parametrize("to", ["063000", "06:30:00"])
def test_trades_of_a_day_end_at_a_time_of_it(get: Get, spelling: str, to: str) -> None:
    rows = get("trades/ticks", market="KRW-BTC", count=500, to=to, **{spelling: 3})

    assert {row["trade_date_utc"] for row in rows} == {"2025-03-02"}
    assert rows[0]["trade_time_utc"] < "06:30:00"
    assert rows[0]["trade_time_utc"] > "06:29:00"


@pytest.mark.parametrize("code", CODES)
def test_a_book_is_the_markets_when_its_slot_ended(
    get: Get, instruments: Instruments, code: str, as_of_ms: int
) -> None:
    instrument = instruments[code]
    (book,) = get("orderbook", markets=code)

    update_id = instrument.book.update_id(book["timestamp"] // Book.SLOT_MS - 1)
    assert update_id == instrument.update_id_at(as_of_ms), "nothing has changed since"
    assert book["timestamp"] % Book.SLOT_MS == 0
    bids, asks = instrument.book.at(update_id, 30)
    for unit, (bid, bid_size), (ask, ask_size) in zip(
        book["orderbook_units"], bids, asks, strict=True
    ):
        assert unit == {
            "ask_price": _price(instrument, ask),
            "bid_price": _price(instrument, bid),
            "ask_size": _volume(instrument, ask_size),
            "bid_size": _volume(instrument, bid_size),
        }
    assert book["total_bid_size"] == _volume(instrument, sum(size for _, size in bids))


def test_books_come_in_the_order_asked_for_and_as_deep(get: Get) -> None:
    books = get("orderbook", markets="BTC-XRP,KRW-BTC", count=5)

    assert [each["market"] for each in books] == ["BTC-XRP", "KRW-BTC"]
    assert [len(each["orderbook_units"]) for each in books] == [5, 5]
    assert len(get("orderbook", markets="KRW-BTC", count=31)[0]["orderbook_units"]) == 30
    assert get("orderbook", markets="KRW-BTC", level=10000) == []


def test_steps_are_told_apart_from_the_list(get: Get) -> None:
    steps = get("orderbook/instruments", markets="KRW-BTC,BTC-XRP")

    assert [each["tick_size"] for each in steps] == [1000, 1e-08]
    assert [each["quote_currency"] for each in steps] == ["KRW", "BTC"]


@pytest.mark.parametrize("code", CODES)
def test_a_ticker_is_the_day_so_far_and_the_year(
    get: Get, instruments: Instruments, code: str, as_of_ms: int
) -> None:
    instrument, market = instruments[code], instruments[code].market
    (ticker,) = get("ticker", markets=code)

    day_ms = as_of_ms - as_of_ms % DAY_MS
    today = market.sums(day_ms, as_of_ms + 1)
    last_day = market.sums(as_of_ms + 1 - DAY_MS, as_of_ms + 1)
    year = market.sums(day_ms - 364 * DAY_MS, as_of_ms + 1)
    before, last = market.last_before(day_ms).price, market.last_before(as_of_ms + 1)
    assert ticker["trade_price"] == _price(instrument, last.price)
    assert ticker["trade_timestamp"] == last.at_ms
    assert ticker["trade_volume"] == _volume(instrument, last.quantity)
    assert ticker["opening_price"] == _price(instrument, today.open)
    assert ticker["high_price"] == _price(instrument, today.high)
    assert ticker["low_price"] == _price(instrument, today.low)
    assert ticker["acc_trade_price"] == _amount(instrument, today.quote)
    assert ticker["acc_trade_volume"] == _volume(instrument, today.volume)
    assert ticker["acc_trade_price_24h"] == _amount(instrument, last_day.quote)
    assert ticker["acc_trade_volume_24h"] == _volume(instrument, last_day.volume)
    assert ticker["prev_closing_price"] == _price(instrument, before)
    word = "RISE" if last.price > before else "FALL" if last.price < before else "EVEN"
    assert ticker["change"] == word
    assert ticker["change_price"] == abs(ticker["signed_change_price"])
    assert ticker["signed_change_price"] == _price(instrument, last.price - before)
    assert ticker["highest_52_week_price"] == _price(instrument, year.high)
    assert ticker["lowest_52_week_price"] == _price(instrument, year.low)
    high_ms = _ms(f"{ticker['highest_52_week_date']}T00:00:00")
    assert market.sums(high_ms, high_ms + DAY_MS).high >= year.high


def test_a_ticker_of_the_first_day_has_no_year(get: Get, instruments: Instruments) -> None:
    listed_ms = instruments["KRW-LINK"].listed_at_ms

    (ticker,) = get("ticker", markets="KRW-LINK", as_of_ms=listed_ms + DAY_MS // 2)

    assert ticker["lowest_52_week_date"] == ticker["highest_52_week_date"] == "2020-01-29"
    assert ticker["highest_52_week_price"] == ticker["high_price"]


def test_tickers_are_found_by_their_quotes(get: Get) -> None:
    found = get("ticker/all", quote_currencies="BTC")

    assert [each["market"] for each in found] == ["BTC-ETH", "BTC-XRP"]
    assert len(get("ticker/all", quote_currencies="KRW,BTC")) == 4


def test_very_small_numbers_have_exponents(body: Callable[..., bytes]) -> None:
    text = body("trades/ticks", market="BTC-XRP", count=1).decode()

    assert re.search(r'"trade_price":\d\.\d+e-05', text)


@pytest.mark.parametrize(
    ("path", "query", "refused"),
    [
        ("candles/minutes/1", {}, (400, 400)),
        ("candles/minutes/1", {"market": "KRW-NO"}, (404, 404)),
        ("candles/minutes/1", {"market": "krw-btc"}, (404, 404)),
        ("candles/minutes/2", {"market": "KRW-BTC"}, (400, "validation_error")),
        ("candles/days", {"market": "KRW-BTC", "count": 201}, (400, "validation_error")),
        ("candles/days", {"market": "KRW-BTC", "count": 0}, (400, "validation_error")),
        ("candles/days", {"market": "KRW-BTC", "to": "soon"}, (400, "validation_error")),
        ("trades/ticks", {"market": "KRW-BTC", "count": 501}, (400, "validation_error")),
        ("trades/ticks", {"market": "KRW-BTC", "days_ago": 8}, (400, "validation_error")),
        ("trades/ticks", {"market": "KRW-BTC", "days_ago": 0}, (400, "validation_error")),
        ("trades/ticks", {"market": "KRW-BTC", "to": "25:00:00"}, (400, "validation_error")),
        ("trades/ticks", {"market": "KRW-BTC", "cursor": "x"}, (400, "validation_error")),
        ("ticker", {}, (400, 400)),
        ("ticker", {"markets": "KRW-BTC,KRW-NO"}, (404, 404)),
        ("orderbook", {"markets": "KRW-NO"}, (404, 404)),
        ("ticker/all", {}, (400, 400)),
    ],
)
def test_what_cannot_be_answered_is_refused(
    refusal: Refusal, path: str, query: dict[str, Any], refused: tuple[int, str | int]
) -> None:
    assert refusal(path, **query) == refused


def test_nothing_exists_before_its_listing(
    get: Get, refusal: Refusal, instruments: Instruments
) -> None:
    before_ms = instruments["KRW-LINK"].listed_at_ms - 1

    assert refusal("ticker", markets="KRW-LINK", as_of_ms=before_ms) == (404, 404)
    listed = get("market/all", as_of_ms=before_ms)
    assert "KRW-LINK" not in [each["market"] for each in listed]
