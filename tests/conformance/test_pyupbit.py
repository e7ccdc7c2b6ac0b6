"""pyupbit, sent to another address, sees the simulated Upbit as it is."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.market.listings import slug
from penstock.simulator.upbit import CATALOGUE

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

DAY_MS = 86_400_000
IDS_PER_MS = 10_000
COLUMNS = ("open", "high", "low", "close", "volume", "quote")
SLUGS = {f"{each.quote}-{each.base}": slug(each) for each in CATALOGUE.all()}
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    return start_simulator("upbit")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    return run_clients("pyupbit", simulated.address, "pyupbit_all.py")


def _ms(korean: str) -> int:
    since = datetime.fromisoformat(f"{korean}+09:00") - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def test_markets_are_listed(results: Results) -> None:
    assert results["tickers"] == list(SLUGS)
    assert results["won"] == [code for code in SLUGS if code.startswith("KRW-")]


@pytest.mark.parametrize(
    ("name", "code", "step_ms", "count"),
    [
        ("minutes", "KRW-LINK", 60_000, 600),
        ("days", "KRW-BTC", DAY_MS, 400),
        ("weeks", "BTC-XRP", 7 * DAY_MS, 10),
    ],
)
def test_candles_of_several_pages_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, code: str, step_ms: int, count: int
) -> None:
    rows = results[name]
    assert len(rows) == count
    # The newest may still be running.
    rows = rows[:-1]

    opens = [_ms(row[0]) for row in rows]
    borders = range(opens[0], opens[-1] + step_ms + 1, step_ms)
    truth = [each for each in simulated.candles(SLUGS[code], borders) if each["trades"]]
    assert opens == [each["start_ms"] for each in truth]
    assert [row[1:] for row in rows] == [[float(each[c]) for c in COLUMNS] for each in truth]


def test_several_prices_and_books_are_asked_for_at_once(
    simulated: "Simulated", results: Results
) -> None:
    assert set(results["prices"]) == {"KRW-BTC", "BTC-XRP"}
    assert results["price"] == pytest.approx(results["prices"]["KRW-BTC"], rel=0.01)
    assert [book["market"] for book in results["books"]] == ["KRW-BTC", "BTC-XRP"]
    for book in (results["book"], *results["books"]):
        _check_book(simulated, book["market"], book)


def _check_book(simulated: "Simulated", code: str, book: dict[str, Any]) -> None:
    truth = simulated.ask("ledger/book", symbol=SLUGS[code], at_ms=book["timestamp"], depth=30)
    for side in ("bid", "ask"):
        units = book["orderbook_units"]
        told = [[unit[f"{side}_price"], unit[f"{side}_size"]] for unit in units]
        assert told == [[float(price), float(size)] for price, size in truth[f"{side}s"]]


def test_trades_from_the_stream_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    frames = results["trade_frames"]

    assert len({(frame["code"], frame["sequential_id"]) for frame in frames}) == len(frames)
    for frame in frames:
        at_ms, place = divmod(frame["sequential_id"], IDS_PER_MS)
        assert frame["trade_timestamp"] == at_ms
        assert frame["stream_type"] == "REALTIME"
        symbol = SLUGS[frame["code"]]
        first = simulated.ask("ledger/ids", symbol=symbol, at_ms=at_ms)["next_trade_id"] + place
        (trade,) = simulated.trades(symbol, range(first, first + 1))
        assert frame["trade_price"] == float(trade["price"])
        assert frame["trade_volume"] == float(trade["quantity"])
        assert frame["ask_bid"] == ("BID" if trade["taker_buys"] else "ASK")
        assert trade["at_ms"] == at_ms


def test_books_and_tickers_from_the_stream_are_the_ledgers(
    simulated: "Simulated", results: Results
) -> None:
    for frame in results["book_frames"]:
        _check_book(simulated, frame["code"], frame)
    for frame in results["ticker_frames"]:
        at_ms = frame["timestamp"]
        today = simulated.window(SLUGS[frame["code"]], at_ms - at_ms % DAY_MS, at_ms)
        assert frame["acc_trade_volume"] == float(today["volume"])
        assert frame["trade_price"] == float(today["close"])


def test_what_is_left_and_refusals_are_read(
    start_simulator: Callable[..., "Simulated"], run_clients: Callable[..., Results]
) -> None:
    refusing = start_simulator(
        "upbit", "btc_krw", limits="ticker=3/3600", refusals_before_ban=2, first_ban=60
    )

    results = run_clients("pyupbit", refusing.address, "pyupbit_limits.py")

    *served, one, two = results["outcomes"]
    assert [answer for answer, _ in served] == ["served"] * 3
    assert [left["sec"] for _, left in served] == [2, 1, 0]
    assert all(left["group"] == "ticker" for _, left in served)
    for answer, left in (one, two):
        assert answer["error"]["name"] == "too_many_requests"
        assert left["sec"] == 0
    status, message = results["banned"]
    assert status == 418
    assert message.endswith("Blocked for 60 seconds.")
