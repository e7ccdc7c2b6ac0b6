"""A market as the console shows it."""

from tests.api.conftest import TRADED, Client

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow

NOON_MS = TRADED[0].at_ns // 1_000_000
CHART = f"market/candles?exchange=toy&symbol=BTC/USDT&from={NOON_MS}&until={NOON_MS + 300_000}"


async def test_a_market_has_its_latest_trades_and_its_book(api: Client) -> None:
    shown = (await api.ask("GET", "market/toy/BTC/USDT")).json

    assert [each["id"] for each in shown["trades"]] == [str(n) for n in range(29, -1, -1)]
    assert shown["trades"][0]["price"] == "29.50"
    assert shown["book"] == {"bids": [["9.5", "1"]], "asks": []}
    assert (shown["bid"], shown["ask"], shown["spread"]) == ("9.5", None, None)
    assert shown["badge"] == "stale", "no collector of this folder keeps it"
    assert shown["candle"] is None, "no trade is of now"


async def test_the_symbol_may_be_spelt_in_any_way(api: Client) -> None:
    for spelling in ("BTC%2FUSDT", "btc_usdt", "BTC-USDT", "btcusdt"):
        answer = await api.ask("GET", f"market/toy/{spelling}")

        assert answer.json["symbol"] == "BTC/USDT"


async def test_an_unknown_market_has_near_matches(api: Client) -> None:
    problem = (await api.ask("GET", "market/toy/BTC/USDC")).is_problem(404)

    assert problem["near"] == ["BTC/USDT"]


async def test_candles_are_exact_and_show_what_is_missing(api: Client) -> None:
    gap = GapRow(
        exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=30, last=40,
        since_ms=NOON_MS + 200_000, until_ms=NOON_MS + 250_000, cause="disconnected",
        reason="the line was cut",
    )  # fmt: skip
    await GapRows(api.app_state.store).open(gap)

    chart = (await api.ask("GET", f"{CHART}&interval=1m")).json

    assert chart["items"] == [
        [NOON_MS, "0.50", "8.50", "0.50", "8.50", "9"],
        [NOON_MS + 60_000, "9.50", "17.50", "9.50", "17.50", "9"],
        [NOON_MS + 120_000, "18.50", "26.50", "18.50", "26.50", "9"],
        [NOON_MS + 180_000, "27.50", "29.50", "27.50", "29.50", "3"],
    ]
    assert chart["gaps"] == [
        {
            "since_ms": NOON_MS + 200_000, "until_ms": NOON_MS + 250_000, "state": "open",
            "reason": "the line was cut",
        }
    ]  # fmt: skip
    assert (chart["source"], chart["since_ms"]) == ("trades", NOON_MS)


async def test_a_filled_gap_is_not_shown(api: Client) -> None:
    gap = GapRow(
        exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=30, last=40,
        since_ms=NOON_MS, until_ms=NOON_MS + 250_000, cause="disconnected", state="filled",
    )  # fmt: skip
    await GapRows(api.app_state.store).open(gap)

    assert (await api.ask("GET", CHART)).json["gaps"] == []


async def test_only_the_newest_candles_are_returned(api: Client) -> None:
    chart = (await api.ask("GET", f"{CHART}&interval=1m&limit=2")).json

    assert [row[0] for row in chart["items"]] == [NOON_MS + 180_000]
    assert chart["since_ms"] == NOON_MS + 180_000, "the range of two candles that ends at `until`"


async def test_an_interval_that_is_not_offered_is_refused(api: Client) -> None:
    (await api.ask("GET", f"{CHART}&interval=7m")).is_problem(422)
    (await api.ask("GET", "market/toy/BTC/USDT?interval=7m")).is_problem(422)
