"""The documents that show a fleet, over HTTP."""

from msgspec.structs import replace
from tests.monitor.statuses import activity, seen
from tests.stats.test_alerting import ALERT

from penstock.clock import SystemClock
from penstock.connectors import ConnectorManager
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.runtime.status import write_process
from penstock.stats.alert_store import write_alerts
from penstock.storage.state import StateStore

from .conftest import CANDLES, Client


async def report(store: StateStore, messages: int, *, later_ms: int = 0) -> None:
    """Write the status of a collector that runs."""
    _, status, *_ = seen("collect-binance", activity("binance", messages, lag_ms=15))
    now_ms = SystemClock().now_ms() + later_ms
    await write_process(store, "id", replace(status, at_ms=now_ms, last_data_ms=now_ms))


async def test_the_overview_of_an_empty_store_says_nothing_is_known(api: Client) -> None:
    shown = (await api.ask("GET", "overview")).json
    assert (shown["exchanges"], shown["backup"], shown["alerts"]) == ([], None, [])
    assert shown["totals"]["processes"] == 0


async def test_the_overview_shows_what_the_processes_report(api: Client, store: StateStore) -> None:
    await ConnectorManager(store).ensure_connector("binance")
    gap = GapRow(exchange="binance", channel="trades", symbol="btc_usdt", by="id", first=7, last=9,
                 cause="lost")  # fmt: skip
    await GapRows(store).open(gap)
    await write_alerts(store, [ALERT])
    assert (await api.ask("POST", "jobs", CANDLES)).status == 201

    await report(store, 100)
    [exchange] = (await api.ask("GET", "overview")).json["exchanges"]
    assert (exchange["messages_per_s"], exchange["lag_ms"]) == (None, 15)
    await report(store, 400, later_ms=3_000)
    shown = (await api.ask("GET", "overview")).json
    [exchange] = shown["exchanges"]

    assert 90 < exchange["messages_per_s"] < 110
    assert (exchange["light"], exchange["why"]) == ("warning", ["1 gap is open"])
    assert (exchange["markets"], exchange["connections_up"]) == (50, 2)
    assert shown["totals"]["gaps_open"] == 1
    assert [each["rule"] for each in shown["alerts"]] == ["gaps"]
    assert len(shown["rates"]) == 1

    [process] = (await api.ask("GET", "processes")).json["items"]
    assert (process["name"], process["exchanges"]) == ("collect-binance", ["binance"])
    assert process["messages_per_s"] == exchange["messages_per_s"]

    # A filled gap is no longer counted.
    await GapRows(store).mark_filled(gap.stream, gap.by, gap.first, gap.last)
    assert (await api.ask("GET", "overview")).json["totals"]["gaps_open"] == 0


async def test_the_summary_of_jobs_has_those_first_that_need_attention(api: Client) -> None:
    empty = (await api.ask("GET", "jobs/summary")).json
    assert empty == {"items": [], "counts": {}, "paused": 0}
    idle = (await api.ask("POST", "jobs", CANDLES)).json["id"]
    other = {**CANDLES, "symbol": "ETH/USDT"}
    queued = (await api.ask("POST", "jobs", other)).json["id"]
    await api.ask("POST", f"jobs/{queued}/run")
    await api.ask("POST", f"jobs/{idle}/pause")

    shown = (await api.ask("GET", "jobs/summary")).json
    assert [each["id"] for each in shown["items"]] == [queued, idle]
    assert (shown["counts"], shown["paused"]) == ({"queued": 1, "idle": 1}, 1)
    assert shown["items"][0] == (await api.ask("GET", f"jobs/{queued}")).json


async def test_settings_are_shown_with_their_source(api: Client) -> None:
    items = {each["name"]: each for each in (await api.ask("GET", "config")).json["items"]}
    assert items["api.port"]["origin"] == "default"
    assert items["api.port"]["doc"]
    assert items["api.token"]["masked"] is False
