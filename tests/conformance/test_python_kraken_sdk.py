"""python-kraken-sdk, told only another address, sees the simulated Kraken as it is."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Simulated

pytestmark = pytest.mark.conformance

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
SLUGS = {"BTC/USD": "btc_usd", "ETH/USD": "eth_usd"}
Results = dict[str, Any]


@pytest.fixture(scope="module")
def simulated(start_simulator: Callable[..., "Simulated"]) -> "Simulated":
    return start_simulator("kraken", "btc_usd,eth_usd,xtz_usd")


@pytest.fixture(scope="module")
def results(simulated: "Simulated", run_clients: Callable[..., Results]) -> Results:
    return run_clients("python-kraken-sdk", simulated.address, "python_kraken_sdk_all.py")


def _ms(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000


def _levels(rows: list[list[str]]) -> list[tuple[Decimal, Decimal]]:
    return [(Decimal(price), Decimal(quantity)) for price, quantity in rows]


@pytest.mark.parametrize("depth", [10, 100])
def test_its_order_books_pass_every_checksum_and_are_the_ledgers(
    simulated: "Simulated", results: Results, depth: int
) -> None:
    seen = results["books"][str(depth)]

    assert sum(look.get("snapshot", False) for look in seen) == 2, "none was subscribed to again"
    updates = [look for look in seen if "timestamp" in look]
    assert len(updates) > 20
    assert all(look["valid"] for look in updates)
    for look in updates:
        symbol, at_ms = SLUGS[look["pair"]], _ms(look["timestamp"])
        truth = simulated.ask("ledger/book", symbol=symbol, at_ms=at_ms, depth=depth)
        assert _levels(look["bids"]) == _levels(truth["bids"])
        assert _levels(look["asks"]) == _levels(truth["asks"])


def _data(results: Results, channel: str, kind: str) -> list[Any]:
    return [
        row
        for frame in results["frames"]
        if frame.get("channel") == channel and frame.get("type") == kind
        for row in frame["data"]
    ]


def test_its_trades_begin_with_fifty_and_go_on_without_a_gap(
    simulated: "Simulated", results: Results
) -> None:
    for pair, symbol in SLUGS.items():
        before = [row for row in _data(results, "trade", "snapshot") if row["symbol"] == pair]
        rows = before + [row for row in _data(results, "trade", "update") if row["symbol"] == pair]
        assert len(before) == 50
        ids = [row["trade_id"] for row in rows]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        for row, truth in zip(
            rows, simulated.trades(symbol, range(ids[0], ids[-1] + 1)), strict=True
        ):
            assert (row["price"], row["qty"]) == (float(truth["price"]), float(truth["quantity"]))
            assert (row["side"] == "buy") == truth["taker_buys"]
            assert _ms(row["timestamp"]) == truth["at_ms"]


def test_its_tickers_and_candles_are_the_ledgers(simulated: "Simulated", results: Results) -> None:
    tickers, candles = _data(results, "ticker", "update"), _data(results, "ohlc", "snapshot")

    assert tickers
    for row in tickers[:20]:
        at_ms = _ms(row["timestamp"])
        day = simulated.window(SLUGS[row["symbol"]], at_ms + 1 - 24 * HOUR_MS, at_ms)
        assert row["volume"] == float(day["volume"])
        assert (row["low"], row["high"]) == (float(day["low"]), float(day["high"]))
        assert row["last"] == float(day["close"])
    for row in [row for row in candles if row["symbol"] == "BTC/USD"][:-1]:
        start_ms = _ms(row["interval_begin"].replace("000000000Z", "000000Z"))
        minute = simulated.window("btc_usd", start_ms, start_ms + MINUTE_MS - 1)
        assert row["volume"] == float(minute["volume"])
        assert row["trades"] == minute["trades"]
        assert row["close"] == float(minute["close"])


def test_it_hears_the_status_heartbeats_instruments_and_one_answer_a_pair(
    results: Results,
) -> None:
    frames = results["frames"]
    (instruments,) = [f for f in frames if f.get("channel") == "instrument"]
    answers = [f for f in frames if f.get("method") == "subscribe"]

    assert frames[0]["channel"] == "status"
    assert sum(frame.get("channel") == "heartbeat" for frame in frames) >= 5
    assert {row["symbol"] for row in instruments["data"]["pairs"]} == {*SLUGS, "XTZ/USD"}
    assert len(answers) == 7
    assert all(answer["success"] for answer in answers)
    left = [f for f in frames if f.get("method") == "unsubscribe"]
    assert {answer["result"]["symbol"] for answer in left} == set(SLUGS)


def test_its_pages_of_trades_begin_with_the_first_and_have_no_hole(
    simulated: "Simulated", results: Results
) -> None:
    rows = results["trades"]

    assert [row[6] for row in rows] == list(range(1, 3001))
    for row, truth in zip(rows, simulated.trades("xtz_usd", range(1, 3001)), strict=True):
        assert (Decimal(row[0]), Decimal(row[1])) == (
            Decimal(truth["price"]),
            Decimal(truth["quantity"]),
        )
        assert int(row[2] * 1000) == truth["at_ms"]
        assert (row[3] == "b") == truth["taker_buys"]


def test_its_candles_are_the_newest_720_and_the_running_one(
    simulated: "Simulated", results: Results
) -> None:
    rows = results["ohlc"]["XXBTZUSD"]

    assert len(rows) == 721
    assert results["ohlc"]["last"] == rows[-2][0]
    borders = [row[0] * 1000 for row in rows]
    for row, truth in zip(rows[:-1], simulated.candles("btc_usd", borders), strict=True):
        assert row[1:5] == [truth[name] for name in ("open", "high", "low", "close")]
        assert Decimal(row[6]) == Decimal(truth["volume"])
        assert row[7] == truth["trades"]


def test_its_other_answers_have_the_names_it_expects(results: Results) -> None:
    assert results["assets"].keys() == {"XXBT", "ZUSD"}
    assert results["pairs"].keys() == {"XXBTZUSD", "XETHZUSD"}
    assert len(results["book"]["XXBTZUSD"]["asks"]) == 10
    assert results["ticker"]["XXBTZUSD"]["c"]
    assert results["spreads"]["XXBTZUSD"]
    assert results["status"]["status"] == "online"
    assert results["refused"]
