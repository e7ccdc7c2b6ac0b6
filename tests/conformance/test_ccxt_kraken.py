"""ccxt and ccxt.pro, told another address and a wider limit, see the simulated Kraken as it is.

ccxt can be told to check the checksums of books, but takes numbers as floats and then for texts,
and fails on itself; python-kraken-sdk checks them in a test of its own.
"""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.kraken.listings import CATALOGUE
from penstock.simulator.kraken.names import pair
from penstock.simulator.market.listings import slug

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

STEPS_MS = {"1m": 60_000, "5m": 300_000, "1h": 3_600_000, "1d": 86_400_000, "1w": 604_800_000}
CANDLE = ("open", "high", "low", "close", "volume")
DARK = "ETH/BTC"  # ccxt takes the dark pool, which is listed behind it, for the pair itself
LISTED = {f"{each.base}/{each.quote}": each for each in CATALOGUE.all()}
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    # One request per second is what ccxt keeps to by itself, and would make it wait for long.
    return start_simulator("kraken", limits="public=15/1.5,pair=15/1.5")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    scripts = ("ccxt_kraken_rest.py", "ccxt_kraken_streams.py")
    return run_clients("ccxt", simulated.address, *scripts)


def _slug(unified: str) -> str:
    return slug(LISTED[unified])


def test_every_market_is_loaded_with_its_names_and_precision(results: Results) -> None:
    markets = results["markets"]

    assert set(markets) == {*LISTED, "BTC/CHF"}
    assert not markets["BTC/CHF"]["active"]
    assert markets[DARK]["id"] == "XETHXXBT.d"
    for unified, listing in LISTED.items():
        market, names = markets[unified], pair(listing)
        assert market["active"]
        if unified != DARK:
            assert (market["id"], market["altname"]) == (names.id, names.short)
            assert market["wsId"] == names.slashed
        precision = Decimal(str(market["precision"]["price"]))
        assert precision == Decimal(1).scaleb(-listing.price_decimals)
    assert {"BTC", "DOGE", "USD", "XTZ", "ZRX"} <= set(results["currencies"])


@pytest.mark.parametrize("timeframe", STEPS_MS)
def test_candles_are_the_newest_720_and_the_running_one(
    simulated: "Simulated", results: Results, timeframe: str
) -> None:
    rows, step_ms = results["candles"][timeframe], STEPS_MS[timeframe]
    listed_ms = LISTED["BTC/USD"].listed_at_ms

    if timeframe == "1w":
        assert rows[0][0] <= listed_ms < rows[1][0]
        rows = rows[1:]
    else:
        assert len(rows) == 721
    borders = [row[0] for row in rows]
    assert all(right - left == step_ms for left, right in pairwise(borders))
    truth = simulated.candles("btc_usd", borders)
    assert [row[1:] for row in rows[:-1]] == [
        [float(each[name]) for name in CANDLE] for each in truth
    ]


def test_no_older_candle_can_be_had(results: Results) -> None:
    old = results["old_candles"]

    assert old[0][0] >= results["candles"]["1m"][0][0]
    assert len(old) == 721


def _unified(trade: dict[str, Any], symbol: str) -> list[Any]:
    side = "buy" if trade["taker_buys"] else "sell"
    price, quantity = float(trade["price"]), float(trade["quantity"])
    return [str(trade["id"]), trade["at_ms"], price, quantity, side, symbol]


def test_trades_paged_from_the_first_are_the_ledgers(
    simulated: "Simulated", results: Results
) -> None:
    rows = results["first_trades"]

    assert len(rows) == 3000
    truth = simulated.trades("ada_usd", range(1, 3001))
    assert rows == [_unified(each, "ADA/USD") for each in truth]


@pytest.mark.parametrize("name", ["trades_since", "newest_trades"])
def test_other_trades_are_the_ledgers(simulated: "Simulated", results: Results, name: str) -> None:
    rows = results[name]
    ids = [int(row[0]) for row in rows]

    assert ids == list(range(ids[0], ids[0] + 1000))
    truth = simulated.trades("btc_usd", range(ids[0], ids[-1] + 1))
    assert rows == [_unified(each, "BTC/USD") for each in truth]


def test_trades_since_an_instant_begin_with_the_first_after_it(
    simulated: "Simulated", results: Results
) -> None:
    first, asked_ms = results["trades_since"][0], results["now"] - 3_600_000
    (before,) = simulated.trades("btc_usd", range(int(first[0]) - 1, int(first[0])))

    assert before["at_ms"] < asked_ms <= first[1]


