"""Plans: made once, changed where they changed, paused where a line went, refused whole."""

from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.config import ConnectorPlan, LimitPlan
from penstock.connectors import ConnectorManager
from penstock.errors import ConfigError, ExchangeUnreachable
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.apply import carry_out, prepare
from penstock.ingest.plan import PlannedChange, shown
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.jobs.service import JobService
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
async def admin() -> AsyncIterator[FleetAdmin]:
    store = await open_store("memory:")
    yield FleetAdmin(ConnectorManager(store), JobService(store, kinds()), Listed())
    await store.close()


def plan(**fields: Any) -> dict[str, ConnectorPlan]:
    said = {"symbols": ("btc_usdt",), "timeframes": ("1h",), **fields}
    return {"binance": ConnectorPlan(**said)}


async def applied(admin: FleetAdmin, plans: dict[str, ConnectorPlan]) -> list[PlannedChange]:
    steps = await prepare(plans, admin, "plan.toml")
    for step in steps:
        await carry_out(step, admin)
    return [shown(step) for step in steps]


async def jobs_of(admin: FleetAdmin) -> dict[tuple[str, str | None, str | None], Job]:
    found = await admin.job_service.find()
    return {(job.type, job.symbol, job.timeframe): job for job in found}


async def test_a_plan_is_made_once(admin: FleetAdmin) -> None:
    plans = plan(symbols=("btc_usdt", "ETH/USDT", "BTCUSDT"), timeframes=("1h", "1d"))

    first = await applied(admin, plans)
    assert [change.what for change in first].count("connector") == 1
    jobs = await jobs_of(admin)
    assert set(jobs) == {
        ("markets_refresh", None, None),
        *(
            ("ohlcv_incremental", symbol, timeframe)
            for symbol in ("BTC/USDT", "ETH/USDT")
            for timeframe in ("1h", "1d")
        ),
    }
    assert all(job.origin for job in jobs.values())
    connector = await admin.connectors.get("binance")
    assert (connector.jobs_count, connector.active_jobs_count) == (5, 5)

    assert await applied(admin, plans) == []
    assert await jobs_of(admin) == jobs


async def test_looking_changes_nothing(admin: FleetAdmin) -> None:
    steps = await prepare(plan(backfill=date(2024, 1, 1)), admin, "plan.toml")

    assert [shown(step).type for step in steps] == [
        None,
        "markets_refresh",
        "ohlcv_incremental",
        "ohlcv_backfill",
    ]
    assert shown(steps[-1]).detail == "since 2024-01-01"
    assert await admin.connectors.find() == []
    assert await admin.job_service.find() == []


async def test_a_changed_interval_edits_the_job(admin: FleetAdmin) -> None:
    await applied(admin, plan())
    before = await jobs_of(admin)

    changes = await applied(admin, plan(interval=900.0, markets_refresh=3600.0))
    assert [(change.action, change.type, change.detail) for change in changes] == [
        ("edit", "markets_refresh", "every 43200 s → 3600 s"),
        ("edit", "ohlcv_incremental", "every 3600 s → 900 s"),
    ]
    after = await jobs_of(admin)
    assert {job.id for job in after.values()} == {job.id for job in before.values()}
    assert after["ohlcv_incremental", "BTC/USDT", "1h"].schedule is not None
    assert await applied(admin, plan(interval=900.0, markets_refresh=3600.0)) == []

    (back,) = await applied(admin, plan(markets_refresh=3600.0))
    assert back.detail == "every 900 s → 3600 s", "without an interval, a candle's length"


async def test_a_removed_line_pauses_and_one_that_returns_resumes(admin: FleetAdmin) -> None:
    both = plan(symbols=MARKETS)
    await applied(admin, both)

    (paused,) = await applied(admin, plan())
    assert (paused.action, paused.symbol) == ("pause", "ETH/USDT")
    assert await applied(admin, plan()) == []
    assert (await jobs_of(admin))["ohlcv_incremental", "ETH/USDT", "1h"].status == "paused"

    (resumed,) = await applied(admin, both)
    assert (resumed.action, resumed.job_id) == ("resume", paused.job_id)

    gone = await applied(admin, {})
    assert {change.action for change in gone} == {"pause"}
    assert len(gone) == 3
    assert (await admin.connectors.get("binance")).status == "active"


async def test_what_people_made_or_paused_is_left_alone(admin: FleetAdmin) -> None:
    by_hand = await admin.add(
        NewJob(exchange_id="binance", type="ohlcv_incremental", symbol="btc_usdt", timeframe="1h")
    )
    other = await admin.add(
        NewJob(exchange_id="binance", type="ohlcv_incremental", symbol="eth_usdt", timeframe="1d")
    )
    await applied(admin, plan(interval=900.0, timeframes=("1h", "1d")))
    jobs = await jobs_of(admin)
    await admin.job_service.pause(jobs["ohlcv_incremental", "BTC/USDT", "1d"].id)

    assert await applied(admin, plan(interval=900.0, timeframes=("1h", "1d"))) == []
    assert await admin.job_service.get(by_hand.id) == by_hand
    await applied(admin, {})
    assert (await admin.job_service.get(by_hand.id)).status == "active"
    assert (await admin.job_service.get(other.id)).status == "active"


