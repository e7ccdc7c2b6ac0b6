"""Connectors over HTTP: made once, edited by version, paused, retired."""

import asyncio

import pytest

from penstock.storage.state.schema import CONNECTORS

from .conftest import CANDLES, Client


async def pay(api: Client, cost: int) -> None:
    """Pay for a request; at the end of a window the next one is waited for."""
    while not (token := await api.app_state.connectors.acquire_token("binance", cost)).ok:
        await api.app_state.clock.sleep(token.retry_after_ms / 1000)


async def test_a_connector_is_made_once_and_then_found(api: Client) -> None:
    made = await api.ask("POST", "connectors", {"exchange_id": "binance", "notes": "night"})
    again = await api.ask("POST", "connectors", {"exchange_id": "binance"})

    assert (made.status, again.status) == (201, 200)
    assert made.headers["Location"] == "/api/v1/connectors/binance"
    assert made.json["id"] == again.json["id"] == "binance"
    assert again.json["notes"] == "night"
    assert made.json["rate_limit"] > 0
    assert made.json["creation_date"].endswith("Z")
    assert isinstance(made.json["rate_limit_reset_at"], int)


async def test_a_connector_is_made_with_a_rate_limit_of_its_own(api: Client) -> None:
    spec = {"exchange_id": "binance", "rate_limit": 20, "rate_limit_period_ms": 1000}

    for wrong, field in (
        ({**spec, "rate_limit": 0}, "rate_limit"),
        ({**spec, "rate_limit_period_ms": 0}, "rate_limit_period_ms"),
        ({"exchange_id": "binance", "rate_limit": 20}, "rate_limit_period_ms"),
        ({"exchange_id": "binance", "rate_limit_period_ms": 1000}, "rate_limit"),
        ({**spec, "limits": [{"amount": 1, "period_ms": 1}]}, "rate_limit"),
    ):
        problem = (await api.ask("POST", "connectors", wrong)).is_problem(422)
        assert [error["field"] for error in problem["errors"]] == [field]
    assert (await api.ask("GET", "connectors")).json["items"] == []
    made = await api.ask("POST", "connectors", spec)

    assert made.status == 201
    assert (made.json["rate_limit"], made.json["rate_limit_period_ms"]) == (20, 1000)
    assert made.json["limits"][0]["unit"] == "request"


async def test_nobody_writes_who_only_looks(api: Client) -> None:
    await api.ask("POST", "jobs", CANDLES)
    before = await api.app_state.store.get(CONNECTORS, "binance")

    for path in ("connectors", "connectors/binance", "jobs", "/metrics"):
        assert (await api.ask("GET", path)).status == 200

    assert await api.app_state.store.get(CONNECTORS, "binance") == before


async def test_fifty_clients_who_ask_at_once_get_one_document(api: Client) -> None:
    body = {"exchange_id": "binance"}
    answers = await asyncio.gather(*(api.ask("POST", "connectors", body) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [*[200] * 49, 201]
    assert {answer.json["id"] for answer in answers} == {"binance"}
    assert len({answer.json["creation_date"] for answer in answers}) == 1
    assert len((await api.ask("GET", "connectors")).json["items"]) == 1


async def test_an_unknown_exchange_is_refused_with_near_matches(api: Client) -> None:
    answer = await api.ask("POST", "connectors", {"exchange_id": "binanse"})

    assert answer.is_problem(422)["near"][0] == "binance"
    assert (await api.ask("GET", "connectors")).json == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "connectors/binance"),
        ("PATCH", "connectors/binance"),
        ("DELETE", "connectors/binance"),
        ("POST", "connectors/binance/pause"),
        ("POST", "connectors/nowhere/resume"),
    ],
)
async def test_a_connector_nobody_made_is_not_found(api: Client, method: str, path: str) -> None:
    body = {"notes": "x"} if method == "PATCH" else None

    (await api.ask(method, path, body)).is_problem(404)


async def test_a_connector_is_paused_and_resumed(api: Client) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})

    paused = await api.ask("POST", "connectors/binance/pause")
    assert paused.json["status"] == "paused"
    assert not (await api.app_state.connectors.acquire_token("binance")).ok
    listed = await api.ask("GET", "connectors?status=paused")
    assert [one["id"] for one in listed.json["items"]] == ["binance"]
    resumed = await api.ask("POST", "connectors/binance/resume")
    assert resumed.json["status"] == "active"
    await pay(api, 1)


async def test_limits_can_be_tightened_and_given_back(api: Client) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    whole = (await api.ask("GET", "connectors/binance")).json["rate_limit"]

    tight = {"limits": [{"amount": 10, "period_ms": 60_000}]}
    assert (await api.ask("PATCH", "connectors/binance", tight)).json["rate_limit"] == 10
    freed = await api.ask("PATCH", "connectors/binance", {"limits": None})
    assert freed.json["rate_limit"] == whole


