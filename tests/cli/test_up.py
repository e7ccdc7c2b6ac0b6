"""``penstock up`` and the commands to it, with real processes and an exchange."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import invoke, run, started, stopped, urls, wait_until

POLL_S = 0.5
FILE = """
[up]
exchanges = ["binance"]
symbols = ["btc_usdt", "eth_usdt"]
first_delay = 1
work = 0
fetch = false
tickers = false
keep = false
bus = false
"""


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def children(folder: Path) -> dict[str, dict[str, Any]]:
    """What ``penstock status --json`` says of the supervised processes."""
    done = run("status", "--json", folder=folder)
    for line in map(json.loads, done.stdout.splitlines()):
        told = line.get("process", {})
        if told.get("kind") == "up" and told["state"] == "running" and not line["gone"]:
            return {each["name"]: each for each in told["children"]}
    return {}


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def test_processes_are_supervised_through_kills_of_each_and_of_the_supervisor(
    tmp_path: Path, exchange: str, taken_port: int
) -> None:
    (tmp_path / "penstock.toml").write_text(FILE)
    environment = {**urls(exchange), "PENSTOCK_API_PORT": str(taken_port)}
    before: dict[str, dict[str, Any]] = {}

    def all_run(*, restarts: int = 0) -> bool:
        found = children(tmp_path)
        collector = found.get("collect:binance", {})
        ready = collector.get("restarts", -1) >= restarts and _records(tmp_path, collector["pid"])
        before.update(found if ready else {})
        return ready

    with started("up", folder=tmp_path, environment=environment) as up:
        wait_until(all_run, up, every_s=POLL_S)
        second = run("up", folder=tmp_path, **environment)
        os.kill(before["collect:binance"]["pid"], signal.SIGKILL)
        wait_until(lambda: all_run(restarts=1), up, every_s=POLL_S)
        reason = before["collect:binance"]["reason"]
        port_reason = before["serve"]["reason"]
        up.send_signal(signal.SIGKILL)
        up.wait()
    pids = [each["pid"] for each in before.values() if each["pid"]]
    with started("up", "--json", folder=tmp_path, environment=environment) as up:
        wait_until(all_run, up, every_s=POLL_S)
        assert not any(map(is_alive, pids)), "an orphan was left"
        told = run("restart", "collect:binance", folder=tmp_path)
        shown = run("status", folder=tmp_path)
        alive = run("status", "--alive", folder=tmp_path)
        code, out, errors = stopped(up)

    assert second.returncode == 2
    assert "A supervisor (pid" in second.stderr
    assert reason == "ended by signal 9"
    assert f"127.0.0.1:{taken_port} is already in use" in port_reason
    assert told.returncode == 0
    assert told.stdout.startswith("collect:binance running (pid ")
    assert "up" in shown.stdout
    assert "collect:binance" in shown.stdout
    assert code == 0, errors[-2000:]
    processes = json.loads(out)["processes"]
    assert {each["name"]: each["state"] for each in processes} == {
        "collect:binance": "stopped", "serve": "stopped",
    }  # fmt: skip
    lines = [json.loads(line) for line in errors.splitlines()]
    assert {line.get("process") for line in lines} >= {"collect:binance", "serve"}
    assert alive.returncode == 0
    dead = run("status", "--alive", folder=tmp_path)
    assert dead.returncode == 1
    assert "No supervisor answers on penstock-data" in dead.stderr
    again = run("restart", "collect:binance", folder=tmp_path)
    assert again.returncode == 2
    assert "No supervisor answers on penstock-data" in again.stderr


def _records(folder: Path, pid: int) -> bool:
    """Whether this process is the collector, and books are synced."""
    files = list((folder / "penstock-data" / "status").glob("*.json"))
    statuses = [json.loads(file.read_text()) for file in files]
    return any(
        each["pid"] == pid and [book["state"] for book in each["books"]] == ["synced"] * 2
        for each in statuses
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[up]\nexchange = ["binance"]', "Did you mean up.exchanges"),
        ('[up]\nexchanges = ["binanse"]\nsymbols = ["btc_usdt"]', "Did you mean binance"),
        ('[up]\nexchanges = ["binance"]', "has no markets"),
        ("", "nothing is set to be collected"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text(text)
    done = invoke("up")

    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "penstock-data").exists()


def test_the_processes_can_be_listed_without_starting_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text(FILE)

    assert invoke("up", "--dry-run").stdout.splitlines() == [
        "collect:binance: penstock collect binance btc_usdt eth_usdt",
        "serve: penstock serve",
    ]
    rows = [json.loads(line) for line in invoke("up", "--dry-run", "--json").stdout.splitlines()]
    assert rows[1] == {"name": "serve", "command": ["penstock", "serve"], "environment": {}}
    assert not (tmp_path / "penstock-data").exists()
