"""Every endpoint against the market and the book, and its words when it will not answer."""

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from penstock.simulator.engine.exchange import Asked
from penstock.simulator.engine.rules import LimitTarget
from penstock.simulator.kraken import Kraken
from penstock.simulator.kraken.instrument import DAY_MS, Instrument
from penstock.simulator.kraken.rest import INTERVALS
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Sums

from .conftest import body_of

Get = Callable[..., Any]
Error = Callable[..., str]
Instruments = dict[str, Instrument]
MINUTE_MS = 60_000


def _units(text: str, decimals: int) -> Decimal:
    return Decimal(text).scaleb(decimals)


def test_time_and_status(get: Get, as_of_ms: int) -> None:
    assert get("Time") == {"unixtime": 1741178096, "rfc1123": "Wed, 05 Mar 25 12:34:56 +0000"}
    assert get("SystemStatus") == {"status": "online", "timestamp": "2025-03-05T12:34:56Z"}


def test_assets_have_their_ids_and_short_names(get: Get, error: Error) -> None:
    assets = get("Assets")

    shorts = {name: row["altname"] for name, row in assets.items()}
    assert shorts == {
        "XXBT": "XBT", "XETH": "ETH", "ZUSD": "USD", "ZEUR": "EUR",
        "XTZ": "XTZ", "USDT": "USDT", "SHIB": "SHIB",
    }  # fmt: skip
    assert get("Assets", asset="XBT,ZUSD").keys() == {"XXBT", "ZUSD"}
    assert assets["ZUSD"]["decimals"] == 4
    assert error("Assets", asset="XBT,NOPE") == "EQuery:Unknown asset"
    assert error("Assets", aclass="shares") == "EGeneral:Invalid arguments:aclass"


def test_pairs_are_told_with_all_their_names(get: Get, instruments: Instruments) -> None:
    pairs = get("AssetPairs")

    tradable = {name for name, row in pairs.items() if "wsname" in row}
    assert tradable == {each.pair.id for each in instruments.values()}
    for each in instruments.values():
        row, listing = pairs[each.pair.id], each.market.listing
        assert (row["altname"], row["wsname"]) == (each.pair.short, each.pair.slashed)
        assert (row["base"], row["quote"]) == (each.pair.base.id, each.pair.quote.id)
        assert (row["pair_decimals"], row["lot_decimals"]) == (listing.price_decimals, 8)
        assert Decimal(row["tick_size"]) == Decimal(1).scaleb(-listing.price_decimals)
        assert Decimal(row["ordermin"]) == Decimal(1).scaleb(-listing.quantity_decimals)
        assert row["status"] == "online"


def test_a_dark_pool_and_a_closing_pair_are_listed_without_a_wsname(get: Get, error: Error) -> None:
    bare = {name: row for name, row in get("AssetPairs").items() if "wsname" not in row}

    assert bare.keys() == {"XETHXXBT.d", "XBTCHF"}
    assert bare["XETHXXBT.d"]["altname"] == "ETHXBT.d"
    assert (bare["XBTCHF"]["quote"], bare["XBTCHF"]["status"]) == ("CHF", "cancel_only")
    assert error("Ticker", pair="XETHXXBT.d") == "EQuery:Unknown asset pair"


def test_parts_of_pairs_may_be_asked_for(get: Get, error: Error, exchange: Kraken) -> None:
    assert get("AssetPairs", pair="ETHUSD", info="margin") == {
        "XETHZUSD": {"margin_call": 80, "margin_stop": 40}
    }
    assert get("AssetPairs", info="fees")["XETHZUSD"].keys() == {
        "fees", "fees_maker", "fee_volume_currency",
    }  # fmt: skip
    assert error("AssetPairs", info="gossip") == "EGeneral:Invalid arguments:info"
    assert b'"wsname":"ETH\\/USD"' in body_of(exchange, "AssetPairs", 1_741_178_096_789, {})


