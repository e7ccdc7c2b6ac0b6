"""``penstock doctor``: its lines, its exit codes, and what it refuses."""

import json
import socket
from pathlib import Path

import pytest

from .conftest import invoke, urls


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "backups").mkdir()
    monkeypatch.setenv("PENSTOCK_API_PORT", "0")
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", str(tmp_path / "data"))


def test_each_line_has_a_mark_and_what_to_do(
    tmp_path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in urls(exchange).items():
        monkeypatch.setenv(name, value)
    done = invoke("doctor", "binance")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout
    assert [line for line in lines if line.startswith(("!", "✗"))] == [
        "! backup         no backup folder is set"
    ]
    assert "Set backup.folder" in lines[-1]
    assert any(line.startswith("✓ clock") for line in lines)
    assert not (tmp_path / "data").exists()


def test_a_problem_exits_2_and_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("PENSTOCK_API_PORT", str(taken.getsockname()[1]))
        done = invoke("doctor", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert [each["check"] for each in found if each["level"] == "problem"] == ["ports"]
    assert all(each["remedy"] for each in found if each["level"] != "ok")


def test_an_unknown_exchange_is_refused_with_those_that_are_near() -> None:
    done = invoke("doctor", "binanze")
    assert done.returncode == 2
    assert "binance" in done.stderr
