"""Stores, budgets, locks, processes and backups."""

import asyncio
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.backup.folder import Rehearsal, write_rehearsal
from penstock.backup.model import digest_line, digest_name, name_of
from penstock.config import Api, Backup, Live, State
from penstock.connectors import ConnectorManager
from penstock.doctor import Finding, Subject, examine, run, worst
from penstock.doctor.backups import check_backup
from penstock.doctor.fleet import (
    check_budgets,
    check_live_store,
    check_locks,
    check_processes,
    headroom,
    read_fleet,
)
from penstock.doctor.model import Fleet
from penstock.doctor.ports import check_ports
from penstock.runtime.status import ProcessStatus, this_machine, write_process
from penstock.runtime.stores import open_state
from penstock.storage.state import StateStore
from penstock.storage.state.schema import LOCKS

from .conftest import names_in


def working() -> ProcessStatus:
    host, pid = this_machine()
    return ProcessStatus(
        kind="work", name="work-0", host=host, pid=pid, folder="/data", started_ms=1, at_ms=2,
        state="running",
    )  # fmt: skip


async def read(subject: Subject) -> Subject:
    fleet, stored = await read_fleet(subject)
    assert stored.level == "ok"
    return subject._replace(fleet=fleet)


async def lock(store: StateStore, name: str, holder: str) -> None:
    now_ms = await store.now_ms()
    lock = {
        "id": f"product:x:{name}", "holder": holder, "job_id": "none", "job_fence": 1,
        "since": now_ms, "until": now_ms + 60_000, "token": 1,
    }  # fmt: skip
    await store.insert_if_absent(LOCKS, lock)


@pytest.fixture
def ended() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def test_a_lock_of_a_process_that_ended_is_stale(subject: Subject, ended: int) -> None:
    host, pid = this_machine()
    async with open_state(subject.settings, subject.clock) as store:
        await lock(store, "a", f"{host}/work-0/{pid}")
        await lock(store, "b", "elsewhere/work-0/1")
        fine = await check_locks(await read(subject))
        await lock(store, "c", f"{host}/work-1/{ended}")
        found = list(await check_locks(await read(subject)))

    assert worst(fine) == 0
    [stale] = found
    assert stale.level == "warning"
    assert stale.remedy.endswith("penstock jobs unlock product:x:c")


async def test_processes_that_failed_or_are_gone_are_problems(subject: Subject) -> None:
    async with open_state(subject.settings, subject.clock) as store:
        await write_process(store, "a", working())
        assert worst(await check_processes(await read(subject))) == 0
        await write_process(store, "b", replace(working(), state="failed", problems=["broken"]))
        [found] = await check_processes(await read(subject))
    assert (found.level, "has failed: broken" in found.words) == ("problem", True)
    assert found.remedy == "Start it again: penstock work"


async def test_a_port_of_a_penstock_process_is_in_order(subject: Subject) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = replace(subject.settings, api=Api(port=port))
        async with open_state(settings, subject.clock) as store:
            await write_process(store, "a", replace(working(), kind="serve", name=f"serve-{port}"))
        [found] = await check_ports(await read(subject._replace(settings=settings)))
    assert found.level == "ok"


async def test_the_budget_shows_stops_pauses_and_what_is_left(subject: Subject) -> None:
    async with open_state(subject.settings, subject.clock) as store:
        manager = ConnectorManager(store)
        await manager.ensure_connector("binance")
        await manager.ensure_connector("kraken")
        await manager.pause_connector("kraken")
        seen = await read(subject)
        found = {each.words.split()[0].strip(":"): each for each in await check_budgets(seen)}
    assert found["binance"].level == "ok"
    assert "100%" in found["binance"].words
    assert found["kraken"].level == "warning"
    assert (headroom(seen.fleet, "binance"), headroom(seen.fleet, "kraken")) == (1.0, 0.0)
    assert headroom(None, "binance") == 1.0


@pytest.mark.parametrize(("jobs", "level"), [(0, "warning"), (3, "ok")])
async def test_a_budget_may_be_used_up_by_jobs_only(
    jobs: int, level: str, subject: Subject
) -> None:
    async with open_state(subject.settings, subject.clock) as store:
        connector, _ = await ConnectorManager(store).ensure_connector("binance")
    used = tuple(replace(each, used=each.burst or each.amount) for each in connector.limits)
    connector = replace(connector, limits=used, active_jobs_count=jobs)
    [found] = await check_budgets(subject._replace(fleet=Fleet(connectors=[connector])))
    assert found.level == level
    assert headroom(Fleet(connectors=[connector]), "binance") == 0.0


async def test_a_store_that_does_not_answer_is_a_problem_and_the_rest_is_checked(
    subject: Subject,
) -> None:
    settings = replace(
        subject.settings,
        state=State(url="postgresql://me:hunter2@127.0.0.1:1/x", timeout=1),
        live=Live(url="redis://:hunter2@127.0.0.1:1"),
    )
    found = await examine(subject._replace(settings=settings))
    levels = {each.check: each.level for each in found}
    assert (levels["state store"], levels["live values"]) == ("problem", "problem")
    assert levels["python"] == levels["fsync"] == "ok"
    assert "hunter2" not in str(found)


async def test_an_examination_creates_nothing(tmp_path: Path, subject: Subject) -> None:
    collect = replace(subject.settings.collect, data_dir=str(tmp_path / "data"))
    settings = replace(subject.settings, collect=collect)
    found = await examine(subject._replace(settings=settings))
    assert worst(found) == 1, "there is no exchange, and no backup"
    assert names_in(tmp_path) == []


async def test_a_check_that_hangs_or_fails_is_told_and_hides_no_other(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: Subject) -> list[Finding]:
        await asyncio.Event().wait()
        return []

    async def fail(_: Subject) -> list[Finding]:
        raise ValueError("broken")

    monkeypatch.setattr(run, "CHECKS", {**run.CHECKS, "disk": hang, "fsync": fail})
    async with asyncio.timeout(30):
        found = {each.check: each for each in await examine(subject, timeout_s=5.0)}
    assert "no result within 5 s" in found["disk"].words
    assert "ValueError: broken" in found["fsync"].words
    assert found["python"].level == "ok"


async def test_the_live_store_is_opened_if_it_is_there(subject: Subject, tmp_path: Path) -> None:
    assert "none yet" in next(iter(await check_live_store(subject))).words
    (tmp_path / "live.db").write_bytes(b"no database" * 1000)
    assert worst(await check_live_store(subject)) == 2


@pytest.mark.parametrize(
    ("hours", "verified", "code"),
    [(1, True, 0), (1, False, 1), (7, True, 1), (25, True, 2), (None, False, 2)],
)
async def test_the_last_backup_is_young_and_verified(
    hours: int | None, verified: bool, code: int, subject: Subject, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    settings = replace(subject.settings, backup=Backup(folder=str(folder)))
    if hours is not None:
        at = datetime.now(UTC) - timedelta(hours=hours)
        archive = folder / name_of(at)
        archive.touch()
        digest = "a" * 64
        (folder / digest_name(archive.name)).write_text(digest_line(digest, archive.name))
        if verified:
            write_rehearsal(archive, Rehearsal(at="now", digest=digest, verified=True))
    [found] = await check_backup(subject._replace(settings=settings))
    assert worst([found]) == code, found
