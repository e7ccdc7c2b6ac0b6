"""``penstock connectors`` and ``penstock jobs``, as a person types them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.jobs_made import made_job

from penstock.cli.instants import instant
from penstock.cli.job_view import draw_jobs
from penstock.cli.job_words import duration, progress
from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.errors import TEMPORARY
from penstock.ingest.kinds.ohlcv_backfill import OhlcvBackfill
from penstock.ingest.registry import kinds
from penstock.jobs.model import Cursor, Job, JobEvent, JobLock, JobProgress, State
from penstock.jobs.product_locks import ProductLocks
from penstock.runtime.stores import open_state

from .conftest import run, urls


def facts(*words: str, folder: Path, **environment: str) -> list[Any]:
    done = run(*words, "--json", folder=folder, **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_connectors_are_made_shown_paused_and_retired(tmp_path: Path) -> None:
    words = ("connectors", "add", "binance", "--notes", "night", "--limit", "100/1m")
    (made,) = facts(*words, folder=tmp_path)
    assert (made["exchange_id"], made["notes"], made["rate_limit"]) == ("binance", "night", 100)

    again = run("connectors", "add", "binance", folder=tmp_path)
    assert again.returncode == 0
    assert "it was not changed" in again.stderr
    assert run("connectors", "pause", "binance", folder=tmp_path).returncode == 0
    shown = run("connectors", "show", "binance", folder=tmp_path)
    assert "paused" in shown.stdout
    assert "notes: night" in shown.stdout
    (listed,) = facts("connectors", "list", "--status", "paused", folder=tmp_path)
    assert listed["status"] == "paused"
    (resumed,) = facts("connectors", "resume", "binance", folder=tmp_path)
    assert resumed["status"] == "active"
    assert run("connectors", "rm", "binance", folder=tmp_path).returncode == 0
    empty = run("connectors", "list", folder=tmp_path)
    assert "penstock connectors add" in empty.stdout


@pytest.mark.parametrize(
    ("environment", "limit"),
    [
        ({}, 10),
        ({"API_KEY": "key", "API_SECRET": "c2VjcmV0", "API_PASSPHRASE": "words"}, 15),
        ({"API_KEY": "key"}, 10),
    ],
    ids=["public", "key", "part of a key"],
)
def test_the_limits_of_a_connector_are_those_of_the_key(
    tmp_path: Path, environment: dict[str, str], limit: int
) -> None:
    run("connectors", "add", "coinbase", folder=tmp_path)

    (shown,) = facts("connectors", "show", "coinbase", folder=tmp_path, **environment)

    assert (shown["rate_limit"], shown["limits"][0]["amount"]) == (limit, limit)


def test_a_circuit_breaker_is_shown_and_forced(tmp_path: Path) -> None:
    run("connectors", "add", "binance", folder=tmp_path)

    assert run("connectors", "breaker", "binance", folder=tmp_path).stdout == "binance: closed\n"
    forced = run("connectors", "breaker", "binance", "open", folder=tmp_path)
    assert forced.stdout.startswith("binance: forced open\n")
    (shown,) = facts("connectors", "breaker", "binance", folder=tmp_path)
    assert shown["forced"] == "open"
    run("connectors", "breaker", "binance", "auto", folder=tmp_path)
    (shown,) = facts("connectors", "breaker", "binance", folder=tmp_path)
    assert [each["to"] for each in shown["transitions"]] == ["forced open", "automatic"]
    unknown = run("connectors", "breaker", "kraken", "open", folder=tmp_path)
    assert unknown.returncode != 0
    assert "There is no connector for 'kraken'" in unknown.stderr


async def test_locks_are_shown_and_released(tmp_path: Path) -> None:
    run("connectors", "add", "binance", folder=tmp_path)
    key = "product:binance:BTCUSDT"
    settings = Settings(collect=Collect(data_dir=str(tmp_path / "penstock-data")))
    async with open_state(settings, SystemClock()) as store:
        job = made_job("markets_refresh", lock=JobLock(locked_by="host-b/work-0/7"))
        await ProductLocks(store, SystemClock()).take(key, job)

    told = run("jobs", "locks", folder=tmp_path).stdout
    assert told.startswith(f"{key}  host-b/work-0/7  job j, since 20")
    (shown,) = facts("jobs", "unlock", key, folder=tmp_path)
    assert (shown["key"], shown["holder"], shown["token"]) == (key, "host-b/work-0/7", 1)
    assert facts("jobs", "locks", folder=tmp_path) == []
    again = run("jobs", "unlock", key, folder=tmp_path)
    assert (again.returncode, "Nobody holds" in again.stderr) == (2, True)


def test_a_job_that_waits_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    event = JobEvent(at=1, what="waiting", detail="product:x:Y is locked by host-b", by="me")
    waits = made_job("markets_refresh", state="queued", events=(event,))

    draw_jobs([waits, replace(waits, state="running"), replace(waits, status="paused")], kinds())

    assert capsys.readouterr().out.count(event.detail) == 1


def test_jobs_are_made_run_paused_and_ended(tmp_path: Path, exchange: str) -> None:
    found = urls(exchange)
    words = ("jobs", "add", "binance", "ohlcv_incremental", "btcusdt", "1h", "--every", "30m")
    (made,) = facts(*words, folder=tmp_path, **found)
    assert (made["symbol"], made["schedule"]["interval_ms"]) == ("BTC/USDT", 1_800_000)

    twin = run(*words, folder=tmp_path, **found)
    assert (twin.returncode, made["id"] in twin.stderr) == (2, True)
    listed = run("jobs", "list", "--symbol", "btc_usdt", folder=tmp_path, COLUMNS="80")
    assert made["id"] in listed.stdout, "an id is needed whole, however narrow the terminal"
    (paused,) = facts("jobs", "pause", made["id"], folder=tmp_path)
    assert paused["status"] == "paused"
    (resumed,) = facts("jobs", "resume", made["id"], folder=tmp_path)
    assert resumed["status"] == "active"
    (queued,) = facts("jobs", "run", made["id"], folder=tmp_path)
    assert queued["state"] == "queued"
    assert "asked_for" in run("jobs", "show", made["id"], folder=tmp_path).stdout

    (connector,) = facts("connectors", "list", folder=tmp_path)
    assert connector["jobs_count"] == 1
    in_use = run("connectors", "rm", "binance", folder=tmp_path)
    assert (in_use.returncode, "live jobs (1)" in in_use.stderr) == (2, True)
    assert run("jobs", "rm", made["id"], folder=tmp_path).returncode == 0
    assert run("connectors", "rm", "binance", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["connectors", "add", "binanse"], "Supported: "),
        (["connectors", "show", "binance"], "There is no connector for 'binance'"),
        (["connectors", "add", "binance", "--limit", "many"], "3000/1m"),
        (["jobs", "show", "x"], "There is no job 'x'"),
        (["jobs", "add", "binance", "ohlcv_backfill", "btc_usd", "1h"], "Did you mean btc_usdt"),
        (["jobs", "add", "binance", "ohlcv_backfill", "btc_usdt", "7h"], "Use one of"),
        (["jobs", "add", "binance", "ohlcv_backfil", "btc_usdt", "1h"], "ohlcv_backfill"),
        (["jobs", "add", "binance", "ohlcv_backfill", "btc_usdt"], "timeframe"),
        (["jobs", "add", "binance", "ohlcv_backfill", "--since", "soon"], "2024-01-01"),
        (["jobs", "list", "--symbol", "btc"], "btc_usdt"),
        (["serve", "--host", "0.0.0.0"], "PENSTOCK_API_TOKEN"),
        (["serve", "--host", "192.0.2.1"], "PENSTOCK_API_TOKEN"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_changed(
    tmp_path: Path, exchange: str, words: list[str], says: str
) -> None:
    done = run(*words, folder=tmp_path, **urls(exchange))

    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "code"), [(["connectors", "list"], 2), (["jobs", "list"], 2), (["serve"], TEMPORARY)]
)
def test_a_store_that_nobody_keeps_is_said(tmp_path: Path, words: list[str], code: int) -> None:
    url = f"postgresql://nobody@/nothing?host={tmp_path}"
    done = run(*words, folder=tmp_path, PENSTOCK_STATE_URL=url, PENSTOCK_STATE_PATIENCE="2")

    assert done.returncode == code
    assert "Check that it is running" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_exchange_that_cannot_be_asked_is_said(tmp_path: Path) -> None:
    words = ("jobs", "add", "binance", "ohlcv_backfill", "btc_usdt", "1h")
    done = run(*words, folder=tmp_path, **urls("http://127.0.0.1:9"))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert run("jobs", "list", "--json", folder=tmp_path).stdout == ""


def job(state: State, **fields: Any) -> Job:
    cursor = Cursor(since_ms=6_000_000, last_ts=5_940_000)
    said = {"id": "1", "exchange_id": "sim", "state": state, "updated_at": 20_000, **fields}
    return made_job(OhlcvBackfill.name, cursor, **said)


def test_a_backfill_tells_rows_rate_time_left_and_when_it_was_taken_up_again() -> None:
    way = JobProgress(
        rows=1_100, resumed_rows=100, started_at=0, resumed_at=10_000, resumptions=1,
        first_ts=0, target_ts=6_000_000 + 60_000 * 360_000,
    )  # fmt: skip

    shown = progress(job("running", progress=way), OhlcvBackfill)
    assert shown == ("1,100", "100/s", "1:00:00 left", "resumed at 1970-01-01 00:00:10 UTC")
    assert progress(job("success", progress=way), OhlcvBackfill).left == ""
    assert progress(job("idle"), OhlcvBackfill) == ("0", "", "", "")


def test_instants_and_time_spans_are_readable() -> None:
    assert instant(None) == ""
    assert instant(1_768_645_800_999) == "2026-01-17 10:30:00 UTC"
    assert duration(3_725.4) == "1:02:05"
