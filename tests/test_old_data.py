"""Data folders and state stores that penstock 0.1 wrote are opened, read and continued.

See ``fixtures/written_by_0_1``. The one with a SQLite file is continued by simulators and commands
whose clock shows half an hour after it was written. PostgreSQL and MongoDB have the clock
of their server, and there workers alone go on.
"""

import hashlib
import json
import os
import sqlite3
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import asyncpg
import pytest
from bson import json_util
from pymongo import AsyncMongoClient
from tests.cli.conftest import invoke
from tests.fixtures.old_data import (
    BACKENDS,
    MANIFEST,
    MARKETS,
    WRITTEN,
    Commands,
    address_in,
    api,
    simulators,
    stop,
    wait_until,
)  # fmt: skip

from penstock.storage.log import LogReader, open_log
from penstock.storage.log.keys import Stream, id_of_key

TOLD = json.loads(MANIFEST.read_text())
MINUTE_MS = 60_000
LATER_NS = 1_610 * 1_000_000_000
"""By then an hour has ended, and so has every lease of before.

For the five minutes that follow, no market is without a trade for twenty seconds.
"""
LIVING, PAUSED, ENDED = "active", "paused", "deleted"

_names = count()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def written(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Commands]:
    """A data folder, and the state that belongs to it in a server if need be."""
    with tarfile.open(WRITTEN / f"{backend}.tar.xz") as archive:
        # Python has them from 3.11.4 on; Debian 12 has an older one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    folder, name = tmp_path / "data", f"old_{os.getpid()}_{next(_names)}"
    if backend == "sqlite":
        yield Commands(folder)
    elif backend == "mongodb":
        url = f"{request.getfixturevalue('mongodb_url')}/{name}"
        await _load_into_mongodb(url, (tmp_path / "state.jsonl").read_text())
        yield Commands(folder, {"PENSTOCK_STATE_URL": url})
    else:
        server = request.getfixturevalue("postgresql_url")
        connection = await asyncpg.connect(server)
        script = (tmp_path / "state.sql").read_text()
        await connection.execute(script.replace("written", name))
        url = f"{server}{'&' if '?' in server else '?'}search_path={name}"
        yield Commands(folder, {"PENSTOCK_STATE_URL": url})
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
        await connection.close()


async def _load_into_mongodb(url: str, dump: str) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    database = client.get_default_database()
    for line in dump.splitlines():
        entry = json_util.loads(line)
        collection = database[entry["collection"]]
        if index := entry.get("index"):
            options = {name: index[name] for name in ("unique", "sparse") if name in index}
            await collection.create_index(
                [tuple(key) for key in index["key"]], name=index["name"], **options
            )
        else:
            await collection.insert_one(entry["document"])
    await client.close()


@pytest.fixture(scope="module")
def later() -> Iterator[dict[str, str]]:
    """Simulators soon after the folder with the SQLite file was written."""
    at_ns = int(datetime.fromisoformat(TOLD["begins"]).timestamp()) * 1_000_000_000 + LATER_NS
    with simulators(at_ns) as environment:
        yield environment


@pytest.fixture(scope="module")
def now() -> Iterator[dict[str, str]]:
    """Simulators with the machine's clock, which servers have."""
    with simulators(None) as environment:
        yield environment


@pytest.fixture
def reader(written: Commands) -> Iterator[LogReader]:
    with closing(open_log(f"rocksdb:{written.folder}").reader()) as reader:
        yield reader


def on(environment: dict[str, str], written: Commands) -> Commands:
    """Commands on written data that use these simulators."""
    if (database := written.folder / "state.db").exists():
        # The machine has not been started again since: otherwise every budget counts as used up.
        ahead_ns = int(environment["PENSTOCK_TEST_CLOCK_AHEAD_NS"])
        began_ns = time.time_ns() + ahead_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("UPDATE boots SET began_at_ns = ?", (began_ns,))
            connection.commit()
    return Commands(
        written.folder,
        {**written.environment, **environment, "PENSTOCK_TEST_BOOT_ID": TOLD["boot_id"]},
    )


def records(commands: Commands, stream: str) -> list[str]:
    """What a reader is shown of a stream."""
    shown = invoke("log", "scan", stream, "--data-dir", str(commands.folder))
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.splitlines()


