"""ccxt and ccxt.pro, told only another address, see the simulator's markets as they are."""

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

STEPS_MS = {"1m": 60_000, "5m": 300_000, "1h": 3_600_000, "1d": 86_400_000, "1w": 604_800_000}
CANDLE = ("open", "high", "low", "close", "volume")
Results = dict[str, Any]
RunClients = Callable[..., Results]


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: RunClients) -> Results:
    return run_clients("ccxt", simulated.address, "ccxt_rest.py", "ccxt_streams.py")


def _slug(unified: str) -> str:
    (found,) = [each for each in CATALOGUE.all() if f"{each.base}/{each.quote}" == unified]
    return slug(found)


def _floats(rows: Sequence[Sequence[str]]) -> list[list[float]]:
    return [[float(price), float(quantity)] for price, quantity in rows]


def _check_candles(simulated: "Simulated", symbol: str, borders: list[int], rows: Any) -> None:
    truth = simulated.candles(symbol, borders)
    assert [row[0] for row in rows] == borders[:-1]
    assert [row[1:] for row in rows] == [[float(each[name]) for name in CANDLE] for each in truth]


def test_every_simulated_market_is_loaded_with_its_precision(results: Results) -> None:
    markets = results["markets"]

    assert set(markets) == {f"{each.base}/{each.quote}" for each in CATALOGUE.all()}
    for each in CATALOGUE.all():
        market = markets[f"{each.base}/{each.quote}"]
        assert market["id"] == each.base + each.quote
        assert market["active"]
        assert market["spot"]
        assert Decimal(str(market["precision"]["price"])) == Decimal(1).scaleb(-each.price_decimals)
        assert Decimal(str(market["precision"]["amount"])) == Decimal(1).scaleb(
            -each.quantity_decimals
        )
        assert market["limits"]["amount"]["min"] == market["precision"]["amount"]


@pytest.mark.parametrize(
    ("timeframe", "symbol", "count"),
    [
        ("1m", "btc_usdt", 2500),
        ("1h", "eth_btc", 1500),
        ("1d", "shib_usdt", 1200),
        ("1w", "btc_usdt", 400),
    ],
)
def test_candles_fetched_page_by_page_are_the_ledgers(
    simulated: "Simulated", results: Results, timeframe: str, symbol: str, count: int
) -> None:
    rows, step_ms = results["candles"][timeframe], STEPS_MS[timeframe]

    assert len(rows) == count
    # The candle of the present minute or hour was still running when it was fetched.
    closed = [row for row in rows if row[0] + step_ms <= results["now"]]
    assert len(closed) >= count - 1
    borders = [row[0] for row in closed] + [closed[-1][0] + step_ms]
    _check_candles(simulated, symbol, borders, closed)


def test_months_follow_the_calendar(simulated: "Simulated", results: Results) -> None:
    rows = results["candles"]["1M"]

    assert len(rows) == 90
    _check_candles(simulated, "btc_usdt", [row[0] for row in rows], rows[:-1])


def test_ccxts_own_paging_gives_every_candle_once(simulated: "Simulated", results: Results) -> None:
    rows = results["by_ccxt"]

    assert len(rows) > 200
    borders = [row[0] for row in rows] + [rows[-1][0] + STEPS_MS["5m"]]
    _check_candles(simulated, "btc_usdt", borders, rows)


def test_the_newest_candle_is_the_running_one(simulated: "Simulated", results: Results) -> None:
    *closed, running = results["newest"]

    assert len(closed) == 2
    _check_candles(simulated, "btc_usdt", [row[0] for row in results["newest"]], closed)
    start_ms, first, high, low, last, volume = running
    assert low <= min(first, last) <= max(first, last) <= high
    # The ledger knows already what the minute will have been.
    whole = simulated.window("btc_usdt", start_ms, start_ms + STEPS_MS["1m"] - 1)
    assert volume <= float(whole["volume"])
    if volume:
        assert first == float(whole["open"])
        assert float(whole["low"]) <= low <= high <= float(whole["high"])


