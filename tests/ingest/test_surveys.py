"""Surveys and plans on every exchange: what a plan says is what the simulator's ledger charges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace as changed
from tests.ingest.test_every_exchange import (
    LISTED_MS,
    Open,
    Simulated,
    every_exchange,
    simulated,
)
from tests.jobs_made import made_job

from penstock.errors import BadJob, UnknownInterval, UnknownSymbol
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Request
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.planner import Plan, Survey, plan, requests_for
from penstock.ingest.survey import survey
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import Cursor, Job
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS, Interval
from penstock.market.symbol import Symbol

__all__ = ["simulated"]


@dataclass
class Context:
    """What a survey needs of a simulated exchange."""

    at: Simulated

    @property
    def gateways(self) -> Simulated:
        return self.at

    @property
    def markets(self) -> "Context":
        return self

    @property
    def clock(self) -> Any:
        return self.at.clock

    async def of(self, _exchange_id: str) -> SymbolMap:
        return self.at.info.symbols


async def asked(at: Simulated, timeframe: str | None = None, **wanted: Any) -> Survey:
    cursor = TradesCursor(**wanted)
    return await survey(Context(at), at.name, at.symbol.unified, cursor, timeframe)


async def charged(at: Simulated, path: str, after: int) -> int:
    """The weight of requests to an endpoint, after so many of all, by the simulator's ledger."""
    before, _, behind = path.partition("{}")
    return sum(
        each["weight"]
        for each in (await at.requests())[after:]
        if each["path"].startswith(before) and each["path"].endswith(behind)
    )


def resolved(at: Simulated, known: Survey) -> Job:
    """A job for the trades of a survey, which does not have to look for their ids again."""
    market = {"exchange_id": at.name, "symbol": at.symbol.unified, "timeframe": None}
    job = made_job("trades_backfill", TradesCursor(), **market)  # type: ignore[arg-type]
    cursor = TradesCursor(
        from_id=known.from_id, to_id=known.to_id, since_ms=known.since_ms, is_resolved=True
    )
    return changed(job, cursor=cursor)


def naive_weight(made: Plan, at: Simulated, parts: Sequence[int]) -> int:
    (endpoint,) = [each for each in at.gateway.exchange.paged if each.channel == made.channel]
    return requests_for(parts, endpoint.default_rows) * endpoint.costs[0].cost


@every_exchange
async def test_trades_cost_what_the_plan_says(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS + 30_000)
    # With one request per second, few pages take long enough.
    minutes = 6 if name == "kraken" else 15
    since_ms, until_ms = LISTED_MS + HOUR_MS + 123, LISTED_MS + HOUR_MS + minutes * MINUTE_MS

    known = await asked(at, since_ms=since_ms, until_ms=until_ms)
    made, before = plan(known), len(await at.requests())
    job = await at.resume(resolved(at, known))

    weight, rows = await charged(at, made.endpoint, before), job.progress.rows
    is_exact = "trades" in at.gateway.exchange.consecutive
    assert is_exact == (known.rows_error == 0)
    assert made.weight_per_row == pytest.approx(weight / rows, rel=1e-9 if is_exact else 0.1)
    assert made.rows == pytest.approx(rows, rel=3 * known.rows_error)
    assert weight <= naive_weight(made, at, [rows])
    assert known.requests <= 16
    assert made.notes == ()


