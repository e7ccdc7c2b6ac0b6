"""``penstock logs``: the lines that the processes of a data folder kept."""

import json
import signal
from pathlib import Path

from tests.monitor.lines import START, line, write
from tests.waiting import PATIENCE_S

from .conftest import invoke, started


def test_the_newest_lines_are_printed_in_order_of_time(tmp_path: Path) -> None:
    three = line(3_000, "Three", "error", why="\x1b[31m", n=2)
    write(tmp_path, "a.jsonl", line(1_000, "One"), three)
    write(tmp_path, "b.jsonl", line(2_000, "Two", "warning", symbols=["btc_usdt"]))

    done = invoke("logs", "--data-dir", str(tmp_path), "--lines", "2")
    assert done.stdout.splitlines() == [
        '2026-01-17 10:30:00.002 warning b Two symbols=["btc_usdt"]',
        "2026-01-17 10:30:00.003 error   a Three why=\\x1b[31m n=2",
    ]
    shown = invoke("logs", "--data-dir", str(tmp_path), "--json", "--level", "error").stdout
    assert json.loads(shown) == {
        "at_ms": round(START.timestamp() * 1000) + 3,
        "level": "error",
        "process": "a",
        "event": "Three",
        "fields": {"why": "\x1b[31m", "n": 2},
    }
    assert "\x1b" not in shown


def test_lines_that_are_not_there_are_not_an_error(tmp_path: Path) -> None:
    done = invoke("logs", "--data-dir", str(tmp_path), "--text", "x")

    assert (done.returncode, done.stdout) == (0, "")
    assert "logs.keep_mb" in done.stderr


def test_what_is_no_log_file_is_left_out_and_a_wrong_option_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1))
    (tmp_path / "logs" / "b.jsonl").symlink_to("b.jsonl")
    (tmp_path / "logs" / "c.jsonl").mkdir()

    done = invoke("logs", "--data-dir", str(tmp_path))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert invoke("logs", "--data-dir", str(tmp_path), "--level", "loud").returncode == 2


def test_new_lines_are_followed_until_it_is_stopped(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1, "One"), line(2, "Two"))
    words = ("logs", "--data-dir", str(tmp_path), "--follow", "--lines", "1", "--json")
    with started(*words, folder=tmp_path, environment={}) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "Two"
        write(tmp_path, "b.jsonl", line(3, "Three"))
        assert json.loads(process.stdout.readline())["event"] == "Three"
        (tmp_path / "logs" / "a.jsonl").replace(tmp_path / "logs" / "a.jsonl.1")
        write(tmp_path, "a.jsonl", line(4, "Four"))
        assert json.loads(process.stdout.readline())["event"] == "Four"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
