"""binance-connector, told only another address, sees the simulator's markets as they are."""

import re
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.binance.listings import CATALOGUE
from penstock.simulator.market.listings import slug

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

MINUTE_MS, DAY_MS = 60_000, 86_400_000
SLUGS = {each.base + each.quote: slug(each) for each in CATALOGUE.all()}
Results = dict[str, Any]
RunClients = Callable[..., Results]


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: RunClients) -> Results:
    scripts = ("binance_connector_rest.py", "binance_connector_streams.py")
    return run_clients("binance-connector", simulated.address, *scripts)


def _decimals(row: dict[str, Any], *names: str) -> list[Decimal]:
    return [Decimal(row[name]) for name in names]


def test_a_ping_is_answered_and_its_weight_told(results: Results) -> None:
    assert results["ping"] == {}
    assert int(results["usage"]["x-mbx-used-weight-1m"]) >= 1


def test_exchange_information_can_be_narrowed(results: Results) -> None:
    symbols = {each["symbol"]: each for each in results["info"]["symbols"]}

    assert set(symbols) == set(SLUGS)
    some = results["some_info"]["symbols"]
    assert {each["symbol"] for each in some} == {"BTCUSDT", "SHIBUSDT"}
    assert all(each == symbols[each["symbol"]] for each in some)


def test_the_deepest_book_is_the_ledgers(simulated: "Simulated", results: Results) -> None:
    book = results["book"]

    bids, asks = simulated.book("shib_usdt", book["lastUpdateId"], depth=5000)
    assert [(Decimal(price), Decimal(quantity)) for price, quantity in book["bids"]] == bids
    assert [(Decimal(price), Decimal(quantity)) for price, quantity in book["asks"]] == asks


@pytest.mark.parametrize(("name", "symbol"), [("trades", "btc_usdt"), ("old_trades", "eth_btc")])
def test_trades_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, symbol: str
) -> None:
    rows = results[name]

    assert len(rows) == 1000
    first = rows[0]["id"]
    for row, truth in zip(rows, simulated.trades(symbol, range(first, first + 1000)), strict=True):
        price, quantity = _decimals(truth, "price", "quantity")
        assert (row["id"], row["time"]) == (truth["id"], truth["at_ms"])
        assert _decimals(row, "price", "qty", "quoteQty") == [price, quantity, price * quantity]
        assert row["isBuyerMaker"] is not truth["taker_buys"]
    if name == "old_trades":
        assert first == 123_456


@pytest.mark.parametrize(
    ("name", "symbol"), [("agg_trades", "shib_usdt"), ("agg_by_time", "btc_usdt")]
)
def test_aggregate_trades_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, symbol: str
) -> None:
    rows = results[name]

    assert rows
    ids = range(rows[0]["a"], rows[-1]["a"] + 1)
    for row, truth in zip(rows, simulated.agg_trades(symbol, ids), strict=True):
        assert [row[key] for key in "aflT"] == [
            truth[key] for key in ("id", "first_id", "last_id", "at_ms")
        ]
        assert _decimals(row, "p", "q") == _decimals(truth, "price", "quantity")
        assert row["m"] is not truth["taker_buys"]
    assert all(after["f"] == before["l"] + 1 for before, after in pairwise(rows))


def test_candles_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    rows = [row for row in results["klines"] if row[6] < results["now"]]

    assert len(rows) >= 2499
    _check_klines(simulated, rows, [row[0] for row in rows] + [rows[-1][6] + 1])
    months = results["months"]
    assert len(months) == 50
    _check_klines(simulated, months, [row[0] for row in months] + [months[-1][6] + 1])
    hours = results["ui_klines"]
    _check_klines(simulated, hours[:-1], [row[0] for row in hours])


def _check_klines(simulated: "Simulated", rows: list[Any], borders: list[int]) -> None:
    names = ("open", "high", "low", "close", "volume", "quote", "taker_volume", "taker_quote")
    for row, truth in zip(rows, simulated.candles("btc_usdt", borders), strict=True):
        seen = [Decimal(row[place]) for place in (1, 2, 3, 4, 5, 7, 9, 10)]
        assert seen == _decimals(truth, *names)
        assert (row[0], row[6], row[8]) == (truth["start_ms"], truth["end_ms"] - 1, truth["trades"])


def test_tickers_of_every_kind_count_their_window(simulated: "Simulated", results: Results) -> None:
    day, rolling = results["trading_day"], results["rolling"]
    assert day["openTime"] % DAY_MS == 0
    assert day["closeTime"] - day["openTime"] == DAY_MS - 1
    assert rolling["openTime"] % MINUTE_MS == 0
    assert [each["symbol"] for each in results["tickers"]] == ["BTCUSDT", "SHIBUSDT"]

    for ticker in (results["ticker"], *results["tickers"], rolling, day):
        # The trading day has not ended: of its trades, those up to the last one are counted.
        truth = simulated.window(SLUGS[ticker["symbol"]], ticker["openTime"], ticker["closeTime"])
        if ticker is day:
            trade = simulated.trades("eth_usdt", range(day["lastId"], day["lastId"] + 1))[0]
            truth = simulated.window("eth_usdt", day["openTime"], trade["at_ms"])
        prices = ("openPrice", "highPrice", "lowPrice", "lastPrice", "volume", "quoteVolume")
        assert _decimals(ticker, *prices) == _decimals(
            truth, "open", "high", "low", "close", "volume", "quote"
        )
        assert [ticker[key] for key in ("firstId", "lastId", "count")] == [
            truth[key] for key in ("first_id", "last_id", "trades")
        ]