async def test_an_edit_of_another_version_is_refused(api: Client) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    seen = (await api.ask("GET", "connectors/binance")).headers["ETag"]

    first = await api.ask("PATCH", "connectors/binance", {"notes": "one"}, If_Match=seen)
    late = await api.ask("PATCH", "connectors/binance", {"notes": "two"}, If_Match=seen)
    deleted = await api.ask("DELETE", "connectors/binance", If_Match='"99"')

    assert first.status == 200
    late.is_problem(412)
    deleted.is_problem(412)
    assert (await api.ask("GET", "connectors/binance")).json["notes"] == "one"


async def test_the_etag_of_a_connector_changes_with_what_is_used(api: Client) -> None:
    daily = {"amount": 5000, "period_ms": 86_400_000}
    await api.ask("POST", "connectors", {"exchange_id": "binance", "limits": [daily]})
    before = (await api.ask("GET", "connectors/binance")).headers["ETag"]

    await pay(api, 5)
    after = await api.ask("GET", "connectors/binance", If_None_Match=before)

    assert after.status == 200
    assert after.json["rate_limit_usage"] >= 5


async def test_a_connector_with_jobs_is_not_deleted(api: Client) -> None:
    job = await api.ask("POST", "jobs", CANDLES)

    assert "live jobs" in (await api.ask("DELETE", "connectors/binance")).is_problem(409)["detail"]
    assert (await api.ask("GET", "connectors/binance")).json["jobs_count"] == 1

    assert (await api.ask("DELETE", f"jobs/{job.json['id']}")).status == 204
    assert (await api.ask("DELETE", "connectors/binance")).status == 204
    (await api.ask("GET", "connectors/binance")).is_problem(404)
    deleted = await api.ask("GET", "connectors?status=deleted")
    assert [one["id"] for one in deleted.json["items"]] == ["binance"]
    assert (await api.ask("POST", "connectors", {"exchange_id": "binance"})).status == 201


async def test_a_connector_of_a_family_is_named_in_paths_as_it_is(api: Client) -> None:
    made = await api.ask("POST", "connectors", {"exchange_id": "ccxt:okx"})
    paused = await api.ask("POST", "connectors/ccxt:okx/pause")
    spelt = await api.ask("GET", "connectors/ccxt%3Aokx")
    unknown = await api.ask("POST", "connectors", {"exchange_id": "ccxt:okxx"})

    assert made.status == 201
    assert made.headers["Location"] == "/api/v1/connectors/ccxt:okx"
    assert (paused.json["status"], spelt.json["status"]) == ("paused", "paused")
    assert "ccxt:okx" in unknown.is_problem(422)["near"]


async def test_a_connector_is_edited_with_the_document_that_get_gave(api: Client) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    shown = (await api.ask("GET", "connectors/binance")).json
    await pay(api, 3)  # What is measured has changed since.

    same = await api.ask("PATCH", "connectors/binance", shown)
    assert (same.status, same.json["version"]) == (200, shown["version"])
    document = await api.app_state.store.get(CONNECTORS, "binance")
    assert document is not None
    assert document["chosen"] is None, "the exchange's limits are not made one's own"

    halved = {**shown["limits"][0], "amount": shown["rate_limit"] // 2}
    wanted = {**shown, "notes": "half", "limits": [halved, *shown["limits"][1:]]}
    changed = await api.ask("PATCH", "connectors/binance", wanted)
    assert (changed.status, changed.json["notes"]) == (200, "half")
    assert changed.json["rate_limit"] == shown["rate_limit"] // 2
    again = await api.ask("PATCH", "connectors/binance", changed.json)
    assert (again.status, again.json["version"]) == (200, changed.json["version"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("exchange_id", "kraken"), ("status", "paused"), ("rate_limit", 7), ("version", 99)],
)
async def test_what_of_a_connector_cannot_change_is_named(
    api: Client, field: str, value: object
) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})
    shown = (await api.ask("GET", "connectors/binance")).json
    answer = await api.ask("PATCH", "connectors/binance", {**shown, field: value})
    (error,) = answer.is_problem(422)["errors"]
    assert error["field"] == field
    assert str(shown[field]) in error["problem"]


async def test_a_circuit_breaker_is_shown_and_forced(api: Client) -> None:
    (await api.ask("GET", "connectors/binance/breaker")).is_problem(404)
    await api.ask("POST", "connectors", {"exchange_id": "binance"})

    shown = (await api.ask("GET", "connectors/binance/breaker")).json
    assert (shown["state"], shown["forced"], shown["transitions"]) == ("closed", None, [])

    for force, to in (("open", "forced open"), ("closed", "forced closed"), (None, "automatic")):
        forced = await api.ask("POST", "connectors/binance/breaker", {"force": force})
        assert (forced.status, forced.json["forced"]) == (200, force)
        assert forced.json["transitions"][-1]["to"] == to
    assert (await api.ask("GET", "connectors/binance/breaker")).json == forced.json


@pytest.mark.parametrize("body", [{}, {"force": "half_open"}, {"force": "open", "until": 1}])
async def test_a_wrong_order_changes_no_breaker(api: Client, body: dict[str, object]) -> None:
    await api.ask("POST", "connectors", {"exchange_id": "binance"})

    (await api.ask("POST", "connectors/binance/breaker", body)).is_problem(422)

    assert (await api.ask("GET", "connectors/binance/breaker")).json["transitions"] == []