def test_a_book_is_one_the_ledger_had_just_then(simulated: "Simulated", results: Results) -> None:
    book, changed_s = results["book"], results["book"]["bids"][0][2]
    truths = [
        simulated.ask("ledger/book", symbol="eth_usd", at_ms=changed_s * 1000 + ms, depth=100)
        for ms in range(0, 1000, 100)
    ]

    assert [_coarse(book["bids"]), _coarse(book["asks"])] in [
        [_coarse(truth["bids"]), _coarse(truth["asks"])] for truth in truths
    ]


def _coarse(levels: list[list[Any]]) -> list[tuple[Decimal, Decimal]]:
    """Prices, and quantities as REST shows them: with three decimals."""
    thousandth, half = Decimal("0.001"), "ROUND_HALF_UP"
    return [
        (Decimal(str(price)), Decimal(str(quantity)).quantize(thousandth, half))
        for price, quantity, *_ in levels
    ]


def test_tickers_are_of_every_market(simulated: "Simulated", results: Results) -> None:
    assert set(results["tickers"]) == set(LISTED)
    for ticker in results["tickers"].values():
        assert ticker["bid"] < ticker["ask"]
        assert ticker["low"] <= ticker["last"] <= ticker["high"]
    info, now_ms = results["ticker"]["info"], results["now"]
    day = simulated.window("doge_usd", now_ms - STEPS_MS["1d"], now_ms)
    assert abs(int(info["t"][1]) / day["trades"] - 1) < 0.1
    assert results["status"]["status"] == "ok"


def test_refusals_have_ccxts_names(results: Results) -> None:
    assert results["missing"][0] == "BadRequest"
    assert "EQuery:Unknown asset pair" in results["bad_pair"][1]
    assert "EGeneral:Invalid arguments" in results["bad_interval"][1]


def test_watched_trades_are_the_ledgers_without_a_gap(
    simulated: "Simulated", results: Results
) -> None:
    by_symbol: dict[str, list[Any]] = defaultdict(list)
    for row in results["watched_trades"]:
        by_symbol[row[-1]].append(row)

    assert "BTC/USD" in by_symbol
    for symbol, rows in by_symbol.items():
        truth = simulated.trades(_slug(symbol), range(int(rows[0][0]), int(rows[-1][0]) + 1))
        assert rows == [_unified(each, symbol) for each in truth]


def test_a_watched_book_stays_the_ledgers(simulated: "Simulated", results: Results) -> None:
    told = [book for book in results["watched_books"] if book["timestamp"] is not None]

    assert len({book["timestamp"] for book in told if book["symbol"] == "BTC/USD"}) > 20
    for book in told:
        depth = 10 if book["symbol"] == "BTC/USD" else 100
        truth = simulated.ask(
            "ledger/book", symbol=_slug(book["symbol"]), at_ms=book["timestamp"], depth=depth
        )
        for side in ("bids", "asks"):
            assert book[side] == [[float(p), float(quantity)] for p, quantity in truth[side]]


def test_a_watched_ticker_counts_the_last_day(simulated: "Simulated", results: Results) -> None:
    tickers = results["watched_tickers"]

    assert len(tickers) > 5
    for ticker in tickers[:20]:
        at_ms = _ms(ticker["info"]["timestamp"])
        day = simulated.window("btc_usd", at_ms + 1 - STEPS_MS["1d"], at_ms)
        assert ticker["baseVolume"] == float(day["volume"])
        assert (ticker["low"], ticker["high"]) == (float(day["low"]), float(day["high"]))
        assert ticker["last"] == float(day["close"])


def _ms(text: str) -> int:
    """Milliseconds of a time such as ``2026-08-16T23:37:04.849274Z``."""
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000


def test_watched_candles_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    latest: dict[int, Any] = {}
    for rows in results["watched_candles"]:
        latest |= {row[0]: row[1:] for row in rows}
    *closed, _running = sorted(latest.items())

    assert closed
    for start_ms, values in closed[:-1]:
        minute = simulated.window("btc_usd", start_ms, start_ms + STEPS_MS["1m"] - 1)
        assert values == [float(minute[name]) for name in CANDLE]


def test_a_client_over_the_limit_is_refused_inside_a_200_and_served_again(
    start_simulator: Callable[..., "Simulated"], run_clients: Callable[..., Results]
) -> None:
    strict = start_simulator("kraken", "btc_usd", limits="public=3/1")
    results = run_clients("ccxt", strict.address, "ccxt_kraken_limits.py")

    assert results["refused"]
    for kinds, text in results["refused"]:
        assert "DDoSProtection" in kinds
        assert "EGeneral:Too many requests" in text
    assert results["after"] == []
    rows = strict.ask("requests")["requests"]
    assert sum(row["status"] == 429 for row in rows) == len(results["refused"])
