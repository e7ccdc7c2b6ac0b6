"""ccxt and ccxt.pro, told only another address, see the simulated Upbit as it is."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.market.listings import slug
from penstock.simulator.upbit import CATALOGUE

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

DAY_MS = 86_400_000
IDS_PER_MS = 10_000
STEPS_MS = {"1s": 1000, "1m": 60_000, "1h": 3_600_000, "1d": DAY_MS, "1w": 7 * DAY_MS}
CANDLE = ("open", "high", "low", "close", "volume")
LISTED = {f"{each.base}/{each.quote}": each for each in CATALOGUE.all()}
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    return start_simulator("upbit")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    # One after the other: what they ask for together would be too much for one address.
    scripts = ("ccxt_upbit_rest.py", "ccxt_upbit_streams.py")
    found: Results = {}
    for script in scripts:
        found |= run_clients("ccxt", simulated.address, script)
    return found


def _slug(unified: str) -> str:
    return slug(LISTED[unified])


def _check_candles(
    simulated: "Simulated", unified: str, rows: Sequence[Sequence[float]], borders: Sequence[int]
) -> None:
    """They are the ledger's between these borders, but for intervals without a trade."""
    truth = [each for each in simulated.candles(_slug(unified), borders) if each["trades"]]
    expected = [[each["start_ms"], *(float(each[name]) for name in CANDLE)] for each in truth]
    assert [list(row) for row in rows] == expected


def _trades_by_id(
    simulated: "Simulated", unified: str, first_ms: int, last_ms: int
) -> dict[str, list[Any]]:
    """What happened between two instants, by the exchange's own ids."""
    borders = [
        simulated.ask("ledger/ids", symbol=_slug(unified), at_ms=at_ms)["next_trade_id"]
        for at_ms in (first_ms, last_ms + 1)
    ]
    found: dict[str, list[Any]] = {}
    at_ms, place = 0, 0
    for trade in simulated.trades(_slug(unified), range(*borders)):
        place = place + 1 if trade["at_ms"] == at_ms else 0
        at_ms = trade["at_ms"]
        number = str(at_ms * IDS_PER_MS + place)
        side = "buy" if trade["taker_buys"] else "sell"
        amounts = float(trade["price"]), float(trade["quantity"])
        found[number] = [number, at_ms, *amounts, side, unified]
    return found


def test_every_market_is_loaded(results: Results) -> None:
    assert results["markets"] == {
        unified: f"{each.quote}-{each.base}" for unified, each in LISTED.items()
    }


@pytest.mark.parametrize(
    ("timeframe", "unified", "count"),
    [
        ("1m", "BTC/KRW", 1000),
        ("1s", "ETH/KRW", 400),
        ("1d", "BTC/KRW", None),
        ("1w", "XRP/BTC", None),
    ],
)
def test_candles_paged_back_are_the_ledgers(
    simulated: "Simulated", results: Results, timeframe: str, unified: str, count: int | None
) -> None:
    *rows, _running = results["candles"][timeframe]
    step_ms = STEPS_MS[timeframe]

    borders = range(rows[0][0], rows[-1][0] + step_ms + 1, step_ms)
    _check_candles(simulated, unified, rows, borders)
    if count is None:
        listed_ms = LISTED[unified].listed_at_ms
        assert rows[0][0] <= listed_ms < rows[0][0] + step_ms, "back to the listing"
    else:
        assert len(rows) == count - 1
    if timeframe == "1s":
        assert max(after[0] - before[0] for before, after in pairwise(rows)) > 1000


def test_months_follow_the_calendar(simulated: "Simulated", results: Results) -> None:
    rows = results["candles"]["1M"]

    borders = [row[0] for row in rows]
    listed_ms = LISTED["ETH/KRW"].listed_at_ms
    assert borders[0] < listed_ms < borders[1]
    _check_candles(simulated, "ETH/KRW", rows[1:-1], borders[1:])


def test_candles_since_a_time_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    rows, step_ms = results["since"], STEPS_MS["1h"]

    assert len(rows) == 200
    _check_candles(
        simulated, "BTC/KRW", rows, range(rows[0][0], rows[-1][0] + step_ms + 1, step_ms)
    )


