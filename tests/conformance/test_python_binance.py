"""python-binance, told only another address, sees the simulator's markets as they are."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.binance.listings import CATALOGUE
from penstock.simulator.market.listings import slug

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

MINUTE_MS, WEEK_MS = 60_000, 604_800_000
EIGHT_DECIMALS = re.compile(r"\d+\.\d{8}")
SLUGS = {each.base + each.quote: slug(each) for each in CATALOGUE.all()}
SUMS = ("open", "high", "low", "close", "volume", "quote", "taker_volume", "taker_quote")
Results = dict[str, Any]
RunClients = Callable[..., Results]


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: RunClients) -> Results:
    scripts = ("python_binance_rest.py", "python_binance_streams.py")
    return run_clients("python-binance", simulated.address, *scripts)


def _exact(texts: Sequence[str]) -> list[Decimal]:
    """Numbers as the exchange spells them: always with eight decimals."""
    assert all(EIGHT_DECIMALS.fullmatch(text) for text in texts)
    return [Decimal(text) for text in texts]


def _true_sums(candle: dict[str, Any]) -> list[Decimal]:
    return [Decimal(candle[name]) for name in SUMS]


def _check_klines(simulated: "Simulated", symbol: str, rows: list[Any], step_ms: int) -> None:
    borders = [row[0] for row in rows] + [rows[-1][0] + step_ms]
    for row, truth in zip(rows, simulated.candles(symbol, borders), strict=True):
        start_ms, o, h, low, c, volume, last_ms, quote, count, taker, taker_quote, unused = row
        assert (start_ms, last_ms) == (truth["start_ms"], truth["end_ms"] - 1)
        assert _exact([o, h, low, c, volume, quote, taker, taker_quote]) == _true_sums(truth)
        assert count == truth["trades"]
        assert unused == "0"


def _check_trades(simulated: "Simulated", symbol: str, rows: list[Any]) -> None:
    truth = simulated.trades(symbol, range(rows[0]["id"], rows[-1]["id"] + 1))
    for row, true in zip(rows, truth, strict=True):
        assert (row["id"], row["time"]) == (true["id"], true["at_ms"])
        price, quantity = Decimal(true["price"]), Decimal(true["quantity"])
        assert _exact([row["price"], row["qty"], row["quoteQty"]]) == [
            price, quantity, price * quantity,
        ]  # fmt: skip
        assert row["isBuyerMaker"] is not true["taker_buys"]


def _check_agg_trades(simulated: "Simulated", symbol: str, rows: list[Any]) -> None:
    truth = simulated.agg_trades(symbol, range(rows[0]["a"], rows[-1]["a"] + 1))
    for row, true in zip(rows, truth, strict=True):
        names = ("id", "first_id", "last_id", "at_ms")
        assert [row[name] for name in "aflT"] == [true[name] for name in names]
        assert _exact([row["p"], row["q"]]) == [Decimal(true["price"]), Decimal(true["quantity"])]
        assert row["m"] is not true["taker_buys"]


def test_exchange_information_lists_every_market(results: Results) -> None:
    info = results["info"]

    assert {each["symbol"] for each in info["symbols"]} == set(SLUGS)
    assert info["rateLimits"][0] == {
        "rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 6000,
    }  # fmt: skip
    assert results["symbol_info"] in info["symbols"]
    filters = {each["filterType"]: each for each in results["symbol_info"]["filters"]}
    assert Decimal(filters["PRICE_FILTER"]["tickSize"]) == Decimal("0.000001")
    assert Decimal(filters["LOT_SIZE"]["stepSize"]) == 1


def test_a_days_minutes_come_page_by_page(simulated: "Simulated", results: Results) -> None:
    rows = [row for row in results["klines"] if row[6] < results["now"]]

    assert len(rows) in (1439, 1440), "the running minute may be among those of a day"
    _check_klines(simulated, "eth_usdt", rows, MINUTE_MS)


def test_years_of_weeks_come_page_by_page(simulated: "Simulated", results: Results) -> None:
    assert len(results["weeks"]) == 261
    _check_klines(simulated, "btc_usdt", results["weeks"], WEEK_MS)


def test_the_earliest_candle_opens_on_the_day_of_listing(results: Results) -> None:
    (listing,) = [each for each in CATALOGUE.all() if slug(each) == "btc_usdt"]

    assert results["earliest"] == listing.listed_at_ms


def test_aggregate_trades_are_iterated_over_without_a_gap(
    simulated: "Simulated", results: Results
) -> None:
    assert len(results["agg_by_time"]) == len(results["agg_by_id"]) == 1700
    assert results["agg_by_id"][0]["a"] == 1_000_001
    _check_agg_trades(simulated, "btc_usdt", results["agg_by_time"])
    _check_agg_trades(simulated, "xrp_usdt", results["agg_by_id"])


def test_trades_new_and_old_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    assert [row["id"] for row in results["old_trades"]] == list(range(77, 86))
    assert len(results["trades"]) == 50
    _check_trades(simulated, "btc_usdt", results["old_trades"])
    _check_trades(simulated, "btc_usdt", results["trades"])


def test_a_book_is_the_ledgers(simulated: "Simulated", results: Results) -> None:
    book = results["book"]

    bids, asks = simulated.book("eth_btc", book["lastUpdateId"], depth=500)
    assert [tuple(_exact(row)) for row in book["bids"]] == bids
    assert [tuple(_exact(row)) for row in book["asks"]] == asks


def test_tickers_count_the_last_day(simulated: "Simulated", results: Results) -> None:
    assert {each["symbol"] for each in results["tickers"]} == set(SLUGS)
    assert {each["symbol"] for each in results["prices"]} == set(SLUGS)
    assert {each["symbol"] for each in results["best"]} == set(SLUGS)
    for ticker in (results["ticker"], *results["tickers"]):
        truth = simulated.window(SLUGS[ticker["symbol"]], ticker["openTime"], ticker["closeTime"])
        names = ("openPrice", "highPrice", "lowPrice", "lastPrice", "volume", "quoteVolume")
        assert _exact([ticker[name] for name in names]) == _true_sums(truth)[:6]
        assert [ticker[name] for name in ("firstId", "lastId", "count")] == [
            truth[name] for name in ("first_id", "last_id", "trades")
        ]
        volume, quote = Decimal(truth["volume"]), Decimal(truth["quote"])
        assert abs(Decimal(ticker["weightedAvgPrice"]) - quote / volume) < Decimal("0.00000001")
    for best in results["best"]:
        assert Decimal(best["bidPrice"]) < Decimal(best["askPrice"])
    assert results["average"]["mins"] == 5


def test_refusals_carry_the_exchanges_code(results: Results) -> None:
    assert results["bad_symbol"] == [400, -1121, "Invalid symbol."]
    assert results["bad_interval"] == [400, -1120, "Invalid interval."]
    assert results["missing"][:2] == [400, -1102]
    assert results["lower_case"][:2] == [400, -1100]


def test_trade_sockets_give_every_trade_once(simulated: "Simulated", results: Results) -> None:
    by_symbol: dict[str, list[Any]] = defaultdict(list)
    for frame in results["multiplexed"]:
        assert frame["stream"] == f"{frame['data']['s'].lower()}@trade"
        by_symbol[frame["data"]["s"]].append(frame["data"])
    assert by_symbol, "in some seconds some of the busy markets trade"

    for frames in (results["trade_frames"], *by_symbol.values()):
        if frames:
            symbol = SLUGS[frames[0]["s"]]
            truth = simulated.trades(symbol, range(frames[0]["t"], frames[-1]["t"] + 1))
            assert [_seen(frame) for frame in frames] == [_true(trade) for trade in truth]


def _seen(frame: dict[str, Any]) -> list[Any]:
    assert (frame["e"], frame["M"]) == ("trade", True)
    return [frame["t"], frame["T"], *_exact([frame["p"], frame["q"]]), not frame["m"]]


def _true(trade: dict[str, Any]) -> list[Any]:
    exact = [Decimal(trade["price"]), Decimal(trade["quantity"])]
    return [trade["id"], trade["at_ms"], *exact, trade["taker_buys"]]


def test_depth_sockets_carry_a_snapshot_on(simulated: "Simulated", results: Results) -> None:
    joined = simulated.count_joined("btc_usdt", results["snapshot"], results["deltas"])

    assert joined >= 5
    slow = results["slow_deltas"]
    assert len(slow) >= 3
    assert all(after["U"] == before["u"] + 1 for before, after in pairwise(slow))


def test_partial_books_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    assert len(results["tops"]) >= 10
    for top in results["tops"]:
        bids, asks = simulated.book("btc_usdt", top["lastUpdateId"], depth=20)
        assert [tuple(_exact(row)) for row in top["bids"]] == bids
        assert [tuple(_exact(row)) for row in top["asks"]] == asks


def test_the_librarys_own_book_becomes_the_ledgers(
    simulated: "Simulated", results: Results
) -> None:
    # It opens its socket after its snapshot and then takes a second one, on which it applies deltas
    # that are older; so for a moment its book is of no one instant.
    caches = results["caches"][len(results["caches"]) // 2 :]

    assert len(caches) >= 10
    for cache in caches:
        bids, asks = simulated.book("btc_usdt", cache["update_id"], depth=200)
        assert [tuple(_exact(row)) for row in cache["bids"]] == bids
        assert [tuple(_exact(row)) for row in cache["asks"]] == asks


def test_kline_sockets_count_up_to_the_event(simulated: "Simulated", results: Results) -> None:
    frames = results["kline_frames"]

    assert sum(frame["k"]["x"] for frame in frames) >= 3
    for frame in frames:
        k = frame["k"]
        truth = simulated.window(SLUGS[k["s"]], k["t"], frame["E"] - 1)
        assert _exact([k[name] for name in "ohlcvqVQ"]) == _true_sums(truth)
        assert [k["n"], k["f"], k["L"]] == [
            truth[name] for name in ("trades", "first_id", "last_id")
        ]
        assert k["x"] is (frame["E"] == k["T"] + 1)


def test_a_client_over_the_limit_is_refused_then_banned_then_served_again(
    refusing: "Simulated", run_clients: RunClients
) -> None:
    results = run_clients("python-binance", refusing.address, "python_binance_limits.py")

    *limited, banned = [each for each in results["outcomes"] if each["status"] != 200]
    assert limited
    for each in (*limited, banned):
        assert each["code"] == -1003
        assert int(each["used"]) > 10
        assert int(each["retry_after"]) >= 1
    assert {each["status"] for each in limited} == {429}
    assert banned["status"] == 418
    assert results["after"]["status"] == 200
    assert (results["broken"]["status"], results["broken"]["code"]) == (500, -1000)
    assert results["page"]["code"] in (0, "no JSON")
