"""The coverage map and gaps over HTTP, and a gap that a client has filled."""

import asyncio
from typing import Any

import pytest
from tests.monitor.test_coverage_map import DAY_MS, held
from tests.monitor.test_gaps import gap

from penstock.api import coverage
from penstock.config import Secret
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.writing import write_coverage
from penstock.monitor.cells import Columns
from penstock.monitor.coverage_map import CoverageMap
from penstock.storage.state import StateStore

from .conftest import Client, Open


async def test_the_map_is_read_page_by_page(api: Client, store: StateStore) -> None:
    assert (await api.ask("GET", "coverage/map")).json["series"] == []
    await write_coverage(store, [held("btc_usdt", (3, 5)), held("eth_usdt", (1, 2), (3, 4))])
    await GapRows(store).open(
        gap(20, 29, symbol="eth_usdt", since_ms=2 * DAY_MS, until_ms=3 * DAY_MS)
    )
    path = f"coverage/map?from=0&until={6 * DAY_MS - 1}&limit=1"
    first = (await api.ask("GET", path)).json
    assert (first["from_ms"], first["step_ms"], first["columns"]) == (0, DAY_MS, 6)
    assert [(each["symbol"], each["cells"]) for each in first["series"]] == [("BTC/USDT", "...ff.")]
    second = (await api.ask("GET", f"{path}&after={first['more']}")).json
    assert [(each["symbol"], each["cells"]) for each in second["series"]] == [
        ("ETH/USDT", ".fgf..")
    ]
    assert second["more"] is None

    hours = f"coverage/map?from={DAY_MS}&until={2 * DAY_MS - 1}&step=hour&symbol=ETH/USDT"
    [shown] = (await api.ask("GET", hours)).json["series"]
    assert (shown["cells"], shown["share"]) == ("f" * 24, 1.0)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("step=week", "step"),
        ("from=5000&until=0&step=hour", ""),
        (f"from={9 * DAY_MS}&until=1", "from"),
        ("from=0&step=hour", "from"),
        ("after=abc", "after"),
        ("after=YWJj", "after"),
        ("since=1", "since"),
        ("limit=0", "limit"),
        ("symbol=%00", "symbol"),
    ],
)
async def test_a_wrong_query_is_refused(api: Client, query: str, field: str) -> None:
    answer = await api.ask("GET", f"coverage/map?{query}")
    if field:
        problem = answer.is_problem(422)
        assert [each["field"] for each in problem["errors"]] == [field]
    else:
        assert answer.status == 200


async def test_a_gap_is_filled_by_a_job(api: Client, store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(100, 199))
    await rows.open(gap(1, 9, channel="book_deltas", by="received_ns"))
    [books, trades] = (await api.ask("GET", "gaps")).json["items"]
    assert (trades["fillable"], trades["job_id"]) == (True, None)
    assert (books["fillable"], trades["size"]) == (False, 100)

    made = await api.ask("POST", "gaps/fill", {"id": trades["id"]})
    assert made.status == 201
    assert made.headers["Location"] == f"/api/v1/jobs/{made.json['id']}"
    assert made.json["cursor"]["first_id"] == 100
    [_, trades] = (await api.ask("GET", "gaps?state=open")).json["items"]
    assert trades["job_id"] == made.json["id"]
    again = await api.ask("POST", "gaps/fill", {"id": trades["id"]})
    assert (again.status, again.json["id"]) == (200, made.json["id"])

    refused = (await api.ask("POST", "gaps/fill", {"id": books["id"]})).is_problem(409)
    assert "cannot be requested" in refused["detail"]
    (await api.ask("POST", "gaps/fill", {"id": "x"})).is_problem(404)
    (await api.ask("POST", "gaps/fill", {})).is_problem(422)
    (await api.ask("GET", "gaps?after=YWJj")).is_problem(422)
    assert len((await api.ask("GET", "jobs")).json["items"]) == 1


async def test_a_token_that_permits_reading_fills_nothing(
    open_api: Open, store: StateStore
) -> None:
    api = await open_api(token=Secret("a" * 32), read_token=Secret("b" * 32))
    await GapRows(store).open(gap(100, 199))
    reader = {"Authorization": "Bearer " + "b" * 32}
    [shown] = (await api.ask("GET", "gaps", **reader)).json["items"]
    (await api.ask("POST", "gaps/fill", {"id": shown["id"]}, **reader)).is_problem(403)
    assert (await api.ask("GET", "jobs", **reader)).json["items"] == []
    owner = {"Authorization": "Bearer " + "a" * 32}
    assert (await api.ask("POST", "gaps/fill", {"id": shown["id"]}, **owner)).status == 201


async def test_few_maps_are_read_at_the_same_time(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, reading, most = 0, 0, 0
    all_asked, columns = asyncio.Event(), coverage._columns

    async def columns_of(*words: Any) -> Columns:
        nonlocal asked
        found = await columns(*words)
        asked += 1
        if asked == 8:
            all_asked.set()
        return found

    async def read(*_: object) -> CoverageMap:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await all_asked.wait()
        reading -= 1
        return CoverageMap(from_ms=0, step_ms=1, columns=0, series=[], more=None)

    monkeypatch.setattr(coverage, "_columns", columns_of)
    monkeypatch.setattr(coverage, "read_map", read)
    await asyncio.gather(*(api.ask("GET", "coverage/map") for _ in range(8)))

    assert most == 2