async def finish_backfills(admin: FleetAdmin, first_ts: int) -> None:
    leases = Leases(admin.job_service.store, kinds())
    for job in await leases.claim("w", 10, 60_000):
        at_ms = await admin.job_service.store.now_ms()
        brought = replace(job, progress=replace(job.progress, first_ts=first_ts))
        await leases.finish([brought], at_ms)


async def test_history_that_was_brought_is_not_asked_for_again(admin: FleetAdmin) -> None:
    since = plan(backfill=date(2024, 1, 1))
    await applied(admin, since)
    await finish_backfills(admin, NEW_YEAR_MS + 999_000_000)

    assert await applied(admin, since) == [], "also where the market is younger than that"
    assert await applied(admin, plan(backfill=date(2024, 6, 1))) == []
    for older in (date(2020, 1, 1), True):
        steps = await prepare(plan(backfill=older), admin, "plan.toml")
        assert [shown(step).type for step in steps] == ["ohlcv_backfill"]


async def test_history_that_somebody_brought_by_hand_counts(admin: FleetAdmin) -> None:
    by_hand = NewJob(
        exchange_id="binance",
        type="ohlcv_backfill",
        symbol="btc_usdt",
        timeframe="1h",
        cursor=Cursor(since_ms=NEW_YEAR_MS),
    )
    await admin.add(by_hand)
    await finish_backfills(admin, NEW_YEAR_MS)

    changes = await applied(admin, plan(backfill=date(2024, 1, 1)))
    assert [change.type for change in changes] == ["markets_refresh", "ohlcv_incremental"]


async def test_the_whole_history_is_brought_once(admin: FleetAdmin) -> None:
    whole = plan(backfill=True)
    await applied(admin, whole)
    backfill = (await jobs_of(admin))["ohlcv_backfill", "BTC/USDT", "1h"]
    assert backfill.cursor.since_ms is None

    (paused,) = await applied(admin, plan())
    assert (paused.action, paused.job_id) == ("pause", backfill.id)
    await applied(admin, whole)
    await finish_backfills(admin, NEW_YEAR_MS)
    assert await applied(admin, whole) == []
    assert await applied(admin, plan(backfill=date(2017, 1, 1))) == []


async def test_limits_and_notes_follow_the_plan(admin: FleetAdmin) -> None:
    tight = LimitPlan(amount=50, period_ms=60_000)
    await applied(admin, plan(limits=(tight,), notes="by plan"))
    assert (await admin.connectors.get("binance")).rate_limit == 50
    assert await applied(admin, plan(limits=(tight,), notes="by plan")) == []

    tighter = LimitPlan(amount=40, period_ms=60_000)
    (change,) = await applied(admin, plan(limits=(tighter,), notes="by plan"))
    assert (change.action, change.what) == ("edit", "connector")
    assert change.detail == "weight 40 per 60 s"
    assert await admin.connectors.chosen_limits("binance") == (Limit(40, 60_000),)

    assert await applied(admin, plan()) == [], "what the plan does not speak of stays"
    connector = await admin.connectors.get("binance")
    assert (connector.rate_limit, connector.notes) == (40, "by plan")


async def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_changed(
    admin: FleetAdmin,
) -> None:
    wrong = {
        **plan(symbols=("btc_usd", "eth_usdt", "doge"), timeframes=("1h", "7h")),
        "binanse": ConnectorPlan(),
    }
    with pytest.raises(ConfigError) as refusal:
        await applied(admin, wrong)

    said = str(refusal.value)
    assert "plan.toml" in said
    for words in ("'btc_usd'. Did you mean btc_usdt", "'doge'", "'7h' is not", "'binanse'"):
        assert said.count(words) == 1, words
    assert await admin.connectors.find() == []
    assert await admin.job_service.find() == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"timeframes": ()}, "connectors.binance.timeframes"),
        ({"symbols": ()}, "connectors.binance.symbols"),
    ],
)
async def test_a_half_said_plan_is_refused(
    admin: FleetAdmin, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        await prepare(plan(**fields), admin, "plan.toml")


async def test_a_plan_for_an_exchange_that_cannot_be_asked_is_refused(admin: FleetAdmin) -> None:
    assert isinstance(admin.listings, Listed)
    admin.listings.silent = True

    with pytest.raises(ConfigError, match="does not answer"):
        await applied(admin, plan())
    assert await admin.connectors.find() == []