def test_aggregate_trades_fetched_by_time_and_then_by_id_are_the_ledgers(
    simulated: "Simulated", results: Results
) -> None:
    rows = results["agg_trades"]
    ids = [int(row[0]) for row in rows]

    assert ids == list(range(ids[0], ids[0] + 3000))
    truth = simulated.agg_trades("btc_usdt", range(ids[0], ids[-1] + 1))
    assert rows == [_unified(each, "BTC/USDT") for each in truth]
    before = simulated.agg_trades("btc_usdt", range(ids[0] - 1, ids[0]))[0]
    asked_ms = results["now"] - STEPS_MS["1d"]
    assert before["at_ms"] < asked_ms <= rows[0][1]


def test_old_trades_fetched_by_id_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    rows = results["trades"]
    first = int(results["ticker"]["info"]["firstId"])

    assert len(rows) == 2000
    truth = simulated.trades("btc_usdt", range(first, first + 2000))
    assert rows == [_unified(each, "BTC/USDT") for each in truth]


def _unified(trade: dict[str, Any], symbol: str) -> list[Any]:
    side = "buy" if trade["taker_buys"] else "sell"
    price, quantity = float(trade["price"]), float(trade["quantity"])
    return [str(trade["id"]), trade["at_ms"], price, quantity, side, symbol]


@pytest.mark.parametrize("limit", ["5", "10", "20", "50", "100", "500", "1000", "not ASCII"])
def test_a_book_is_the_ledgers_at_its_nonce(
    simulated: "Simulated", results: Results, limit: str
) -> None:
    book = results["books"][limit]
    depth = int(limit) if limit.isdecimal() else 100

    truth = simulated.ask(
        "ledger/book", symbol=_slug(book["symbol"]), update_id=book["nonce"], depth=depth
    )
    assert len(book["bids"]) == depth
    assert book["bids"] == _floats(truth["bids"])
    assert book["asks"] == _floats(truth["asks"])


def test_tickers_count_the_last_day_of_every_market(
    simulated: "Simulated", results: Results
) -> None:
    tickers = results["tickers"]

    assert set(tickers) == set(results["markets"])
    assert set(results["some_tickers"]) == {"BTC/USDT", "币安人生/USDT"}
    for ticker in (results["ticker"], *tickers.values(), *results["some_tickers"].values()):
        info = ticker["info"]
        truth = _check_ticker(simulated, ticker, int(info["openTime"]), int(info["closeTime"]))
        assert int(info["closeTime"]) - int(info["openTime"]) == STEPS_MS["1d"]
        assert int(info["count"]) == truth["trades"] > 0
        assert ticker["bid"] < ticker["ask"]


def _check_ticker(
    simulated: "Simulated", ticker: Any, open_ms: int, close_ms: int
) -> dict[str, Any]:
    truth = simulated.window(_slug(ticker["symbol"]), open_ms, close_ms)
    assert [ticker[name] for name in CANDLE[:4]] == [float(truth[name]) for name in CANDLE[:4]]
    assert ticker["baseVolume"] == float(truth["volume"])
    assert ticker["quoteVolume"] == float(truth["quote"])
    assert ticker["last"] == float(truth["close"])
    assert ticker["change"] == float(Decimal(truth["close"]) - Decimal(truth["open"]))
    assert ticker["timestamp"] == close_ms
    return truth


def test_best_prices_and_last_prices_agree_with_the_market(results: Results) -> None:
    best = results["best"]["BTC/USDT"]

    assert best["bid"] < best["ask"]
    assert set(results["prices"]) == set(results["markets"])
    assert abs(results["prices"]["BTC/USDT"]["price"] / best["bid"] - 1) < 0.01


