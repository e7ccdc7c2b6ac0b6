"""The walk through adding a job kind: its file, put beside the others, is all it takes."""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import served
from tests.cli.conftest import invoke
from tests.waiting import PATIENCE_S

from penstock.api import application
from penstock.app.simulator import build_simulator
from penstock.app.worker import open_worker
from penstock.clock import SystemClock
from penstock.config import (
    Api,
    Collect,
    Exchanges,
    Jobs,
    Requests,
    Settings,
    SimulatedBinance,
    Simulator,
)
from penstock.ingest import kinds as folder
from penstock.ingest import registry
from penstock.jobs import JobService
from penstock.jobs.kinds import JobKind
from penstock.market.events import Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

WALK = (Path(__file__).parents[2] / "docs" / "add-a-job-kind.md").read_text()
FIRST_ID, LAST_ID = 1000, 2999
SAID = {"exchange_id": "binance", "type": "trades_by_id", "symbol": "BTC/USDT"}


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kind of the walk, from a file outside of the package."""
    (code,) = re.findall(r"^```python\n(.*?)^```", WALK, re.M | re.S)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "trades_by_id.py").write_text(code)
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(outside)])
    importlib.invalidate_caches()
    # The kinds of a process do not change while it runs.
    application._description.cache_clear()
    yield
    application._description.cache_clear()
    sys.modules.pop(f"{folder.__name__}.trades_by_id", None)


@pytest.fixture
async def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Settings]:
    """A simulated exchange and a data folder, which the command line finds too."""
    wide = Simulator(port=0, symbols=("btc_usdt",), binance=SimulatedBinance(weight_limit=600_000))
    server = build_simulator(wide, SystemClock())
    await server.start()
    address = f"http://{server.address}"
    monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"binance={address}")
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", str(tmp_path / "data"))
    yield Settings(
        exchanges=Exchanges(rest_urls={"binance": address}),
        requests=Requests(guard_ms=50),
        collect=Collect(data_dir=str(tmp_path / "data")),
        jobs=Jobs(poll_interval=0.2),
    )
    await server.stop()


async def typed(*words: str) -> str:
    """What a command prints."""
    done = await asyncio.to_thread(invoke, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(settings: Settings) -> list[int]:
    reader = open_log(f"rocksdb:{settings.collect.data_dir}").reader()
    found = [stored.event for stored in reader.scan(Stream("binance", "trades", "btc_usdt"))]
    reader.close()
    return [event.id for event in found if isinstance(event, Trade)]


@pytest.mark.usefixtures("added")
async def test_a_kind_of_one_file_is_created_run_and_shown(settings: Settings) -> None:
    range_ = {"first_id": FIRST_ID, "last_id": LAST_ID}
    words = ("jobs", "add", "binance", "trades_by_id", "btc_usdt")

    made = json.loads(await typed(*words, "--cursor", json.dumps(range_), "--json"))
    assert (made["symbol"], made["timeframe"]) == ("BTC/USDT", None)
    assert made["cursor"] == {**range_, "next_id": None}
    twin = await asyncio.to_thread(invoke, *words, "--cursor", json.dumps(range_))
    assert (twin.returncode, made["id"] in twin.stderr) == (2, True), "a part of it is taken"

    store = await open_store(f"sqlite:{settings.collect.data_dir}/state.db")
    async with served(store, Api(port=0)) as api:
        rest = {"first_id": LAST_ID + 1, "last_id": LAST_ID + 7}
        other = await api.ask("POST", "jobs", {**SAID, "cursor": rest})
        assert other.status == 201, other.body
        for wrong, field in [
            ({**SAID, "cursor": {"first_id": 1}}, "cursor"),
            ({**SAID, "cursor": {"first_id": -1, "last_id": 5}}, "cursor.first_id"),
            ({**SAID, "timeframe": "1h", "cursor": rest}, "timeframe"),
        ]:
            refused = (await api.ask("POST", "jobs", wrong)).is_problem(422)
            assert refused["errors"][0]["field"] == field

        await work_until_done(settings, store, [made["id"], other.json["id"]])

        assert recorded(settings) == list(range(FIRST_ID, LAST_ID + 8))
        shown = (await api.ask("GET", f"jobs/{made['id']}")).json
        assert (shown["state"], shown["progress"]["rows"]) == ("success", LAST_ID - FIRST_ID + 1)
        assert shown["cursor"] == {**range_, "next_id": LAST_ID + 1}
        assert "unknown_kind" not in shown
        described = (await api.ask("GET", "openapi.json")).json["components"]["schemas"]
        assert {"$ref": "#/components/schemas/IdCursor"} in (
            described["NewJob"]["properties"]["cursor"]["anyOf"]
        )
    listed = await typed("jobs", "list", "--state", "success")
    assert "trades_by_id" in listed
    assert "2,000 rows" in listed
    await store.close()


async def work_until_done(settings: Settings, store: Any, ids: list[str]) -> None:
    service, stop = JobService(store, registry.kinds()), asyncio.Event()
    async with open_worker(settings, SystemClock()) as worker:
        working = asyncio.create_task(worker.run(stop))
        async with asyncio.timeout(PATIENCE_S):
            while {(await service.get(id_)).state for id_ in ids} != {"success"}:
                assert not working.done()
                await asyncio.sleep(0.05)
        stop.set()
        await working


@pytest.mark.usefixtures("added")
async def test_without_its_file_its_jobs_are_shown_and_left_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    range_ = json.dumps({"first_id": FIRST_ID, "last_id": LAST_ID})
    words = ("jobs", "add", "binance", "trades_by_id", "btc_usdt", "--cursor", range_, "--json")
    made = json.loads(await typed(*words))
    monkeypatch.setattr(folder, "__path__", folder.__path__[:-1])

    assert json.loads(await typed("jobs", "list", "--json")) == {**made, "unknown_kind": True}
    assert "of a newer penstock: left alone" in await typed("jobs", "list")
    assert "of a newer penstock: left alone" in await typed("jobs", "show", made["id"])
    for change in ("pause", "resume", "run", "rm"):
        refused = await asyncio.to_thread(invoke, "jobs", change, made["id"])
        assert (refused.returncode, "does not know" in refused.stderr) == (2, True)
    store = await open_store(f"sqlite:{settings.collect.data_dir}/state.db")
    async with served(store, Api(port=0)) as api:
        assert (await api.ask("GET", "jobs")).json["items"] == [{**made, "unknown_kind": True}]
        for method, path in [("DELETE", ""), ("POST", "/pause"), ("POST", "/run")]:
            (await api.ask(method, f"jobs/{made['id']}{path}")).is_problem(409)
        edit = {"priority": 1}
        answer = await api.ask("PUT", f"jobs/{made['id']}", edit, If_Match=f'"{made["version"]}"')
        answer.is_problem(409)
    await store.close()


def test_the_walk_names_all_that_a_kind_may_say() -> None:
    own = {name for name in (*vars(JobKind), *JobKind.__annotations__) if name[0] != "_"}
    named = set(re.findall(r"`(\w+)(?:\(\))?`", WALK.split("```python")[0]))

    assert own - named == {"claim_priority", "read_cursor"}, "those are for callers"
    with pytest.raises(TypeError, match="abstract"):
        JobKind()  # type: ignore[abstract]
