"""``penstock status``: by the live values too, without them, and redrawn on a terminal."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.runtime.identity import identity_of
from penstock.runtime.sinks import Identified, LiveSink
from penstock.runtime.status import ChildStatus, ProcessStatus, write_process
from penstock.runtime.stores import open_state

from .conftest import PENSTOCK, invoke, started
from .terminal import CTRL_C, terminal

BUS = ProcessStatus(
    kind="bus", name="bus", host="one", pid=os.getpid(), folder="/data", started_ms=1, at_ms=2,
    state="running", doing="1 forwarded", identity=identity_of(os.getpid()),
)  # fmt: skip


def settings_of(folder: Path) -> Settings:
    return Settings(collect=Collect(data_dir=str(folder)))


def report_live(folder: Path, status: ProcessStatus) -> None:
    async def report() -> None:
        sink = LiveSink(settings_of(folder), SystemClock())
        await sink.write(Identified(f"x/{status.name}", status))
        await sink.close()

    asyncio.run(report())


def report_stored(folder: Path, status: ProcessStatus) -> None:
    async def report() -> None:
        async with open_state(settings_of(folder), SystemClock()) as store:
            await write_process(store, f"x/{status.name}", status)

    asyncio.run(report())


def test_a_process_is_shown_once_as_it_reported_last(tmp_path: Path) -> None:
    report_live(tmp_path, BUS)
    report_live(tmp_path, replace(BUS, name="another"))
    report_stored(tmp_path, replace(BUS, doing="2 forwarded"))

    done = invoke("status", "--data-dir", str(tmp_path), "--json")

    found = {each["process"]["name"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {name: each["process"]["doing"] for name, each in found.items()} == {
        "bus": "2 forwarded",
        "another": "1 forwarded",
    }
    assert not any(each["gone"] for each in found.values())
    assert done.returncode == 0


def test_a_process_of_this_machine_that_ended_is_gone_at_once(tmp_path: Path) -> None:
    report_stored(tmp_path, replace(BUS, identity=BUS.identity + "1"))

    done = invoke("status", "--data-dir", str(tmp_path), "--json")

    assert json.loads(done.stdout)["gone"]
    assert done.returncode == 1


@pytest.mark.parametrize(("state", "code"), [("running", 0), ("given up", 1)])
def test_a_process_that_its_supervisor_gave_up_should_be_running(
    tmp_path: Path, state: str, code: int
) -> None:
    children = [ChildStatus(name="fetch:sim", state=state)]
    report_stored(tmp_path, replace(BUS, kind="up", name="up", children=children))

    assert invoke("status", "--data-dir", str(tmp_path)).returncode == code


def test_a_store_that_cannot_be_read_is_said_and_the_other_one_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_stored(tmp_path, BUS)
    with monkeypatch.context() as patch:
        patch.setenv("PENSTOCK_LIVE_URL", "redis://:hunter2@127.0.0.1:1")
        without_live = invoke("status", "--data-dir", str(tmp_path))
    (tmp_path / "state.db").write_bytes(b"no database" * 1000)
    report_live(tmp_path, BUS)
    without_state = invoke("status", "--data-dir", str(tmp_path))

    for done in (without_live, without_state):
        assert "1 forwarded" in done.stdout
        assert done.returncode == 1
        assert "hunter2" not in done.stdout + done.stderr
    assert "entries in the store of live values are not shown" in without_live.stderr
    assert "only processes of this folder are shown" in without_state.stderr


def test_watch_redraws_a_terminal(tmp_path: Path) -> None:
    report_stored(tmp_path, BUS)
    words = ["status", "--watch", "--data-dir", "."]
    with terminal([*PENSTOCK, *words], size=(100, 24), folder=tmp_path) as shown:
        shown.until_shown("bus", "1 forwarded")
        report_stored(tmp_path, replace(BUS, doing="2 forwarded"))
        shown.until_shown("bus", "2 forwarded")
        assert "1 forwarded" not in shown.text
        shown.type(CTRL_C)
        assert shown.ended() == 0


def test_watch_prints_everything_again_where_there_is_no_terminal(tmp_path: Path) -> None:
    report_stored(tmp_path, BUS)
    words = ["status", "--watch", "--json", "--data-dir", str(tmp_path)]
    with started(*words, folder=tmp_path, environment={}) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert [each["process"]["name"] for each in lines] == ["bus", "bus"]
