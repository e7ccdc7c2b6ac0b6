"""What a fleet does now, over the API."""

from msgspec.structs import replace
from tests.monitor.test_connections import STATUS

from penstock.runtime.status import write_process

from .conftest import Client


async def test_connections_are_those_that_processes_reported(api: Client) -> None:
    assert (await api.ask("GET", "connections")).json == {"items": []}
    await write_process(api.app_state.store, "a", replace(STATUS, host="other"))

    answer = await api.ask("GET", "connections")
    [shown] = answer.json["items"]
    assert (shown["process"], shown["state"], shown["acked"]) == ("collect-toy", "connected", 3)
    assert shown["events"][0] == {"at_ms": 4000, "what": "closed", "reason": "<img onerror=x>"}
    assert answer.headers["Content-Type"].startswith("application/json")


async def test_limits_are_those_of_the_connectors(api: Client) -> None:
    await api.app_state.connectors.ensure_connector("binance")
    await api.app_state.connectors.force_breaker("binance", "open")

    shown = (await api.ask("GET", "limits")).json
    assert {each["exchange"] for each in shown["items"]} == {"binance"}
    assert shown["exchanges"][0]["breaker"]["forced"] == "open"
    assert shown["exchanges"][0]["breaker"]["transitions"][0]["to"] == "forced open"
