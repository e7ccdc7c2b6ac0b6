"""The overview: what each exchange's light is and why, and the totals."""

import pytest

from penstock.backup.outcome import BackupOutcome
from penstock.monitor.lights import Light
from penstock.monitor.overview import (
    MOST_ALERTS,
    ConnectorFacts,
    ExchangeView,
    OverviewInputs,
    overview_of,
)
from penstock.monitor.processes import processes_of, readings_of
from penstock.monitor.rates import RateSampler
from penstock.resilience.breaker import Breaker
from penstock.runtime.status import ChildStatus, SeenProcess
from penstock.stats.alerts import Alert
from penstock.stats.statistics import DiskStatistics, StorageStatistics

from .statuses import NOW_MS, activity, seen


def shown(*processes: SeenProcess, **fields: object) -> ExchangeView:
    """The only exchange of an overview."""
    inputs = OverviewInputs(NOW_MS, processes, **fields)  # type: ignore[arg-type]
    [exchange] = overview_of(inputs, RateSampler()).exchanges
    return exchange


@pytest.mark.parametrize(
    ("process", "fields", "light", "word"),
    [
        (seen("collect-binance", activity()), {}, "ok", ""),
        (seen("collect-binance", activity(), problems=["1 books stale"]), {}, "warning", "stale"),
        (seen("collect-binance", activity(), state="starting"), {}, "warning", "is starting"),
        (seen("collect-binance", activity(connections_up=1)), {}, "warning", "1 of 2"),
        (seen("collect-binance", activity(connections_up=0)), {}, "bad", "no connection"),
        (seen("collect-binance", activity(), silent_ms=60_000), {}, "bad", "not reported"),
        (seen("collect-binance", state="failed", problems=["x"]), {}, "bad", "failed: x"),
        (seen("collect-binance", activity(), state="stopped"), {"gaps_open": {"binance": 1}},
         "off", "no process"),
        (seen("collect-binance", activity(), last_data_ms=NOW_MS - 90_000), {}, "bad", "no data"),
        (seen("fetch-binance", activity(), last_data_ms=NOW_MS - 90_000), {}, "ok", ""),
        (seen("collect-binance", activity()), {"gaps_open": {"binance": 3}}, "warning", "3 gaps"),
        (seen("collect-binance", activity()),
         {"connectors": {"binance": ConnectorFacts(blocked_until_ms=NOW_MS + 30_000)}},
         "bad", "30 s are left"),
        (seen("collect-binance", activity()),
         {"connectors": {"binance": ConnectorFacts(is_paused=True)}}, "warning", "paused"),
        (seen("collect-binance", activity()),
         {"breakers": {"binance": Breaker(phase="open", reason="500")}}, "bad", "open: 500"),
        (seen("collect-binance", activity()),
         {"breakers": {"binance": Breaker(phase="half_open")}}, "warning", "probes"),
        (seen("collect-binance", activity()),
         {"breakers": {"binance": Breaker(forced="open")}}, "warning", "operator"),
        (seen("collect-binance", activity()),
         {"breakers": {"binance": Breaker(phase="open", forced="closed")}}, "ok", ""),
    ],
)  # fmt: skip
def test_the_light_says_what_is_wrong(
    process: SeenProcess, fields: dict[str, object], light: Light, word: str
) -> None:
    exchange = shown(process, **fields)
    assert (exchange.light, exchange.exchange) == (light, "binance")
    assert word in "; ".join(exchange.why)
    assert bool(exchange.why) == (light != "ok")


@pytest.mark.parametrize(
    ("name", "exchange"),
    [
        ("collect-binance", "binance"),
        ("collect-binance-b", "binance"),
        ("fetch-ccxt-okx-2", "ccxt:okx"),
    ],
)
def test_a_process_that_failed_at_its_start_has_its_exchange_in_its_name(
    name: str, exchange: str
) -> None:
    failed = shown(seen(name, state="failed", problems=["no disk"]))
    assert (failed.exchange, failed.light) == (exchange, "bad")
    assert overview_of(OverviewInputs(NOW_MS, [seen("work-0")]), RateSampler()).exchanges == []


def test_an_exchange_without_data_is_bad_though_its_process_receives_that_of_others() -> None:
    quiet = activity("quiet", last_data_ms=NOW_MS - 90_000)
    ticking = seen("tickers-1", activity("busy", last_data_ms=NOW_MS - 500), quiet, activity("new"))

    found = overview_of(OverviewInputs(NOW_MS, [ticking]), RateSampler()).exchanges

    assert [(each.exchange, each.light, each.last_data_ms) for each in found] == [
        ("busy", "ok", NOW_MS - 500), ("new", "bad", None), ("quiet", "bad", NOW_MS - 90_000),
    ]  # fmt: skip
    assert found[2].why == ["tickers-1: no data for 90 s"]


def test_a_rate_is_that_between_the_times_of_the_counts() -> None:
    rates = RateSampler()
    for counted_s, written_s in ((0.9, 1), (3, 4), (6.9, 7)):
        found = activity("toy", round(counted_s * 100), counted_ms=round(counted_s * 1000))
        process = seen("collect-toy", found, started_ms=0, at_ms=written_s * 1000)
        rates.observe(readings_of([process]), NOW_MS)
        assert rates.rate("toy") in (None, 100.0)
    assert rates.rate("toy") == 100.0