@every_exchange
async def test_candles_cost_what_the_plan_says(name: str, simulated: Open) -> None:
    at = await simulated(name, 2 * DAY_MS)
    since_ms, until_ms = LISTED_MS + DAY_MS + 14 * HOUR_MS, LISTED_MS + DAY_MS + 23 * HOUR_MS

    known = await asked(at, "1m", since_ms=since_ms, until_ms=until_ms)
    made, before = plan(known), len(await at.requests())
    job = await at.run("ohlcv_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))

    weight, rows = await charged(at, made.endpoint, before), job.progress.rows
    assert made.weight_per_row == pytest.approx(weight / rows)
    assert made.rows == rows
    assert weight <= naive_weight(made, at, [9 * 60])
    assert known.requests <= 8


@pytest.mark.parametrize("name", ["coinbase", "upbit"])
async def test_it_takes_at_least_as_long_as_the_plan_says(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS)
    known = await asked(at, since_ms=LISTED_MS + HOUR_MS, until_ms=LISTED_MS + 2 * HOUR_MS)
    made = plan(known)

    begun_ms = at.clock.now_ms()
    job = await at.resume(resolved(at, known))
    took_s = (at.clock.now_ms() - begun_ms) / 1000

    assert made.eta_s is not None
    # What rows take does not depend on how well their number was estimated.
    eta_s = made.eta_s * job.progress.rows / made.rows
    # A loaded machine takes longer. That it is not said too short, test_planned_time proves.
    assert eta_s <= 1.1 * took_s


@every_exchange
async def test_a_range_before_the_listing_begins_later_and_says_so(
    name: str, simulated: Open
) -> None:
    at = await simulated(name, 2 * HOUR_MS)
    since_ms, until_ms = LISTED_MS - 400 * DAY_MS, LISTED_MS + 10 * MINUTE_MS

    trades = plan(await asked(at, since_ms=since_ms, until_ms=until_ms))
    candles = plan(await asked(at, "1m", since_ms=since_ms, until_ms=until_ms))

    true_rows = len(await at.traded(LISTED_MS, until_ms))
    assert trades.rows == pytest.approx(true_rows, rel=3 * trades.rows_error)
    assert candles.since_ms == LISTED_MS
    assert candles.rows == len(await at.truth(LISTED_MS, until_ms))
    (of_trades,), (of_candles,) = trades.notes, candles.notes
    assert "range begins" in of_trades
    assert "range begins" in of_candles


@every_exchange
async def test_without_a_begin_and_an_end_it_is_all_there_is(name: str, simulated: Open) -> None:
    at = await simulated(name, 2 * HOUR_MS)

    trades, candles = plan(await asked(at)), plan(await asked(at, "5m"))

    true_rows = len(await at.traded(0, at.clock.now_ms()))
    assert trades.rows == pytest.approx(true_rows, rel=3 * trades.rows_error or 0.001)
    assert candles.rows == len(await at.truth(LISTED_MS, LISTED_MS + 2 * HOUR_MS, 5 * MINUTE_MS))
    assert trades.notes == candles.notes == ()


@every_exchange
async def test_what_cannot_be_planned_is_refused(name: str, simulated: Open) -> None:
    at = await simulated(name, HOUR_MS)
    tomorrow_ms, context = LISTED_MS + DAY_MS, Context(at)

    for timeframe in (None, "1m"):
        for field in ("since_ms", "until_ms"):
            with pytest.raises(BadJob, match="is in the future") as refusal:
                await asked(at, timeframe, **{field: tomorrow_ms})
            assert refusal.value.field == f"cursor.{field}"
        with pytest.raises(BadJob, match="not before"):
            await asked(at, timeframe, since_ms=LISTED_MS + 5, until_ms=LISTED_MS + 5)
        with pytest.raises(UnknownSymbol):
            await survey(context, name, "nix/usdt", TradesCursor(), timeframe)
    with pytest.raises(BadJob, match="candles have no ids"):
        await asked(at, "1m", from_id=1)
    with pytest.raises(UnknownInterval):
        await asked(at, "7m")


@every_exchange
async def test_a_range_without_rows_takes_no_requests(name: str, simulated: Open) -> None:
    at = await simulated(name, HOUR_MS)
    since_ms, until_ms = LISTED_MS - 2 * DAY_MS, LISTED_MS - DAY_MS

    for timeframe in (None, "1m"):
        made = plan(await asked(at, timeframe, since_ms=since_ms, until_ms=until_ms))
        assert (made.requests, made.rows, made.weight_per_row, made.eta_s) == (0, 0, 0.0, 0.0)


async def test_what_is_not_kept_is_left_out_and_days_have_pages_of_their_own(
    simulated: Open,
) -> None:
    at = await simulated("upbit", 30 * DAY_MS + 6 * HOUR_MS)
    kept_ms, now_ms = LISTED_MS + 23 * DAY_MS, at.clock.now_ms()
    first, end = [
        (await at.ask("ledger/ids", symbol=at.symbol.slug, at_ms=at_ms))["next_trade_id"]
        for at_ms in (kept_ms, now_ms)
    ]

    known = await asked(at, since_ms=LISTED_MS)
    gone = await asked(at, since_ms=LISTED_MS, until_ms=LISTED_MS + DAY_MS)

    assert known.notes == (
        "trades before 2021-01-25T00:00:00Z are not kept any more: the range begins then",
    )
    assert len(known.parts) == 8
    assert known.rows == pytest.approx(end - first, rel=3 * known.rows_error)
    assert 0.02 < known.rows_error < 0.2
    assert known.requests <= 2 * 32 + 3
    assert gone.requests == plan(gone).requests == 0


@pytest.mark.parametrize("name", exchanges.names())
def test_what_is_declared_is_what_is_requested(name: str) -> None:
    exchange, symbol = exchanges.load(name), Symbol("BTC", "USD")
    rest = exchange.rest(SymbolMap(name, [("BTCUSD", symbol)]))
    interval = Interval.parse("1m")
    candles = rest.candles(symbol, interval, 0, 2000 * MINUTE_MS)

    by_channel: dict[str, Request[Any]] = {"trades": rest.trades(symbol, 1), "candles": candles}
    if exchange.agg_trades is not None:
        by_channel["agg_trades"] = exchange.agg_trades(
            SymbolMap(name, [("BTCUSD", symbol)]), symbol, 1
        )

    assert {each.channel for each in exchange.paged} == set(by_channel)
    for endpoint in exchange.paged:
        request, (rows, cost) = by_channel[endpoint.channel], endpoint.costs[-1]
        before, _, behind = endpoint.path.partition("{}")
        assert request.path.startswith(before)
        assert request.path.endswith(behind)
        assert request.cost == cost
        sizes = {request.params[each] for each in ("limit", "count") if each in request.params}
        assert sizes <= {rows}
    trades = next(each for each in exchange.paged if each.channel == "trades")
    assert trades.costs[-1].rows == exchange.trade_page_size
    candle_pages = next(each for each in exchange.paged if each.channel == "candles")
    assert exchange.candle_span in (None, candle_pages.costs[-1].rows)
