"""Plans: made once, changed where they changed, paused where a line went, refused whole."""

from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.config import ConnectorPlan, LimitPlan
from penstock.connectors import ConnectorManager
from penstock.errors import ConfigError, ExchangeUnreachable
from penstock.exchanges.base import SymbolMap
from penstock.ingest.apply import carry_out, prepare
from penstock.ingest.plan import Change, shown
from penstock.ingest.requests import Intake
from penstock.jobs.desk import JobDesk
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.market.symbol import Symbol
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

NEW_YEAR_MS = 1_704_067_200_000
MARKETS = ("btc_usdt", "eth_usdt")


class Listed:
    """An exchange's symbols, without the exchange."""

    silent = False

    async def of(self, exchange_id: str) -> SymbolMap:
        if self.silent:
            raise ExchangeUnreachable("it does not answer")
        symbols = [Symbol.parse(slug) for slug in MARKETS]
        return SymbolMap(exchange_id, [(f"{s.base}{s.quote}", s) for s in symbols])


@pytest.fixture
async def intake() -> AsyncIterator[Intake]:
    store = await open_store("memory:")
    yield Intake(ConnectorManager(store), JobDesk(store), Listed())
    await store.close()


def plan(**fields: Any) -> dict[str, ConnectorPlan]:
    said = {"symbols": ("btc_usdt",), "timeframes": ("1h",), **fields}
    return {"binance": ConnectorPlan(**said)}


async def applied(intake: Intake, plans: dict[str, ConnectorPlan]) -> list[Change]:
    steps = await prepare(plans, intake, "plan.toml")
    for step in steps:
        await carry_out(step, intake)
    return [shown(step) for step in steps]


async def jobs_of(intake: Intake) -> dict[tuple[str, str | None, str | None], Job]:
    found = await intake.desk.find()
    return {(job.type, job.symbol, job.timeframe): job for job in found}


async def test_a_plan_is_made_once(intake: Intake) -> None:
    plans = plan(symbols=("btc_usdt", "ETH/USDT", "BTCUSDT"), timeframes=("1h", "1d"))

    first = await applied(intake, plans)
    assert [change.what for change in first].count("connector") == 1
    jobs = await jobs_of(intake)
    assert set(jobs) == {
        ("markets_refresh", None, None),
        *(
            ("ohlcv_incremental", symbol, timeframe)
            for symbol in ("BTC/USDT", "ETH/USDT")
            for timeframe in ("1h", "1d")
        ),
    }
    assert all(job.origin for job in jobs.values())
    connector = await intake.connectors.get("binance")
    assert (connector.jobs_count, connector.active_jobs_count) == (5, 5)

    assert await applied(intake, plans) == []
    assert await jobs_of(intake) == jobs


async def test_looking_changes_nothing(intake: Intake) -> None:
    steps = await prepare(plan(backfill=date(2024, 1, 1)), intake, "plan.toml")

    assert [shown(step).type for step in steps] == [
        None,
        "markets_refresh",
        "ohlcv_incremental",
        "ohlcv_backfill",
    ]
    assert shown(steps[-1]).detail == "since 2024-01-01"
    assert await intake.connectors.find() == []
    assert await intake.desk.find() == []


async def test_a_changed_interval_edits_the_job(intake: Intake) -> None:
    await applied(intake, plan())
    before = await jobs_of(intake)

    changes = await applied(intake, plan(interval=900.0, markets_refresh=3600.0))
    assert [(change.action, change.type, change.detail) for change in changes] == [
        ("edit", "markets_refresh", "every 43200 s → 3600 s"),
        ("edit", "ohlcv_incremental", "every 3600 s → 900 s"),
    ]
    after = await jobs_of(intake)
    assert {job.id for job in after.values()} == {job.id for job in before.values()}
    assert after["ohlcv_incremental", "BTC/USDT", "1h"].schedule is not None
    assert await applied(intake, plan(interval=900.0, markets_refresh=3600.0)) == []

    (back,) = await applied(intake, plan(markets_refresh=3600.0))
    assert back.detail == "every 900 s → 3600 s", "without an interval, a candle's length"


async def test_a_removed_line_pauses_and_one_that_returns_resumes(intake: Intake) -> None:
    both = plan(symbols=MARKETS)
    await applied(intake, both)

    (paused,) = await applied(intake, plan())
    assert (paused.action, paused.symbol) == ("pause", "ETH/USDT")
    assert await applied(intake, plan()) == []
    assert (await jobs_of(intake))["ohlcv_incremental", "ETH/USDT", "1h"].status == "paused"

    (resumed,) = await applied(intake, both)
    assert (resumed.action, resumed.job_id) == ("resume", paused.job_id)

    gone = await applied(intake, {})
    assert {change.action for change in gone} == {"pause"}
    assert len(gone) == 3
    assert (await intake.connectors.get("binance")).status == "active"