def test_without_anything_there_is_an_empty_overview() -> None:
    empty = overview_of(OverviewInputs(NOW_MS), RateSampler())
    assert (empty.exchanges, empty.alerts, empty.rates) == ([], [], [])
    assert (empty.disk, empty.backup, empty.totals.messages_per_s) == (None, None, None)


def test_an_exchange_has_the_sums_of_its_processes() -> None:
    collect = seen("collect-toy", activity("toy", 100, lag_ms=40))
    second = seen("collect-toy-2", activity("toy", 100, markets=10, lag_ms=90))
    ticking = seen("tickers-1", activity("toy", 7, connections=0, connections_up=0),
                   activity("other", 1, markets=3))  # fmt: skip
    gone = seen("fetch-toy", activity("toy", 5, markets=500), silent_ms=99_000)
    rates = RateSampler()
    fleet = (collect, second, ticking, gone)
    rates.observe(readings_of(fleet), NOW_MS)
    inputs = OverviewInputs(
        NOW_MS,
        fleet,
        {"toy": ConnectorFacts(exchange_offset_ms=-20), "idle": ConnectorFacts()},
        gaps_open={"toy": 2},
        jobs={"running": 3, "failed": 1, "idle": 7},
    )
    found = overview_of(inputs, rates)
    by_name = {each.exchange: each for each in found.exchanges}
    assert list(by_name) == ["idle", "other", "toy"]
    toy = by_name["toy"]
    assert (toy.markets, toy.connections, toy.connections_up, toy.gaps_open) == (60, 4, 4, 2)
    assert toy.lag_ms == 70  # the worst, as the exchange's clock is behind
    assert toy.messages_per_s is None
    assert by_name["idle"].light == "off"
    assert (found.totals.markets, found.totals.gaps_open) == (63, 2)
    assert (found.totals.processes, found.totals.processes_failed) == (4, 1)
    assert (found.totals.jobs_running, found.totals.jobs_failed) == (3, 1)


def test_the_disk_is_the_one_that_is_full_first() -> None:
    def disk(path: str, free: int, days: float | None) -> DiskStatistics:
        return DiskStatistics(
            path=path, size_bytes=100, free_bytes=free, data_bytes=5, days_until_full=days
        )

    def folder(*disks: DiskStatistics, at_ms: int = NOW_MS) -> StorageStatistics:
        return StorageStatistics(
            host="h", folder="f", at_ms=at_ms, took_ms=1, disks=disks, directories=()
        )

    statistics = [
        folder(disk("/a", 50, None), disk("/b", 50, 9.0)),
        folder(disk("/c", 40, 30.0)),
        folder(disk("/old", 1, 0.1), at_ms=NOW_MS - 3_600_000),
    ]
    found = overview_of(OverviewInputs(NOW_MS, statistics=statistics), RateSampler()).disk
    assert found is not None
    assert (found.path, found.used_bytes, found.days_left) == ("/b", 50, 9.0)


def test_a_backup_that_failed_comes_before_one_that_did_not() -> None:
    good = BackupOutcome(log_id="a", folder="/a", host="h", at_ms=1, name="x", verified="x")
    bad = BackupOutcome(log_id="b", folder="/b", host="h", at_ms=9, problem="the disk is full")
    shown = overview_of(OverviewInputs(NOW_MS, backups=[good, bad]), RateSampler()).backup
    assert shown is not None
    assert (shown.ok, shown.message, shown.verified) == (False, "the disk is full", False)
    shown = overview_of(OverviewInputs(NOW_MS, backups=[good]), RateSampler()).backup
    assert shown is not None
    assert (shown.ok, shown.message, shown.verified) == (True, "x", True)


def test_alerts_that_fire_come_first_and_not_all_are_shown() -> None:
    def alert(number: int) -> Alert:
        return Alert(
            rule="gaps", subject=f"{number}", message="m", severity="warning",
            state="firing" if number % 2 else "resolved", since_ms=number, seen_ms=number,
            changed_ms=number + 1,
        )  # fmt: skip

    inputs = OverviewInputs(NOW_MS, alerts=[alert(number) for number in range(100)])
    alerts = overview_of(inputs, RateSampler()).alerts
    assert [each.subject for each in alerts] == [
        str(n) for n in range(99, 99 - 2 * MOST_ALERTS, -2)
    ]
    assert {each.ended_ms for each in alerts} == {None}


def test_a_process_shows_how_often_its_supervisor_restarted_it() -> None:
    child = ChildStatus(name="collect-toy", state="running", pid=7, restarts=3)
    fleet = [seen("collect-toy", activity("toy"), pid=7), seen("up", children=[child], pid=6)]
    items = processes_of(fleet, RateSampler()).items
    assert [(each.name, each.restarts) for each in items] == [("collect-toy", 3), ("up", None)]
    assert items[0].exchanges == ["toy"]
