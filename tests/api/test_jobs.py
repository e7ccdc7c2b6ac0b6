"""Jobs over HTTP: made, found, edited by version, paused, run, followed."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.waiting import PATIENCE_S

from penstock.config import Secret
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases

from .conftest import CANDLES, Client, Open

HOUR_MS = 3_600_000


async def made(api: Client, **said: Any) -> Any:
    answer = await api.ask("POST", "jobs", {**CANDLES, **said})
    assert answer.status == 201, answer.body
    return answer.json


async def test_a_job_is_made_with_what_follows_from_its_type(api: Client) -> None:
    answer = await api.ask("POST", "jobs", {**CANDLES, "symbol": "btc_usdt"})

    job = answer.json
    assert answer.status == 201
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["symbol"], job["timeframe"]) == ("BTC/USDT", "1h")
    assert job["schedule"] == {"mode": "interval", "interval_ms": HOUR_MS}
    assert (job["status"], job["state"]) == ("active", "idle")
    assert job["created_at"].endswith("Z")
    assert isinstance(job["next_run_at"], int)
    assert (await api.ask("GET", f"jobs/{job['id']}")).json == job
    connector = (await api.ask("GET", "connectors/binance")).json
    assert (connector["jobs_count"], connector["active_jobs_count"]) == (1, 1)


async def test_the_same_job_twice_is_a_conflict_that_names_the_first(api: Client) -> None:
    first = await made(api)

    twin = await api.ask("POST", "jobs", {**CANDLES, "symbol": "BTCUSDT"})

    assert twin.is_problem(409)["existing_id"] == first["id"]


@pytest.mark.parametrize(
    ("said", "field", "near"),
    [
        ({"exchange_id": "binanse"}, None, ["binance", "coinbase"]),
        ({"symbol": "btc_usd"}, None, ["btc_usdt"]),
        ({"symbol": "nonsense"}, None, None),
        ({"timeframe": "1H"}, None, ["1h"]),
        ({"timeframe": "7m"}, None, None),
        ({"symbol": None}, "symbol", None),
        ({"type": "ohlcv_backfil"}, "type", None),
        ({"priority": -1}, "priority", None),
        ({"priority": "high"}, "priority", None),
        ({"prority": 1}, "prority", ["priority"]),
        ({"schedule": {"interval_ms": 0}}, "schedule.interval_ms", None),
        ({"schedule": {"interval_ms": "3600000"}}, "schedule.interval_ms", None),
        ({"cursor": {"since_ms": "x"}}, "cursor.since_ms", None),
        ({"cursor": {"since_ms": 1 << 70}}, "cursor.since_ms", None),
        ({"cursor": {"from": 5}}, "from", None),
        ({"cursor": {"until_ms": 5}}, "cursor.until_ms", None),
        ({"cursor": [1]}, "cursor", None),
        ({"type": "gap_backfill"}, "cursor", None),
        ({"type": "gap_backfill", "cursor": {"since_ms": 2, "until_ms": 1}}, "cursor", None),
        (
            {
                "exchange_id": "kraken",
                "type": "gap_backfill",
                "timeframe": None,
                "cursor": {"first_id": 1, "last_id": 2, "channel": "agg_trades"},
            },
            "cursor.channel",
            None,
        ),
    ],
)
async def test_a_job_that_makes_no_sense_is_refused_and_nothing_is_made(
    api: Client, said: dict[str, Any], field: str | None, near: list[str] | None
) -> None:
    problem = (await api.ask("POST", "jobs", {**CANDLES, **said})).is_problem(422)

    if field is not None:
        assert problem["errors"][0]["field"] == field
    if near is not None:
        assert set(near) <= set(problem["near"])
    assert (await api.ask("GET", "jobs")).json["items"] == []
    assert (await api.ask("GET", "connectors")).json["items"] == []


async def test_a_job_cannot_be_checked_while_nobody_knows_what_is_listed(api: Client) -> None:
    api.listed.symbols = []

    answer = await api.ask("POST", "jobs", CANDLES)

    assert "does not answer" in answer.is_problem(503)["detail"]
    assert int(answer.headers["Retry-After"]) > 0


async def test_jobs_are_found_by_what_they_are(api: Client) -> None:
    hourly, daily = await made(api), await made(api, timeframe="1d")
    other = await made(api, symbol="ETH/USDT", type="ohlcv_backfill")
    await api.ask("POST", f"jobs/{daily['id']}/pause")

    async def ids(query: str) -> list[str]:
        answer = await api.ask("GET", f"jobs?{query}")
        assert answer.status == 200, answer.body
        return [job["id"] for job in answer.json["items"]]

    assert await ids("") == [hourly["id"], daily["id"], other["id"]]
    assert await ids("timeframe=1d") == [daily["id"]]
    assert await ids("symbol=btc_usdt&status=active") == [hourly["id"]]
    assert await ids("symbol=BTC%2FUSDT") == [hourly["id"], daily["id"]]
    assert await ids("type=ohlcv_backfill&exchange_id=binance") == [other["id"]]
    assert await ids("status=paused") == [daily["id"]]
    assert await ids("state=running") == []
    assert await ids("exchange_id=nowhere") == []


async def test_pages_follow_each_other_without_a_gap(api: Client) -> None:
    ids = [
        (await made(api, timeframe=timeframe))["id"]
        for timeframe in ("1m", "5m", "15m", "1h", "1d")
    ]

    seen, path, pages = [], "/api/v1/jobs?limit=2&symbol=btc_usdt", 0
    while path:
        page = await api.ask("GET", path)
        seen += [job["id"] for job in page.json["items"]]
        link = page.headers.get("Link", "")
        assert bool(page.json["next"]) == bool(link)
        path, pages = link.partition(">")[0].removeprefix("<"), pages + 1

    assert (seen, pages) == (ids, 3)
    full = await api.ask("GET", "jobs?limit=5")
    assert (len(full.json["items"]), full.json["next"]) == (5, None)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("limit=1&limit=2", "limit"),
        ("after=!!!", "after"),
        ("after=%00", "after"),
        ("status=gone", "status"),
        ("state=", "state"),
        ("exchange=binance", "exchange"),
    ],
)
async def test_a_wrong_filter_is_refused(api: Client, query: str, field: str) -> None:
    problem = (await api.ask("GET", f"jobs?{query}")).is_problem(422)

    assert problem["errors"][0]["field"] == field


async def test_an_edit_demands_the_version_it_is_made_from(api: Client) -> None:
    job = await api.ask("POST", "jobs", CANDLES)
    path, tag = f"jobs/{job.json['id']}", job.headers["ETag"]

    (await api.ask("PUT", path, {"priority": 5})).is_problem(412)
    first = await api.ask("PUT", path, {"priority": 5}, If_Match=tag)
    late = await api.ask("PUT", path, {"priority": 6}, If_Match=tag)
    plain = await api.ask("PUT", path, {"priority": 7}, If_Match=f'"{first.json["version"]}"')
    anyway = await api.ask("PUT", path, {"schedule": {"interval_ms": 900_000}}, If_Match="*")

    assert first.json["priority"] == 5
    assert late.is_problem(412)
    assert plain.json["priority"] == 7
    assert anyway.json["schedule"]["interval_ms"] == 900_000
    assert anyway.json["priority"] == 7


@pytest.mark.parametrize("type_", ["ohlcv_incremental", "ohlcv_backfill"])
async def test_a_job_is_edited_with_what_was_shown_of_it(api: Client, type_: str) -> None:
    path = f"jobs/{(await api.ask('POST', 'jobs', {**CANDLES, 'type': type_})).json['id']}"
    shown = await api.ask("GET", path)
    tag = shown.headers["ETag"]

    same = await api.ask("PUT", path, shown.json, If_Match=tag)
    changed = await api.ask("PUT", path, {**shown.json, "priority": 3}, If_Match=tag)

    assert (same.status, same.json) == (200, shown.json), "nothing to change, nothing written"
    assert changed.json["priority"] == 3
    fields = {"status": "paused", "symbol": None, "version": 9, "fence": 7, "unknown_kind": True}
    for field, value in fields.items():
        asked = {**changed.json, field: value}
        refused = await api.ask("PUT", path, asked, If_Match=changed.headers["ETag"])
        problem = refused.is_problem(422)
        assert [error["field"] for error in problem["errors"]] == [field]
        assert "cannot be changed" in problem["detail"]
    assert (await api.ask("GET", path)).json == changed.json


async def test_a_gap_of_trades_is_created_and_edited_by_its_ids(api: Client) -> None:
    said = {"exchange_id": "binance", "type": "gap_backfill", "symbol": "BTC/USDT"}
    made = await api.ask("POST", "jobs", {**said, "cursor": {"first_id": 5, "last_id": 9}})
    assert (made.status, made.json["timeframe"]) == (201, None)
    assert made.json["cursor"] == {
        "channel": "trades", "first_id": 5, "last_id": 9, "since_ms": None, "after_ns": None,
        "page": 0, "unanswered": 0, "done": False,
    }  # fmt: skip
    path, tag = f"jobs/{made.json['id']}", made.headers["ETag"]

    same = await api.ask("PUT", path, made.json, If_Match=tag)
    moved = await api.ask("PUT", path, {"cursor": {"first_id": 6, "last_id": 9}}, If_Match=tag)

    assert same.json == made.json
    assert moved.json["target_key"] == (
        '{"channel":"trades","first_id":6,"last_id":9,"symbol":"BTC/USDT"}'
    )
    twin = await api.ask("POST", "jobs", {**said, "cursor": {"first_id": 1, "last_id": 6}})
    assert twin.is_problem(409)["existing_id"] == made.json["id"]
    for cursor, field in (
        ({"first_id": 9, "last_id": 5}, "cursor"),
        ({"first_id": 9}, "cursor"),
        ({"first_id": 9, "last_id": 10, "channel": "tickers"}, "cursor.channel"),
        ({"since_ms": 5, "until_ms": 9}, "timeframe"),
    ):
        refused = await api.ask("POST", "jobs", {**said, "cursor": cursor})
        assert refused.is_problem(422)["errors"][0]["field"] == field
    unknown = await api.ask(
        "POST", "jobs", {**said, "symbol": "BTC/NOPE", "cursor": {"first_id": 5, "last_id": 9}}
    )
    unknown.is_problem(422)


async def test_a_gap_that_overlaps_a_live_one_is_told_which(api: Client) -> None:
    def gap(since_ms: int, until_ms: int) -> dict[str, object]:
        cursor = {"since_ms": since_ms, "until_ms": until_ms}
        return {**CANDLES, "type": "gap_backfill", "cursor": cursor}

    first = await api.ask("POST", "jobs", gap(0, 7_200_000))
    beside = await api.ask("POST", "jobs", gap(7_200_000, 9_000_000))
    refused = await api.ask("POST", "jobs", gap(3_600_000, 9_000_000))

    assert (first.status, beside.status) == (201, 201)
    problem = refused.is_problem(409)
    assert problem["existing_id"] == first.json["id"]
    assert "overlaps" in problem["detail"]


async def test_a_job_that_was_claimed_meanwhile_is_another_version(api: Client) -> None:
    job = await api.ask("POST", "jobs", CANDLES)
    path, tag = f"jobs/{job.json['id']}", job.headers["ETag"]
    await Leases(api.app_state.store, kinds()).claim("worker-1", 1, 60_000)

    (await api.ask("PUT", path, {"priority": 5}, If_Match=tag)).is_problem(412)
    running = await api.ask("GET", path)
    assert running.json["state"] == "running"
    cursor = {"cursor": {"since_ms": 5}}
    held = await api.ask("PUT", path, cursor, If_Match=running.headers["ETag"])
    assert "worker-1" in held.is_problem(409)["detail"]


async def test_a_job_rests_goes_on_and_runs_at_once(api: Client) -> None:
    path = f"jobs/{(await made(api))['id']}"

    assert (await api.ask("POST", f"{path}/pause")).json["status"] == "paused"
    assert (await api.ask("POST", f"{path}/pause")).json["status"] == "paused"
    assert (await api.ask("GET", "connectors/binance")).json["active_jobs_count"] == 0
    assert (await api.ask("POST", f"{path}/resume")).json["status"] == "active"
    assert (await api.ask("POST", f"{path}/run")).json["state"] == "queued"


async def test_a_deleted_job_is_over_and_makes_room_for_another(api: Client) -> None:
    path = f"jobs/{(await made(api))['id']}"

    (await api.ask("DELETE", path, If_Match='"77"')).is_problem(412)
    assert (await api.ask("DELETE", path)).status == 204
    assert (await api.ask("GET", path)).json["status"] == "deleted"
    (await api.ask("POST", f"{path}/run")).is_problem(409)
    assert (await api.ask("GET", "jobs")).json["items"] == []
    await made(api)


async def test_a_job_nobody_made_is_not_found(api: Client) -> None:
    for method, path in [
        ("GET", "jobs/x"),
        ("DELETE", "jobs/x"),
        ("POST", "jobs/x/run"),
        ("GET", "jobs/x/events"),
    ]:
        (await api.ask(method, path)).is_problem(404)
    (await api.ask("PUT", "jobs/x", {}, If_Match="*")).is_problem(404)


async def test_what_a_client_has_already_is_not_sent_again(api: Client) -> None:
    job = await api.ask("POST", "jobs", CANDLES)
    path, tag = f"jobs/{job.json['id']}", job.headers["ETag"]

    same = await api.ask("GET", path, If_None_Match=f'"other", {tag}')
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)

    await api.ask("POST", f"{path}/pause")
    assert (await api.ask("GET", path, If_None_Match=tag)).status == 200


async def test_a_stream_of_events_ends_with_its_session(open_api: Open) -> None:
    api = await open_api(token=Secret("a token"))
    bearer = {"Authorization": "Bearer a token"}
    job = (await api.ask("POST", "jobs", CANDLES, **bearer)).json
    begun = await api.ask("POST", "session", {"token": "a token"})
    cookie = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}
    address = f"{api.url}/api/v1/jobs/{job['id']}/events"
    headers = {"Accept": "text/event-stream", **cookie}
    async with asyncio.timeout(PATIENCE_S), api.session.get(address, headers=headers) as stream:
        await stream.content.readuntil(b"nothing new")
        await api.ask("DELETE", "session", **cookie)
        await stream.content.read()


async def test_events_are_listed_and_new_ones_streamed(api: Client) -> None:
    path = f"jobs/{(await made(api))['id']}"
    listed = (await api.ask("GET", f"{path}/events")).json
    assert [event["what"] for event in listed] == ["created"]

    headers = {"Accept": "text/event-stream"}
    address = f"{api.url}/api/v1/{path}/events"
    async with asyncio.timeout(PATIENCE_S), api.session.get(address, headers=headers) as stream:
        assert stream.content_type == "text/event-stream"
        await stream.content.readuntil(b"nothing new")
        await api.ask("POST", f"{path}/pause")
        await stream.content.readuntil(b"data: ")
        event = msgspec.json.decode(await stream.content.readline())

    assert event["what"] == "paused"

    resumed = {**headers, "Last-Event-ID": str(listed[0]["at"])}
    async with asyncio.timeout(PATIENCE_S), api.session.get(address, headers=resumed) as stream:
        await stream.content.readuntil(b"event: ")
        assert (await stream.content.readline()).strip() == b"paused"


async def test_a_server_that_stops_ends_its_streams(api: Client) -> None:
    path = f"jobs/{(await made(api))['id']}"
    address, headers = f"{api.url}/api/v1/{path}/events", {"Accept": "text/event-stream"}
    async with asyncio.timeout(PATIENCE_S), api.session.get(address, headers=headers) as stream:
        await stream.content.readuntil(b"nothing new")
        api.app_state.closing.set()
        await stream.content.read()