def test_small_answers_have_their_shape(results: Results) -> None:
    eight = re.compile(r"\d+\.\d{8}")

    assert results["price"]["symbol"] == "ETHUSDT"
    assert eight.fullmatch(results["price"]["price"])
    assert [each["symbol"] for each in results["best_of_some"]] == ["BTCUSDT", "ETHUSDT"]
    for best in (results["best"], *results["best_of_some"]):
        bid, ask = _decimals(best, "bidPrice", "askPrice")
        assert bid < ask
        assert eight.fullmatch(best["bidQty"])
        assert eight.fullmatch(best["askQty"])
    assert results["average"]["mins"] == 5


def test_refusals_are_client_errors_with_the_exchanges_code(results: Results) -> None:
    assert results["bad_symbol"] == [400, -1121, "Invalid symbol."]
    assert results["bad_interval"] == [400, -1120, "Invalid interval."]
    assert results["bad_limit"][:2] == [400, -1100]
    assert results["unknown_parameter"][:2] == [400, -1104]
    assert results["bad_combination"][:2] == [400, -1128]


def test_subscriptions_are_acknowledged_and_listed(results: Results) -> None:
    acks = [frame for frame in results["raw"] if "result" in frame]

    assert [ack["result"] for ack in acks] == [None] * 5
    (listed,) = [frame for frame in results["combined"] if frame.get("id") == 7]
    assert len(listed["result"]) == 9
    assert "nosuch@trade" in listed["result"], "what does not exist is accepted without a word"
    assert results["failures"] == []


def test_pings_are_told_in_milliseconds_and_pongs_keep_the_connection(results: Results) -> None:
    assert len(results["pings"]) >= 4, "two connections, pinged every two seconds"
    assert all(re.fullmatch(r"\d{13}", payload) for payload in results["pings"])


def test_trades_arrive_once_each_until_unsubscribed(
    simulated: "Simulated", results: Results
) -> None:
    by_symbol: dict[str, list[Any]] = defaultdict(list)
    wrapped = [frame["data"] for frame in results["combined"] if "data" in frame]
    for frame in (*results["raw"], *wrapped):
        if frame.get("e") == "trade":
            by_symbol[frame["s"]].append(frame)
    assert by_symbol, "in some seconds some of the busy markets trade"
    for symbol, frames in by_symbol.items():
        ids = range(frames[0]["t"], frames[-1]["t"] + 1)
        for frame, truth in zip(frames, simulated.trades(SLUGS[symbol], ids), strict=True):
            assert (frame["t"], frame["T"]) == (truth["id"], truth["at_ms"])
            assert _decimals(frame, "p", "q") == _decimals(truth, "price", "quantity")
            assert frame["m"] is not truth["taker_buys"]

    last_ack = max(place for place, frame in enumerate(results["raw"]) if "result" in frame)
    assert all(frame["e"] != "trade" for frame in results["raw"][last_ack + 1 :])


def test_deltas_carry_a_snapshot_on(simulated: "Simulated", results: Results) -> None:
    deltas = [frame for frame in results["raw"] if frame.get("e") == "depthUpdate"]

    assert simulated.count_joined("btc_usdt", results["snapshot"], deltas) >= 5


def test_best_prices_agree_with_the_book_where_a_delta_ends(
    simulated: "Simulated", results: Results
) -> None:
    frames = [f["data"] for f in results["combined"] if f.get("stream") == "btcusdt@bookTicker"]
    ends = {frame["u"] for frame in results["raw"] if frame.get("e") == "depthUpdate"}

    assert all(before["u"] < after["u"] for before, after in pairwise(frames))
    for frame in frames:
        if frame["u"] in ends:
            bids, asks = simulated.book("btc_usdt", frame["u"], depth=1)
            assert [*bids[0], *asks[0]] == _decimals(frame, "b", "B", "a", "A")


def test_klines_and_mini_tickers_count_up_to_the_event(
    simulated: "Simulated", results: Results
) -> None:
    klines = [frame for frame in results["raw"] if frame.get("e") == "kline"]
    minis = [frame for frame in results["raw"] if frame.get("e") == "24hrMiniTicker"]

    assert min(len(klines), len(minis)) >= 3
    names = ("open", "high", "low", "close", "volume", "quote")
    for frame in klines:
        truth = simulated.window("btc_usdt", frame["k"]["t"], frame["E"] - 1)
        assert _decimals(frame["k"], *"ohlcvq") == _decimals(truth, *names)
        assert (frame["k"]["x"], frame["k"]["n"]) == (True, truth["trades"])
    for frame in minis:
        truth = simulated.window("btc_usdt", frame["E"] - DAY_MS, frame["E"])
        assert _decimals(frame, *"ohlcvq") == _decimals(truth, *names)


def test_a_client_over_the_limit_is_refused_then_banned_then_served_again(
    refusing: "Simulated", run_clients: RunClients
) -> None:
    results = run_clients("binance-connector", refusing.address, "binance_connector_limits.py")

    *limited, banned = [each for each in results["outcomes"] if each["status"] != 200]
    assert limited
    for each in (*limited, banned):
        assert (each["kind"], each["code"]) == ("ClientError", -1003)
        assert int(each["used"]) > 10
        assert int(each["retry_after"]) >= 1
    assert {each["status"] for each in limited} == {429}
    assert banned["status"] == 418
    assert results["after"]["status"] == 200
    assert results["broken"] == {"kind": "ServerError", "status": 500}
    assert results["page"]["status"] in (200, 403, 502)
