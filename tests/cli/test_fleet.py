"""``penstock status`` shows all processes that share a state store, wherever their data is."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.waiting import PATIENCE_S

from .conftest import run, started, urls, wait_until

POLL_S = 1.5
"""Between two looks at a fleet, each of which is a command."""


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    with servers.postgresql("-F") as url:
        yield url


def fleet(folder: Path, **environment: str) -> dict[str, dict[str, Any]]:
    """What ``penstock status --json`` says of each process, by folder and name."""
    done = run("status", "--json", folder=folder, **environment)
    lines = map(json.loads, done.stdout.splitlines())
    found = {}
    for line in lines:
        told = line.get("process") or {**line["status"], "name": line["status"]["slot"]}
        name = f"{Path(told.get('folder', 'a')).name}/{told['name']}"
        found[name] = {**told, "gone": line["gone"]}
    return found


def fleet_runs(folder: Path, many: int, environment: dict[str, str]) -> bool:
    """Whether so many processes are there, and all of them run."""
    found = fleet(folder, **environment).values()
    running = [each["state"] == "running" and not each["gone"] for each in found]
    return len(running) == many and all(running)


def collects(found: dict[str, dict[str, Any]]) -> bool:
    """Whether the collector has records of its market."""
    return "1 market," in found["a/collect-binance"]["doing"]


def test_processes_of_two_folders_are_shown_from_anywhere(
    tmp_path: Path, exchange: str, postgresql_url: str
) -> None:
    told = {**urls(exchange), "PENSTOCK_STATE_URL": postgresql_url}
    commands = (
        ("collect", "binance", "btc_usdt", "--data-dir", "a"),
        ("work", "--data-dir", "a"),
        ("work", "--data-dir", "b"),
        ("bus", "--data-dir", "b"),
        ("serve", "--port", "0", "--data-dir", "b"),
    )
    (elsewhere := tmp_path / "elsewhere").mkdir()
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started(*words, folder=tmp_path, environment=told))
            for words in commands
        ]
        wait_until(lambda: fleet_runs(elsewhere, 5, told), processes[0], POLL_S)
        wait_until(lambda: collects(fleet(elsewhere, **told)), processes[0], POLL_S)
        found = fleet(elsewhere, **told)
        drawn = run("status", folder=elsewhere, **told)
        beside = run("status", "--data-dir", "a", folder=tmp_path, **told)

        worker = processes[2]
        worker.send_signal(signal.SIGKILL)
        worker.wait(PATIENCE_S)
        wait_until(lambda: fleet(elsewhere, **told)["b/work-0"]["gone"], processes[0], POLL_S)
        after = run("status", folder=elsewhere, **told)
        for process in (processes[0], processes[1], *processes[3:]):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        ended = fleet(elsewhere, **told)

    kinds = {name: each["kind"] for name, each in found.items()}
    [server] = [name for name in found if "serve" in name]
    assert kinds == {
        "a/collect-binance": "collect",
        "a/work-0": "work",
        "b/work-0": "work",
        "b/bus": "bus",
        server: "serve",
    }
    assert {each["pid"] for each in found.values()} == {each.pid for each in processes}
    assert {each["host"] for each in found.values()} == {os.uname().nodename}
    assert {each["health"] for each in found.values()} == {"healthy"}
    assert not any(each["gone"] for each in found.values())
    assert collects(found)
    assert found["a/collect-binance"]["last_data_ms"]
    assert found["a/collect-binance"]["published"]["zeromq"]["dropped"] == 0
    assert "jobs running" in found["b/work-0"]["doing"]
    assert "forwarded" in found["b/bus"]["doing"]
    assert "serving http://127.0.0.1:" in found[server]["doing"]
    assert drawn.returncode == 0, drawn.stderr
    assert len([line for line in drawn.stdout.splitlines() if " running " in line]) == 5
    assert beside.returncode == 0, beside.stderr
    assert "btc_usdt" in beside.stdout, "a collector of this folder is shown in full"
    assert "serving http" in beside.stdout
    assert after.returncode == 1
    assert [line.split()[:2] for line in after.stdout.splitlines() if " gone " in line] == [
        ["work-0", "gone"]
    ]
    states = {name: each["state"] for name, each in ended.items() if not each["gone"]}
    assert states == dict.fromkeys({*found} - {"b/work-0"}, "stopped")


def test_a_store_that_is_away_stops_nobody_and_loses_no_status(
    tmp_path: Path, exchange: str
) -> None:
    with servers.Postgresql() as server:
        told = {
            **urls(exchange),
            "PENSTOCK_STATE_URL": server.url,
            "PENSTOCK_STATE_TIMEOUT": "3",
        }
        with ExitStack() as stack:
            processes = [
                stack.enter_context(started(*words, folder=tmp_path, environment=told))
                for words in (
                    ("collect", "binance", "btc_usdt", "--data-dir", "a"),
                    ("bus", "--data-dir", "b"),
                )
            ]
            (elsewhere := tmp_path / "elsewhere").mkdir()
            wait_until(lambda: len(fleet(elsewhere, **told)) == 2, processes[0], POLL_S)
            server.stop()
            away = run("status", "--data-dir", "a", folder=tmp_path, **told)
            server.start()
            wait_until(lambda: fleet_runs(elsewhere, 2, told), processes[0], POLL_S)
            assert [process.poll() for process in processes] == [None, None]
    assert away.returncode == 1
    assert "only processes of this folder are shown" in away.stderr
    assert "btc_usdt" in away.stdout
