"""Metrics: facts counted, state shown, in the text that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from penstock.clock import ManualClock
from penstock.collect.facts import (
    BookDrifted,
    FetchDone,
    FetchFailed,
    StreamProbed,
    StreamRecovered,
    StreamStalled,
    StreamSuspected,
)
from penstock.connectors import ConnectorManager
from penstock.connectors.facts import BreakerOpened
from penstock.exchanges.facts import RequestFailed, RequestSent, SendingStopped
from penstock.keep.facts import (
    ChannelSealed,
    KeepingFailed,
    LakeMeasured,
    LogMeasured,
    RecordsSealed,
)
from penstock.publish.facts import BusFell, MessagesDropped
from penstock.stats.fleet_metrics import fleet_text, store_text
from penstock.stats.metrics import Metrics
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit
from penstock.tickers.facts import ExchangeMeasured, TicksMeasured
from penstock.web.facts import RequestCrashed, RequestServed


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """(name, labels' values …) → value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_requests_and_failures_are_counted_by_exchange() -> None:
    metrics = Metrics()
    for status in (200, 200, 429):
        metrics(RequestSent(exchange="x", path="/p", cost=5, status=status, took_ms=120))
    metrics(RequestFailed(exchange="x", path="/p", cost=5, sent=True, reason="silence"))
    metrics(RequestFailed(exchange="y", path="/p", cost=5, sent=False, reason="refused"))

    found = samples(metrics.text())
    assert found["penstock_requests_total", "x", "200"] == 2
    assert found["penstock_requests_total", "x", "429"] == 1
    assert found["penstock_request_cost_total", "x"] == 15
    assert found["penstock_request_failures_total", "x", "true"] == 1
    assert found["penstock_request_failures_total", "y", "false"] == 1
    assert found["penstock_request_seconds_count", "x"] == 3
    assert found["penstock_request_seconds_bucket", "x", "0.1"] == 0
    assert found["penstock_request_seconds_bucket", "x", "0.25"] == 3


def test_errors_are_counted_from_0_by_process_and_for_the_fleet() -> None:
    metrics = Metrics()
    metrics(RequestSent(exchange="x", path="/p", cost=5, status=200, took_ms=120))
    names = ("request_errors", "rate_limit_errors", "breaker_opens")
    found = samples(metrics.text())
    assert [found[f"penstock_{name}_total", "x"] for name in names] == [0, 0, 0]

    for status in (400, 429, 503, 200):
        metrics(RequestSent(exchange="x", path="/p", cost=5, status=status, took_ms=120))
    metrics(RequestFailed(exchange="x", path="/p", cost=5, sent=True, reason="silence"))
    metrics(SendingStopped(exchange="x", path="/p", status=429, until_ms=2, asked_ms=2))
    metrics(BreakerOpened(exchange="x", reason="it fails", retry_at_ms=2))

    counted = {
        "exchange_id": "x", "requests": {"200": 2, "400": 1, "429": 1, "503": 1}, "cost": 1,
        "failures": {"true": 1}, "rate_limit_errors": 1, "breaker_opens": 1,
    }  # fmt: skip
    for text in (metrics.text(), fleet_text([], {}, [counted])):
        found = samples(text)
        assert [found[f"penstock_{name}_total", "x"] for name in names] == [4, 1, 1]
        assert found["penstock_request_attempts_total", "x"] == 6


def test_a_stalled_stream_is_counted_once_until_it_recovers() -> None:
    metrics, where = Metrics(), {"exchange": "x", "channel": "trades"}
    metrics(StreamSuspected(**where, symbol="a_b", silent_s=10.0))
    for symbol in ("a_b", "a_b", "c_d"):
        metrics(StreamProbed(**where, symbol=symbol, found="news"))
        metrics(StreamStalled(**where, symbol=symbol, remedy="asked_anew"))
    for symbol in ("c_d", "e_f"):
        metrics(StreamRecovered(**where, symbol=symbol))

    found = samples(metrics.text())
    assert found["penstock_stream_suspicions_total", "trades", "x"] == 1
    assert found["penstock_stream_looks_total", "x", "news"] == 3
    assert found["penstock_stream_remedies_total", "x", "asked_anew"] == 3
    assert found["penstock_streams_mute", "trades", "x"] == 1


def test_what_falls_from_the_bus_is_counted() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics(MessagesDropped(slot="a", count=3))
        metrics(BusFell(overflows=1, missed=40))

    found = samples(metrics.text())
    assert found["penstock_bus_dropped_total", "a"] == 6
    assert found["penstock_bus_overflows_total",] == 2
    assert found["penstock_bus_missed_total",] == 80


def test_a_keeper_reports_sizes_and_how_far_it_has_sealed() -> None:
    metrics = Metrics()
    assert "penstock_log_max_bytes" not in metrics.text().decode(), "not known by other processes"
    for size in (70, 50):
        metrics(LogMeasured(slots={"collect-x": size, "work-1": 5}, max_bytes=100))
        metrics(LakeMeasured(tables={"trades": 1000 - size}))
        metrics(RecordsSealed(slot="collect-x", table="trades", rows=3))
    metrics(ChannelSealed(slot="collect-x", table="trades", before_ms=1500))
    metrics(KeepingFailed(what="sealing", reason="the disk is full"))

    found = samples(metrics.text())
    assert found["penstock_log_bytes", "collect-x"] == 50
    assert found["penstock_log_bytes", "work-1"] == 5
    assert found["penstock_log_max_bytes",] == 100
    assert found["penstock_lake_bytes", "trades"] == 950
    assert found["penstock_sealed_records_total", "collect-x", "trades"] == 6
    assert found["penstock_sealed_before_timestamp_seconds", "collect-x", "trades"] == 1.5
    assert found["penstock_keeping_failures_total",] == 1


def test_fetches_are_counted_by_what_they_fetch() -> None:
    metrics = Metrics()
    for records, at_ms in ((5, 1_000), (0, 2_000)):
        done = FetchDone(exchange="x", what="trades", symbol="a_b", records=records, at_ms=at_ms)
        metrics(done)
    metrics(FetchFailed(exchange="x", what="book", symbol="a_b", reason="lost", delay_s=1.0))

    found = samples(metrics.text())
    assert found["penstock_fetches_total", "x", "trades"] == 2
    assert found["penstock_fetch_records_total", "x", "trades"] == 5
    assert found["penstock_fetch_last_timestamp_seconds", "x", "trades"] == 2.0
    assert found["penstock_fetch_failures_total", "x", "book"] == 1


def test_answers_of_the_api_are_counted() -> None:
    metrics = Metrics()
    metrics(RequestServed(method="GET", path="/secret", status=200, took_ms=1))
    metrics(RequestCrashed(id="1", method="GET", path="/secret", error="…"))

    found = samples(metrics.text())
    assert found["penstock_api_requests_total", "GET", "200"] == 1
    assert found[("penstock_api_crashes_total",)] == 1
    assert b"secret" not in metrics.text(), "a path may hold anything, and makes a series each"


def test_drifts_are_counted_by_book() -> None:
    metrics = Metrics()
    for levels in (3, 4):
        metrics(BookDrifted(exchange="x", symbol="btc_usdt", levels=levels))

    found = samples(metrics.text())
    assert found["penstock_book_drifts_total", "x", "btc_usdt"] == 2
    assert found["penstock_book_drift_levels_total", "x", "btc_usdt"] == 7


def test_two_registries_know_nothing_of_each_other() -> None:
    one, other = Metrics(), Metrics()
    one(RequestSent(exchange="x", path="/p", cost=1, status=200, took_ms=1))

    assert ("penstock_requests_total", "x", "200") not in samples(other.text())


async def test_the_state_of_the_fleet_is_shown() -> None:
    # The middle of a minute: no window is about to end.
    store = await open_store("memory:", clock=ManualClock(now_ms=1_700_000_010_000))
    manager = ConnectorManager(store)
    day_ms = 86_400_000
    await manager.ensure_connector("binance", [Limit(7, day_ms), Limit(3, day_ms, "request")])
    assert (await manager.acquire_token("binance", 5)).ok
    assert not (await manager.acquire_token("binance", 5)).ok
    await manager.pause_connector("binance")

    connectors = await manager.find()
    found = samples(fleet_text(connectors, {"binance": {"running": 2, "idle": 4}}))
    weight, requests = f"weight {day_ms}ms", f"request {day_ms}ms"
    assert found["penstock_limit", "binance", weight] == 7
    assert found["penstock_limit_used", "binance", weight] == 5
    assert found["penstock_limit_used", "binance", requests] == 1
    resets = found["penstock_limit_reset_timestamp_seconds", "binance", weight]
    assert resets * 1000 == connectors[0].rate_limit_reset_at
    assert found["penstock_limit_saturations_total", "binance"] == 1
    assert found["penstock_connector_active", "binance"] == 0
    assert found["penstock_blocked_until_timestamp_seconds", "binance"] == 0
    assert found["penstock_jobs", "binance", "running"] == 2
    assert found["penstock_jobs", "binance", "idle"] == 4
    await store.close()


def test_an_absent_store_is_shown() -> None:
    assert samples(store_text(up=False)) == {("penstock_store_up",): 0}


def test_a_ticker_daemon_serves_what_it_measured_last() -> None:
    metrics = Metrics()
    assert b"penstock_tick" not in metrics.text()
    for received in (10, 25):
        metrics(
            TicksMeasured(
                store="redis://h:6379",
                exchanges={
                    "x": ExchangeMeasured(received, {"running": 3, "error": 1}, 12.5),
                    "y": ExchangeMeasured(0, {"starting": 2}, None),
                },
                written=20, superseded=4, expired=1, dropped=0, failures=2, waiting=7,
            )
        )  # fmt: skip

    found = samples(metrics.text())
    assert found["penstock_ticks_received_total", "x"] == 25
    assert found["penstock_ticks_received_total", "y"] == 0
    assert found["penstock_ticker_symbols", "x", "error"] == 1
    assert found["penstock_ticks_oldest_age_seconds", "x"] == 12.5
    assert ("penstock_ticks_oldest_age_seconds", "y") not in found
    store = "redis://h:6379"
    assert found["penstock_ticks_written_total", store] == 20
    assert found["penstock_ticks_superseded_total", store] == 4
    assert found["penstock_ticks_expired_total", store] == 1
    assert found["penstock_tick_write_failures_total", store] == 2
    assert found["penstock_ticks_waiting", store] == 7
