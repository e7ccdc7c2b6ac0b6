"""coinbasepro, told only another address, sees the simulated Coinbase's markets as they are."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.simulator.coinbase import CATALOGUE

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

SEQUENCE_BITS = 10
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    return start_simulator("coinbase")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    return run_clients("coinbasepro", simulated.address, "coinbasepro_rest.py")


def _ms(text: str) -> int:
    since = datetime.fromisoformat(f"{text}+00:00") - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def test_products_and_currencies_are_listed(results: Results) -> None:
    listed = {each["id"]: each for each in results["products"]}

    assert {f"{each.base}-{each.quote}" for each in CATALOGUE.all()} < set(listed)
    assert results["product"] == listed["BTC-USD"]
    assert {"BTC", "USD", "SHIB"} < {each["id"] for each in results["currencies"]}


def test_candles_are_the_ledgers_without_the_empty_ones(
    simulated: "Simulated", results: Results
) -> None:
    rows = results["candles"]

    first_ms, last_ms = _ms(rows[-1]["time"]), _ms(rows[0]["time"])
    borders = range(first_ms, last_ms + 60_001, 60_000)
    truth = [each for each in simulated.candles("shib_usd", borders) if each["trades"]]
    assert [_ms(row["time"]) for row in rows[::-1]] == [each["start_ms"] for each in truth]
    for row, each in zip(rows[::-1], truth, strict=True):
        for name in ("open", "high", "low", "close", "volume"):
            assert Decimal(str(row[name])) == Decimal(each[name]), "exact: it reads decimals"
    assert len(rows) < 300


@pytest.mark.parametrize(("name", "symbol"), [("trades", "eth_usd"), ("first_trades", "shib_usd")])
def test_trades_of_several_pages_are_the_ledgers(
    simulated: "Simulated", results: Results, name: str, symbol: str
) -> None:
    rows = results[name][::-1]
    ids = [row["trade_id"] for row in rows]

    assert ids == list(range(ids[0], ids[0] + len(rows)))
    for row, trade in zip(rows, simulated.trades(symbol, range(ids[0], ids[-1] + 1)), strict=True):
        assert _ms(row["time"]) == trade["at_ms"]
        assert Decimal(row["price"]) == Decimal(trade["price"])
        assert Decimal(row["size"]) == Decimal(trade["quantity"])
        assert row["side"] == ("sell" if trade["taker_buys"] else "buy"), "the maker's"
    if name == "first_trades":
        assert (ids[0], ids[-1]) == (1, 1500), "the generator ended by itself"


def test_books_of_every_level_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    for level, book in results["books"].items():
        truth = simulated.book("1inch_usd", book["sequence"] >> SEQUENCE_BITS)
        for side, rows in zip(("bids", "asks"), truth, strict=True):
            sums: dict[Decimal, Decimal] = {}
            for price, size, _ in book[side]:
                sums[Decimal(price)] = sums.get(Decimal(price), Decimal(0)) + Decimal(size)
            assert list(sums.items()) == (rows[:1] if level == "1" else rows)


def test_the_ticker_and_the_statistics_agree_with_the_ledger(
    simulated: "Simulated", results: Results
) -> None:
    ticker = results["ticker"]

    number = ticker["trade_id"]
    (trade,) = simulated.trades("btc_usd", range(number, number + 1))
    assert Decimal(ticker["price"]) == Decimal(trade["price"])
    assert _ms(ticker["time"]) == trade["at_ms"]
    stats = {name: Decimal(value) for name, value in results["stats"].items()}
    assert stats["low"] <= min(stats["open"], stats["last"])
    assert stats["volume"] < stats["volume_30day"]


def test_refusals_are_understood(results: Results) -> None:
    assert results["bad_product"] == ["CoinbaseAPIError", "NotFound"]
    assert results["too_many"][0] == "BadRequest"
    assert results["too_many"][1].endswith("exceeds 300")


def test_a_hasty_client_is_refused_and_never_banned(
    start_simulator: Callable[..., "Simulated"], run_clients: Callable[..., Results]
) -> None:
    refusing = start_simulator("coinbase", "btc_usd", limits="public=3/3600", refusals_before_ban=1)

    results = run_clients("coinbasepro", refusing.address, "coinbasepro_limits.py")

    refused = "RateLimitError: Public rate limit exceeded"
    assert results["outcomes"] == ["served"] * 3 + [refused] * 3