@pytest.mark.parametrize(
    ("asked", "told"),
    [("XETHZUSD", "XETHZUSD"), ("ETHUSD", "XETHZUSD"), ("ETH/USD", "ETH/USD")],
)
def test_a_pair_is_understood_by_any_name_and_told_by_its_id_or_with_its_slash(
    get: Get, asked: str, told: str
) -> None:
    for endpoint in ("AssetPairs", "Ticker", "OHLC", "Depth", "Trades", "Spread"):
        assert next(iter(get(endpoint, pair=asked))) == told


def test_a_ticker_counts_today_and_a_day(get: Get, instruments: Instruments, as_of_ms: int) -> None:
    tickers = get("Ticker")

    assert tickers.keys() == {each.pair.id for each in instruments.values()}
    assert get("Ticker", pair="ETHUSD,XTZUSD").keys() == {"XETHZUSD", "XTZUSD"}
    for each in instruments.values():
        row, market, listing = tickers[each.pair.id], each.market, each.market.listing
        starts = (as_of_ms // DAY_MS * DAY_MS, as_of_ms + 1 - DAY_MS)
        for index, start_ms in enumerate(starts):
            sums = market.sums(start_ms, as_of_ms + 1)
            assert row["t"][index] == sums.trades
            assert _units(row["v"][index], listing.quantity_decimals) == sums.volume
            assert _units(row["l"][index], listing.price_decimals) == sums.low
            assert _units(row["h"][index], listing.price_decimals) == sums.high
            average = Decimal(sums.quote) / sums.volume
            assert abs(_units(row["p"][index], listing.price_decimals) - average) <= Decimal("0.5")
        assert _units(row["o"], listing.price_decimals) == market.sums(starts[0], as_of_ms).open
        last = market.last_before(as_of_ms + 1)
        assert _units(row["c"][0], listing.price_decimals) == last.price
        assert _units(row["c"][1], listing.quantity_decimals) == last.quantity
        assert Decimal(row["b"][0]) < Decimal(row["a"][0])


@pytest.mark.parametrize("interval", INTERVALS)
def test_candles_are_the_markets_and_end_with_the_running_one(
    get: Get, instruments: Instruments, as_of_ms: int, interval: int
) -> None:
    instrument = instruments["ETH/USD"]
    answer = get("OHLC", pair="ETHUSD", interval=interval)
    rows, step_ms = answer["XETHZUSD"], interval * MINUTE_MS

    assert len(rows) == 721 or rows[0][0] * 1000 <= instrument.listed_at_ms < rows[1][0] * 1000
    assert rows[-1][0] * 1000 == as_of_ms // step_ms * step_ms
    assert answer["last"] == rows[-2][0]
    for before, after in pairwise(rows):
        assert (after[0] - before[0]) * 1000 == step_ms
    for row in (rows[0], rows[len(rows) // 2], rows[-2], rows[-1]):
        start_ms = max(row[0] * 1000, instrument.listed_at_ms)
        end_ms = min(row[0] * 1000 + step_ms, as_of_ms + 1)
        _check_candle(instrument, row, instrument.market.sums(start_ms, end_ms))


def _check_candle(instrument: Instrument, row: Any, sums: Sums) -> None:
    listing = instrument.market.listing
    prices = [_units(text, listing.price_decimals) for text in row[1:5]]
    assert prices == [sums.open, sums.high, sums.low, sums.close]
    assert all(len(text.partition(".")[2]) == listing.price_decimals for text in row[1:6])
    assert _units(row[6], listing.quantity_decimals) == sums.volume
    assert row[7] == sums.trades
    average = Decimal(sums.quote) / sums.volume if sums.volume else Decimal(0)
    assert abs(_units(row[5], listing.price_decimals) - average) <= Decimal("0.5")


def test_a_minute_without_trades_is_flat(get: Get, instruments: Instruments) -> None:
    rows = get("OHLC", pair="XTZUSD")["XTZUSD"]
    empty = [(before, row) for before, row in pairwise(rows) if row[7] == 0]

    assert empty
    for before, row in empty:
        assert row[1:] == [before[4]] * 4 + ["0.0000", "0.00000000", 0]


def test_no_candle_older_than_the_newest_720_can_be_had(get: Get) -> None:
    latest = get("OHLC", pair="ETHUSD")["XETHZUSD"]

    assert get("OHLC", pair="ETHUSD", since=0)["XETHZUSD"] == latest
    polled = get("OHLC", pair="ETHUSD", since=latest[-3][0])
    assert polled["XETHZUSD"] == latest[-2:]
    assert get("OHLC", pair="ETHUSD", since=latest[-1][0])["XETHZUSD"] == []


def test_a_young_market_has_the_candles_since_its_listing(
    get: Get, instruments: Instruments
) -> None:
    listed_ms = instruments["SHIB/USD"].listed_at_ms
    answer = get("OHLC", listed_ms + 90_000, pair="SHIBUSD")

    assert [row[0] * 1000 for row in answer["SHIBUSD"]] == [listed_ms, listed_ms + MINUTE_MS]
    assert get("OHLC", listed_ms, pair="SHIBUSD")["last"] * 1000 == listed_ms


def test_depth_is_the_book_of_the_slots_that_have_ended(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    instrument = instruments["ETH/USD"]
    sides = get("Depth", pair="ETHUSD", count=500)["XETHZUSD"]

    book, listing = instrument.book, instrument.market.listing
    truth = book.at(book.update_id(as_of_ms // Book.SLOT_MS - 1), 500)
    for side, levels in zip((sides["bids"], sides["asks"]), truth, strict=True):
        assert [_units(row[0], listing.price_decimals) for row in side] == [p for p, _ in levels]
        for row, (_, quantity) in zip(side, levels, strict=True):
            exact = Decimal(quantity).scaleb(-listing.quantity_decimals)
            assert abs(Decimal(row[1]) - exact) <= Decimal("0.0005")
            assert as_of_ms // 1000 - 5 <= row[2] <= as_of_ms // 1000
    assert len(get("Depth", pair="ETHUSD")["XETHZUSD"]["asks"]) == 100


def test_trades_are_paged_from_the_first_one_on_without_a_hole(
    get: Get, instruments: Instruments
) -> None:
    market, since, rows = instruments["ETH/USD"].market, "0", []
    for count in (1000, 7, 1, 3, 500):
        answer = get("Trades", pair="ETHUSD", since=since, count=count)
        assert len(answer["XETHZUSD"]) == count
        rows += answer["XETHZUSD"]
        since = answer["last"]

    listing = market.listing
    for row, trade in zip(rows, market.trades(1, len(rows)), strict=True):
        assert row[6] == trade.id
        assert _units(row[0], listing.price_decimals) == trade.price
        assert _units(row[1], listing.quantity_decimals) == trade.quantity
        assert int(row[2] * 1000) == trade.at_ms
        assert row[3] == ("b" if trade.taker_buys else "s")
        assert row[4] in ("m", "l")


def test_without_since_the_newest_trades_come_and_none_from_the_future(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    market = instruments["ETH/USD"].market
    answer = get("Trades", pair="ETHUSD")
    rows = answer["XETHZUSD"]

    assert [row[6] for row in rows] == list(range(rows[0][6], rows[0][6] + 1000))
    assert rows[-1][6] == market.id_at(as_of_ms + 1) - 1
    after = get("Trades", pair="ETHUSD", since=answer["last"])
    assert after == {"XETHZUSD": [], "last": answer["last"]}


def test_since_may_be_in_seconds(get: Get, as_of_ms: int) -> None:
    second = as_of_ms // 1000 - 60

    by_second = get("Trades", pair="ETHUSD", since=second)
    assert by_second == get("Trades", pair="ETHUSD", since=second * 10**9)
    assert by_second["XETHZUSD"][0][2] > second
    later = get("Trades", pair="ETHUSD", since=f"{second}.5")["XETHZUSD"]
    assert later[0][2] > second + 0.5


def test_the_spread_is_that_of_the_newest_trades(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    answer = get("Spread", pair="ETHUSD")
    rows = answer["XETHZUSD"]
    (bid, _), (ask, _) = instruments["ETH/USD"].touch(as_of_ms)

    assert 50 < len(rows) <= 200
    assert all(Decimal(row[1]) < Decimal(row[2]) for row in rows)
    assert [_units(text, 2) for text in rows[-1][1:]] == [bid, ask]
    assert get("Spread", pair="ETHUSD", since=answer["last"])["XETHZUSD"] == []


@pytest.mark.parametrize(
    ("endpoint", "query", "text"),
    [
        ("Depth", {}, "EGeneral:Invalid arguments"),
        ("Depth", {"pair": "NOPE"}, "EQuery:Unknown asset pair"),
        ("Depth", {"pair": "ETHUSD", "count": "0"}, "EGeneral:Invalid arguments:count"),
        ("Depth", {"pair": "ETHUSD", "count": "501"}, "EGeneral:Invalid arguments:count"),
        ("Trades", {"pair": "ETHUSD", "count": "1001"}, "EGeneral:Invalid arguments:count"),
        ("Trades", {"pair": "ETHUSD", "since": "now"}, "EGeneral:Invalid arguments:since"),
        ("Trades", {"pair": "ETHUSD", "since": "-1"}, "EGeneral:Invalid arguments:since"),
        ("Trades", {"pair": "ETHUSD", "since": "NaN"}, "EGeneral:Invalid arguments:since"),
        ("OHLC", {"pair": "ETHUSD", "interval": "7"}, "EGeneral:Invalid arguments:interval"),
        ("OHLC", {"pair": "ETHUSD", "interval": "²"}, "EGeneral:Invalid arguments:interval"),
        ("OHLC", {}, "EGeneral:Invalid arguments"),
        ("Ticker", {"pair": "ETHUSD,NOPE"}, "EQuery:Unknown asset pair"),
        ("AssetPairs", {"pair": "NOPE"}, "EQuery:Unknown asset pair"),
    ],
)
def test_what_is_wrong_is_refused_inside_a_200(
    error: Error, endpoint: str, query: dict[str, str], text: str
) -> None:
    assert error(endpoint, **query) == text


def test_nothing_is_listed_before_its_day(get: Get, error: Error, instruments: Instruments) -> None:
    before_ms = instruments["SHIB/USD"].listed_at_ms - 1

    assert "SHIBUSD" not in get("AssetPairs", before_ms)
    assert error("Trades", before_ms, pair="SHIBUSD") == "EQuery:Unknown asset pair"


def test_candles_and_trades_are_counted_by_pair_whatever_it_is_called(exchange: Kraken) -> None:
    for name in ("OHLC", "Trades"):
        target = exchange.routes[f"/0/public/{name}"].target
        keys = {target(Asked({"pair": pair})) for pair in ("ETHUSD", "XETHZUSD", "ETH/USD")}
        assert keys == {LimitTarget("pair", "XETHZUSD")}
        assert target(Asked({"pair": "NOPE"})) == target(Asked({})) == LimitTarget("pair", "")
    assert exchange.routes["/0/public/Depth"].target(Asked({"pair": "ETHUSD"})) == LimitTarget(
        "public"
    )


def test_unknown_paths(exchange: Kraken) -> None:
    assert exchange.not_found("/0/public/Nope").body == b'{"error":["EGeneral:Unknown method"]}'
    assert exchange.not_found("/0/public/Nope").status == 200
    assert exchange.not_found("/").status == 404