async def test_what_people_made_or_paused_is_left_alone(intake: Intake) -> None:
    by_hand = await intake.add(
        NewJob(exchange_id="binance", type="ohlcv_incremental", symbol="btc_usdt", timeframe="1h")
    )
    other = await intake.add(
        NewJob(exchange_id="binance", type="ohlcv_incremental", symbol="eth_usdt", timeframe="1d")
    )
    await applied(intake, plan(interval=900.0, timeframes=("1h", "1d")))
    jobs = await jobs_of(intake)
    await intake.desk.pause(jobs["ohlcv_incremental", "BTC/USDT", "1d"].id)

    assert await applied(intake, plan(interval=900.0, timeframes=("1h", "1d"))) == []
    assert await intake.desk.get(by_hand.id) == by_hand
    await applied(intake, {})
    assert (await intake.desk.get(by_hand.id)).status == "active"
    assert (await intake.desk.get(other.id)).status == "active"


async def finish_backfills(intake: Intake, first_ts: int) -> None:
    leases = Leases(intake.desk.store)
    for job in await leases.claim("w", 10, 60_000):
        at_ms = await intake.desk.store.now_ms()
        brought = replace(job, progress=replace(job.progress, first_ts=first_ts))
        await leases.finish([brought], at_ms)


async def test_history_that_was_brought_is_not_asked_for_again(intake: Intake) -> None:
    since = plan(backfill=date(2024, 1, 1))
    await applied(intake, since)
    await finish_backfills(intake, NEW_YEAR_MS + 999_000_000)

    assert await applied(intake, since) == [], "also where the market is younger than that"
    assert await applied(intake, plan(backfill=date(2024, 6, 1))) == []
    for older in (date(2020, 1, 1), True):
        steps = await prepare(plan(backfill=older), intake, "plan.toml")
        assert [shown(step).type for step in steps] == ["ohlcv_backfill"]


async def test_history_that_somebody_brought_by_hand_counts(intake: Intake) -> None:
    by_hand = NewJob(
        exchange_id="binance",
        type="ohlcv_backfill",
        symbol="btc_usdt",
        timeframe="1h",
        cursor=Cursor(since_ms=NEW_YEAR_MS),
    )
    await intake.add(by_hand)
    await finish_backfills(intake, NEW_YEAR_MS)

    changes = await applied(intake, plan(backfill=date(2024, 1, 1)))
    assert [change.type for change in changes] == ["markets_refresh", "ohlcv_incremental"]


async def test_the_whole_history_is_brought_once(intake: Intake) -> None:
    whole = plan(backfill=True)
    await applied(intake, whole)
    backfill = (await jobs_of(intake))["ohlcv_backfill", "BTC/USDT", "1h"]
    assert backfill.cursor.since_ms is None

    (paused,) = await applied(intake, plan())
    assert (paused.action, paused.job_id) == ("pause", backfill.id)
    await applied(intake, whole)
    await finish_backfills(intake, NEW_YEAR_MS)
    assert await applied(intake, whole) == []
    assert await applied(intake, plan(backfill=date(2017, 1, 1))) == []


async def test_limits_and_notes_follow_the_plan(intake: Intake) -> None:
    tight = LimitPlan(amount=50, period_ms=60_000)
    await applied(intake, plan(limits=(tight,), notes="by plan"))
    assert (await intake.connectors.get("binance")).rate_limit == 50
    assert await applied(intake, plan(limits=(tight,), notes="by plan")) == []

    tighter = LimitPlan(amount=40, period_ms=60_000)
    (change,) = await applied(intake, plan(limits=(tighter,), notes="by plan"))
    assert (change.action, change.what) == ("edit", "connector")
    assert change.detail == "weight 40 per 60 s"
    assert await intake.connectors.chosen_limits("binance") == (Limit(40, 60_000),)

    assert await applied(intake, plan()) == [], "what the plan does not speak of stays"
    connector = await intake.connectors.get("binance")
    assert (connector.rate_limit, connector.notes) == (40, "by plan")


async def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_changed(
    intake: Intake,
) -> None:
    wrong = {
        **plan(symbols=("btc_usd", "eth_usdt", "doge"), timeframes=("1h", "7h")),
        "binanse": ConnectorPlan(),
    }
    with pytest.raises(ConfigError) as refusal:
        await applied(intake, wrong)

    said = str(refusal.value)
    assert "plan.toml" in said
    for words in ("'btc_usd'. Did you mean btc_usdt", "'doge'", "'7h' is not", "'binanse'"):
        assert said.count(words) == 1, words
    assert await intake.connectors.find() == []
    assert await intake.desk.find() == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"timeframes": ()}, "connectors.binance.timeframes"),
        ({"symbols": ()}, "connectors.binance.symbols"),
    ],
)
async def test_a_half_said_plan_is_refused(
    intake: Intake, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        await prepare(plan(**fields), intake, "plan.toml")


async def test_a_plan_for_an_exchange_that_cannot_be_asked_is_refused(intake: Intake) -> None:
    assert isinstance(intake.listings, Listed)
    intake.listings.silent = True

    with pytest.raises(ConfigError, match="does not answer"):
        await applied(intake, plan())
    assert await intake.connectors.find() == []