def jobs_of(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    for name, value in commands.environment.items():
        monkeypatch.setenv(name, value)
    shown = invoke("jobs", "list", "--all", "--json", "--data-dir", str(commands.folder))
    assert shown.returncode == 0, shown.stderr
    return {job["id"]: job for job in map(json.loads, shown.stdout.splitlines())}


def test_every_record_is_read_as_it_was(backend: str, written: Commands) -> None:
    streams = TOLD[backend]["streams"]
    listed = invoke("log", "stats", "--json", "--data-dir", str(written.folder))
    gaps = invoke("gaps", "--json", "--data-dir", str(written.folder))
    found = {}
    for stream in streams:
        shown = records(written, stream)
        text = "".join(f"{line}\n" for line in shown)
        found[stream] = {
            "records": len(shown),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }

    named = {each.get("stream") for each in map(json.loads, listed.stdout.splitlines())}
    assert named - {None} == set(streams)
    assert found == streams
    assert [json.loads(line) for line in gaps.stdout.splitlines()] == TOLD[backend]["gaps"]


def test_the_api_shows_the_same_jobs_and_connectors(backend: str, written: Commands) -> None:
    with api(written) as get:
        jobs = {status: get(f"jobs?status={status}") for status in (LIVING, PAUSED, ENDED)}
        connectors = get("connectors")["items"]

    for status, page in jobs.items():
        assert page["next"] is None
        assert [unchanged(job) for job in page["items"]] == [
            unchanged(job) for job in _told(backend, status)
        ]
        assert all(job["target_key"] for job in page["items"])
    # What is used of a limit depends on the time, and on whether the machine was started again.
    kept = ("exchange_id", "creation_date", "status", "rate_limit", "jobs_count")
    assert [{name: each[name] for name in kept} for each in connectors] == [
        {name: each[name] for name in kept} for each in TOLD[backend]["connectors"]["items"]
    ]


def test_a_worker_finishes_what_was_half_done(
    backend: str,
    written: Commands,
    reader: LogReader,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = request.getfixturevalue("later" if backend == "sqlite" else "now")
    commands = on(environment, written)
    before = {job["id"]: job for status in (LIVING, PAUSED) for job in _told(backend, status)}
    half = {id_ for id_, job in before.items() if job["state"] in ("running", "waiting_rate_limit")}
    gaps = {id_ for id_, job in before.items() if job["type"] == "gap_backfill"}
    at_rest = {
        id_ for id_, job in before.items() if job["status"] == PAUSED or job["state"] == "failed"
    }
    (listing,) = (
        id_ for id_, job in before.items()
        if (job["type"], job["exchange_id"]) == ("markets_refresh", "kraken")
    )  # fmt: skip
    (repeated,) = (
        id_ for id_, job in before.items()
        if job["type"] == "ohlcv_incremental" and job["status"] == LIVING
    )  # fmt: skip
    kept = {stream: numbered(reader, stream) for stream in TOLD[backend]["streams"]}

    def finished() -> bool:
        found = jobs_of(commands, monkeypatch)
        return (
            all(found[id_]["state"] == "success" for id_ in half | gaps)
            and found[listing]["stats"]["success"] == 1
            # Elsewhere it is due when the next hour of the server ends.
            and (backend != "sqlite" or found[repeated]["stats"]["success"] == 2)
        )

    assert (len(half), len(gaps), len(at_rest)) == (2, 2, 3)
    with commands.started("work") as worker:
        wait_until(finished, worker)
        stop(worker)

    after = jobs_of(commands, monkeypatch)
    for id_ in at_rest:
        assert unchanged(after[id_]) == unchanged(before[id_])
    for id_ in half | gaps:
        job = after[id_]
        since_ms = before[id_]["progress"]["first_ts"] or before[id_]["cursor"]["since_ms"]
        until_ms = job["cursor"]["until_ms"]
        assert job["progress"]["rows"] == (until_ms - since_ms) // MINUTE_MS
        assert candles(commands, job, since_ms, until_ms) == truth(
            environment, job, since_ms, until_ms
        )
    for stream, old in kept.items():
        assert old.items() <= numbered(reader, stream).items(), f"{stream} lost a record"


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_fetcher_and_then_collectors_continue_the_log(
    written: Commands, later: dict[str, str], reader: LogReader
) -> None:
    commands = on(later, written)
    before = {stream: numbered(reader, stream) for stream in TOLD["sqlite"]["streams"]}

    def continued(slot: str, stream: str) -> bool:
        last = max((number for of, number in before[stream] if of == slot), default=0)
        new = reader.numbers(Stream(*stream.split(".")), slot, last + 1)
        return next(new, None) is not None

    def fetched() -> bool:
        """Whether no trade lacks of those that came while nobody recorded."""
        trades = f"binance.trades.{MARKETS['binance']}"
        ids = [id_of_key(stored.key) or 0 for stored in reader.scan(Stream(*trades.split(".")))]
        return continued("fetch-binance", trades) and ids[-1] - ids[0] + 1 == len(ids)

    def collected() -> bool:
        return all(
            continued(f"collect-{name}", f"{name}.{channel}.{symbol}")
            for name, symbol in MARKETS.items()
            for channel in ("trades", "tickers", "book_snapshots")
        )

    with commands.started("fetch", "binance", MARKETS["binance"], "--every", "1") as fetcher:
        wait_until(fetched, fetcher)
        stop(fetcher)
    with ExitStack() as stack:
        collectors = [
            stack.enter_context(commands.started("collect", name, symbol))
            for name, symbol in MARKETS.items()
        ]
        wait_until(collected, *collectors)
        for collector in collectors:
            stop(collector)

    for stream, old in before.items():
        new = numbered(reader, stream)
        assert old.items() <= new.items(), f"{stream} lost a record, or numbered it anew"
        for slot in {slot for slot, _ in new}:
            numbers = sorted(number for of, number in new if of == slot)
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), f"{stream} in {slot}"
    folder = ("--data-dir", str(commands.folder), "--json")
    for name in MARKETS:
        judged = invoke("judge", address_in(later, name), *folder)
        assert judged.returncode == 0, judged.stdout
    gaps = [json.loads(line) for line in invoke("gaps", "binance", *folder).stdout.splitlines()]
    interrupted = [gap for gap in gaps if gap.get("by") == "received_ns"]
    assert {"book_deltas", "tickers"} <= {gap["channel"] for gap in interrupted}
    assert all(gap["cause"] == "not_running" for gap in interrupted)


def numbered(reader: LogReader, stream: str) -> dict[tuple[str, int], bytes]:
    """The records of a stream, by slot and number."""
    named = Stream(*stream.split("."))
    return {
        (slot, stored.number): stored.record
        for slot in reader.slots()
        for stored in reader.numbers(named, slot, 1)
    }


def unchanged(job: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job that no migration changes: it adds the target, as a new version."""
    return {name: job[name] for name in job.keys() - {"target", "target_key", "version"}}


def _told(backend: str, status: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = TOLD[backend]["jobs"][status]["items"]
    return items


Row = tuple[int, Decimal, Decimal, Decimal, Decimal, Decimal]


def candles(commands: Commands, job: dict[str, Any], since_ms: int, until_ms: int) -> list[Row]:
    slug = job["symbol"].lower().replace("/", "_")
    rows = map(json.loads, records(commands, f"{job['exchange_id']}.candles_1m.{slug}"))
    names = ("open", "high", "low", "close", "volume")
    return [
        (row["open_ms"], *(Decimal(row[name]) for name in names))
        for row in rows
        if since_ms <= row["open_ms"] < until_ms
    ]


def truth(
    environment: dict[str, str], job: dict[str, Any], since_ms: int, until_ms: int
) -> list[Row]:
    """The candles of the simulator's ledger."""
    slug = job["symbol"].lower().replace("/", "_")
    address = address_in(environment, job["exchange_id"])
    asked = f"symbol={slug}&start_ms={since_ms}&end_ms={until_ms}&step_ms={MINUTE_MS}"
    with urlopen(f"{address}/_sim/ledger/candles?{asked}") as answer:
        rows = json.load(answer)["candles"]
    names = ("open", "high", "low", "close", "volume")
    return [(row["start_ms"], *(Decimal(row[name]) for name in names)) for row in rows]