@pytest.mark.parametrize(
    ("name", "unified", "count"), [("trades", "BTC/KRW", 2000), ("newest_trades", "SHIB/KRW", 500)]
)
def test_trades_fetched_by_cursor_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, unified: str, count: int
) -> None:
    rows = results[name]

    truth = _trades_by_id(simulated, unified, rows[0][1], rows[-1][1])
    ids = [row[0] for row in rows]
    assert len(set(ids)) == len(ids)
    assert len(rows) == count or name == "newest_trades"
    assert rows == [truth[number] for number in ids]
    # Of the first and the last instant there may be more than the page showed.
    whole = [number for number, row in truth.items() if rows[0][1] < row[1] < rows[-1][1]]
    assert set(whole) <= set(ids)
    assert int(ids[-1]) > 2**53


def test_books_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    for book in (results["book"], *results["books"].values()):
        _check_book(simulated, _slug(book["symbol"]), book, 30)
    assert set(results["books"]) == {"XRP/BTC", "ETH/KRW"}


def _check_book(simulated: "Simulated", symbol: str, book: dict[str, Any], depth: int) -> None:
    truth = simulated.ask("ledger/book", symbol=symbol, at_ms=book["timestamp"], depth=depth)
    for side in ("bids", "asks"):
        rows = [[float(price), float(size)] for price, size in truth[side]]
        assert [list(row) for row in book[side]] == rows


def test_tickers_count_the_day_and_the_last_one(simulated: "Simulated", results: Results) -> None:
    assert set(results["tickers"]) == set(LISTED)
    assert set(results["some_tickers"]) == {"XRP/BTC", "ETH/KRW"}
    for ticker in (results["ticker"], *results["tickers"].values()):
        _check_ticker(simulated, ticker)


def _check_ticker(simulated: "Simulated", ticker: dict[str, Any]) -> None:
    symbol, at_ms = _slug(ticker["symbol"]), ticker["info"]["timestamp"]
    today = simulated.window(symbol, at_ms - at_ms % DAY_MS, at_ms)
    last_day = simulated.window(symbol, at_ms + 1 - DAY_MS, at_ms)
    assert [ticker[name] for name in CANDLE[:3]] == [float(today[name]) for name in CANDLE[:3]]
    assert ticker["last"] == float(last_day["close"])
    assert ticker["baseVolume"] == float(last_day["volume"])
    assert ticker["quoteVolume"] == float(last_day["quote"])


def test_refusals_and_what_is_left_are_understood(results: Results) -> None:
    assert "Code not found" in results["bad_market"][1]
    assert results["missing"][0] == "BadRequest"
    assert results["remaining"].startswith("group=ticker; min=600; sec=")


def test_watched_trades_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    by_symbol: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in results["watched_trades"]:
        by_symbol[row[-1]][row[0]] = row

    assert by_symbol, "in some seconds some of the markets trade"
    for unified, seen in by_symbol.items():
        times = [row[1] for row in seen.values()]
        truth = _trades_by_id(simulated, unified, min(times), max(times))
        assert seen == {number: truth[number] for number in seen}


def test_a_watched_book_stays_the_ledgers(simulated: "Simulated", results: Results) -> None:
    books = results["watched_books"]

    assert len({book["timestamp"] for book in books}) > 5
    for book in books:
        _check_book(simulated, "btc_krw", book, len(book["bids"]))


def test_a_watched_ticker_and_candle_are_the_ledgers(
    simulated: "Simulated", results: Results
) -> None:
    assert results["watched_tickers"]
    for ticker in results["watched_tickers"]:
        _check_ticker(simulated, ticker)
    assert results["watched_candles"]
    for start_ms, first, high, low, last, _ in results["watched_candles"]:
        whole = simulated.window("btc_krw", start_ms, start_ms + 999)
        assert first == float(whole["open"])
        assert float(whole["low"]) <= low <= last <= high <= float(whole["high"])
