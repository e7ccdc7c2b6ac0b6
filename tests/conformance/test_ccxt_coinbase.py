"""ccxt and ccxt.pro, told only another address, see the simulated Coinbase as it is."""

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.coinbase import CATALOGUE
from penstock.simulator.market.listings import slug

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

STEPS_MS = {"1m": 60_000, "5m": 300_000, "1d": 86_400_000}
CANDLE = ("open", "high", "low", "close", "volume")
SEQUENCE_BITS = 10
LISTED = {f"{each.base}/{each.quote}": each for each in CATALOGUE.all()}
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    return start_simulator("coinbase")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    scripts = ("ccxt_coinbase_rest.py", "ccxt_coinbase_streams.py")
    return run_clients("ccxt", simulated.address, *scripts)


def _slug(unified: str) -> str:
    return slug(LISTED[unified])


def test_every_market_is_loaded_with_its_precision(results: Results) -> None:
    markets = results["markets"]

    assert set(markets) == {*LISTED, "BTCAUCTION/USD", "REP/USD"}
    assert not markets["REP/USD"]["active"]
    for unified, listing in LISTED.items():
        market = markets[unified]
        assert market["id"] == f"{listing.base}-{listing.quote}"
        assert market["active"]
        assert market["spot"]
        for name, decimals in (
            ("price", listing.price_decimals),
            ("amount", listing.quantity_decimals),
        ):
            assert Decimal(str(market["precision"][name])) == Decimal(1).scaleb(-decimals)
    assert {"USD", "EUR", "BTC", "1INCH"} <= set(results["currencies"])


@pytest.mark.parametrize(
    ("timeframe", "unified", "asked"),
    [("1m", "BTC/USD", 1200), ("5m", "1INCH/USD", 900), ("1d", "ETH/BTC", 1500)],
)
def test_candles_fetched_page_by_page_are_the_ledgers(
    simulated: "Simulated", results: Results, timeframe: str, unified: str, asked: int
) -> None:
    rows, step_ms = results["candles"][timeframe], STEPS_MS[timeframe]

    listed_ms = LISTED[unified].listed_at_ms
    borders = range(rows[0][0], rows[-1][0] + step_ms + 1, step_ms)
    truth = [each for each in simulated.candles(_slug(unified), borders) if each["trades"]]
    assert rows == [[each["start_ms"], *(float(each[name]) for name in CANDLE)] for each in truth]
    assert rows[0][0] >= listed_ms
    assert asked * 0.9 < len(rows) <= asked


def test_a_quiet_market_misses_minutes(results: Results) -> None:
    rows = results["candles"]["5m"]

    steps = {after[0] - before[0] for before, after in pairwise(rows)}
    assert len(steps) > 1


def test_ccxts_own_paging_gives_every_candle_once(simulated: "Simulated", results: Results) -> None:
    rows = results["by_ccxt"]

    assert len(rows) == 500
    borders = [row[0] for row in rows] + [rows[-1][0] + STEPS_MS["5m"]]
    truth = simulated.candles("btc_usd", borders)
    assert [row[1:] for row in rows] == [[float(each[name]) for name in CANDLE] for each in truth]


def test_the_newest_candles_are_three_hundred_minutes(results: Results) -> None:
    rows = results["newest"]

    assert 280 < len(rows) <= 300
    assert rows[-1][0] <= results["now"] + 10_000
    assert rows[-1][0] - rows[0][0] < 300 * STEPS_MS["1m"]


@pytest.mark.parametrize(
    ("name", "unified", "count"), [("trades", "BTC/USD", 3000), ("first_trades", "1INCH/USD", 2500)]
)
def test_trades_fetched_by_cursor_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, unified: str, count: int
) -> None:
    rows = results[name]
    ids = [int(row[0]) for row in rows]

    assert ids == list(range(ids[0], ids[0] + count))
    truth = simulated.trades(_slug(unified), range(ids[0], ids[-1] + 1))
    assert rows == [_unified(each, unified) for each in truth]
    if name == "first_trades":
        assert ids[0] == 1, "back to the first trade there was"


def _unified(trade: dict[str, Any], symbol: str) -> list[Any]:
    side = "buy" if trade["taker_buys"] else "sell"
    price, quantity = float(trade["price"]), float(trade["quantity"])
    return [str(trade["id"]), trade["at_ms"], price, quantity, side, symbol]


def test_a_book_is_the_ledgers_at_its_sequence(simulated: "Simulated", results: Results) -> None:
    book = results["book"]

    truth = simulated.book("btc_usd", book["nonce"] >> SEQUENCE_BITS, depth=100_000)
    assert len(book["bids"]) > 1000
    for side, rows in zip(("bids", "asks"), truth, strict=True):
        told = [[price, size] for price, size, _ in book[side]]
        assert told == [[float(price), float(size)] for price, size in rows]


def test_a_ticker_is_the_last_trade_and_the_last_day(
    simulated: "Simulated", results: Results
) -> None:
    ticker = results["ticker"]

    number = ticker["info"]["trade_id"]
    (trade,) = simulated.trades("btc_usd", range(number, number + 1))
    assert ticker["last"] == float(trade["price"])
    assert ticker["timestamp"] == trade["at_ms"]
    assert ticker["bid"] < ticker["ask"]
    assert set(results["tickers"]) == set(LISTED)


def test_refusals_have_ccxts_names(results: Results) -> None:
    assert results["bad_symbol"][1] == "coinbaseexchange NotFound"
    assert results["bad_cursor"][1] == 'coinbaseexchange Invalid value for "after"'
    assert results["bad_granularity"][1] == "coinbaseexchange Unsupported granularity"


def test_watched_trades_are_the_ledgers_without_a_gap(
    simulated: "Simulated", results: Results
) -> None:
    by_symbol: dict[str, list[Any]] = defaultdict(list)
    for row in results["watched_trades"]:
        by_symbol[row[-1]].append(row)

    assert by_symbol, "in some seconds some of the markets trade"
    for symbol, rows in by_symbol.items():
        first, last = int(rows[0][0]), int(rows[-1][0])
        truth = simulated.trades(_slug(symbol), range(first, last + 1))
        assert rows == [_unified(each, symbol) for each in truth]


def test_a_watched_book_stays_the_ledgers(simulated: "Simulated", results: Results) -> None:
    books = results["watched_books"]

    assert len({book["timestamp"] for book in books}) > 2
    for book in books:
        truth = simulated.ask(
            "ledger/book", symbol=_slug(book["symbol"]), at_ms=book["timestamp"], depth=200
        )
        for side in ("bids", "asks"):
            assert book[side] == [[float(price), float(size)] for price, size in truth[side]]


def test_a_watched_ticker_counts_the_last_day(simulated: "Simulated", results: Results) -> None:
    tickers = results["watched_tickers"]

    assert tickers
    for ticker in tickers:
        at_ms = ticker["timestamp"]
        truth = simulated.window("btc_usd", at_ms + 1 - STEPS_MS["1d"], at_ms)
        assert ticker["baseVolume"] == float(truth["volume"])
        assert [ticker[name] for name in CANDLE[:3]] == [float(truth[name]) for name in CANDLE[:3]]
        assert ticker["last"] == float(truth["close"])
        assert ticker["info"]["trade_id"] == truth["last_id"]