def test_refusals_have_ccxts_names(results: Results) -> None:
    for name, kind, code in (
        ("bad_symbol", "BadSymbol", "-1121"),
        ("bad_interval", "BadRequest", "-1120"),
        ("missing", "BadRequest", "-1102"),
    ):
        assert results[name][0] == kind
        assert code in results[name][1]


def test_watched_trades_are_the_ledgers_without_a_gap(
    simulated: "Simulated", results: Results
) -> None:
    by_symbol: dict[str, list[Any]] = defaultdict(list)
    for row in results["watched_trades"]:
        by_symbol[row[-1]].append(row)

    assert by_symbol, "in some seconds some of the busy markets trade"
    for symbol, rows in by_symbol.items():
        first, last = int(rows[0][0]), int(rows[-1][0])
        truth = simulated.trades(_slug(symbol), range(first, last + 1))
        assert rows == [_unified(each, symbol) for each in truth]


def test_a_watched_book_stays_the_ledgers(simulated: "Simulated", results: Results) -> None:
    books = results["watched_books"]

    assert len({book["nonce"] for book in books if book["symbol"] == "BTC/USDT"}) > 20
    assert {book["symbol"] for book in books} == {"BTC/USDT", "币安人生/USDT"}
    # Beyond what its snapshot had, the library does not know the levels that the price moves to.
    first = {book["symbol"]: book for book in reversed(books)}
    for book in books:
        truth = simulated.ask(
            "ledger/book", symbol=_slug(book["symbol"]), update_id=book["nonce"], depth=50
        )
        lowest, highest = (first[book["symbol"]][side][-1][0] for side in ("bids", "asks"))
        for side in ("bids", "asks"):
            shown, true = (
                [row for row in rows if lowest <= row[0] <= highest]
                for rows in (book[side][:50], _floats(truth[side]))
            )
            assert shown == true


def test_a_watched_ticker_counts_the_last_day(simulated: "Simulated", results: Results) -> None:
    tickers = results["watched_tickers"]

    assert len(tickers) >= 3
    for ticker in tickers:
        info = ticker["info"]
        truth = _check_ticker(simulated, ticker, info["O"], info["C"])
        assert (info["F"], info["L"]) == (truth["first_id"], truth["last_id"])
        assert info["n"] == truth["trades"]
        assert ticker["bid"] < ticker["ask"]
    for before, after in pairwise(tickers):
        # The library gives the last of those that came since it was asked.
        assert after["timestamp"] > before["timestamp"]
        assert (after["timestamp"] - before["timestamp"]) % 1000 == 0


def test_a_watched_mini_ticker_counts_the_last_day(
    simulated: "Simulated", results: Results
) -> None:
    tickers = results["watched_mini_tickers"]

    assert len(tickers) >= 3
    for ticker in tickers:
        close_ms = ticker["timestamp"]
        _check_ticker(simulated, ticker, close_ms - STEPS_MS["1d"], close_ms)


def test_watched_candles_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    rows = [[start_ms, *values] for start_ms, values in results["watched_candles"]]

    assert len(rows) >= 3
    borders = [row[0] for row in rows] + [rows[-1][0] + 1000]
    _check_candles(simulated, "btc_usdt", borders, rows)


def test_a_client_over_the_limit_is_refused_then_banned_then_served_again(
    refusing: "Simulated", run_clients: RunClients
) -> None:
    results = run_clients("ccxt", refusing.address, "ccxt_limits.py")

    refused = [each for each in results["outcomes"] if each["kinds"]]
    *limited, banned = refused
    assert limited
    for each in refused:
        assert "DDoSProtection" in each["kinds"]
        assert "-1003" in each["text"]
        assert int(each["used"]) > 10
        assert int(each["retry_after"]) >= 1
    assert all(" 429 " in each["text"] for each in limited)
    assert " 418 " in banned["text"]
    assert results["after"]["kinds"] == []
    assert results["broken"]["kinds"][0] == "OperationFailed"
    assert "BaseError" in results["page"]["kinds"]
