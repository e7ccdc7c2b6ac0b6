"""What a fleet does now, over the API."""

import asyncio
import threading
from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace
from tests.monitor.lines import line, write
from tests.monitor.test_connections import STATUS

from penstock.api import observing
from penstock.monitor.process_logs import LogPage
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


async def test_log_lines_of_the_data_folder_are_listed_in_pages(
    api: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (await api.ask("GET", "logs")).json == {"items": [], "next": None}
    folder = tmp_path / "penstock-data"
    folder.mkdir()
    write(folder, "a.jsonl", line(1, "One"), line(3, "<img onerror=x>", "error", why="\x1b"))
    write(folder, "b.jsonl", line(2, "Two", "warning"))

    answer = (await api.ask("GET", "logs?limit=2")).json
    assert [each["event"] for each in answer["items"]] == ["<img onerror=x>", "Two"]
    assert answer["items"][0]["fields"] == {"why": "\x1b"}
    rest = (await api.ask("GET", f"logs?{urlencode({'limit': 2, 'after': answer['next']})}")).json
    assert ([each["event"] for each in rest["items"]], rest["next"]) == (["One"], None)
    found = (await api.ask("GET", "logs?level=warning&process=b&text=two")).json
    assert [each["process"] for each in found["items"]] == ["b"]


@pytest.mark.parametrize("query", ["after=x", "level=loud", "limit=0", "text=", "lines=3"])
async def test_a_wrong_query_for_log_lines_is_rejected(api: Client, query: str) -> None:
    (await api.ask("GET", f"logs?{query}")).is_problem(422)


async def test_log_files_are_read_for_one_client_at_a_time(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, free = threading.Lock(), LogPage(items=[], next=None)

    def read(*_: object) -> LogPage:
        assert busy.acquire(blocking=False)
        threading.Event().wait(0.02)  # others have the time to begin
        busy.release()
        return free

    monkeypatch.setattr(observing, "read_logs", read)
    answers = await asyncio.gather(*(api.ask("GET", "logs") for _ in range(8)))

    assert {answer.status for answer in answers} == {200}
