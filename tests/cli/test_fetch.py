"""``penstock fetch`` as a process: what it does, how it stops, what it says when it cannot."""

import json
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from penstock.market.events import Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream

from .conftest import run, started, stopped, urls, wait_until

FETCH = ("fetch", "binance", "btc_usdt", "--data-dir", ".", "--every", "0.3")


def ids(folder: Path) -> list[int]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        stored = reader.scan(Stream("binance", "trades", "btc_usdt"))
        return [cast("Trade", each.event).id for each in stored]


def slots(folder: Path) -> list[str]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        return sorted(reader.slots())


def test_a_killed_fetcher_goes_on_where_the_log_ended(tmp_path: Path, exchange: str) -> None:
    for _ in range(2):
        before = len(ids(tmp_path)) if (tmp_path / "log").exists() else 0

        def some_more(before: int = before) -> bool:
            return (tmp_path / "log").exists() and len(ids(tmp_path)) > before + 1

        with started(*FETCH, folder=tmp_path, environment=urls(exchange)) as process:
            wait_until(some_more, process)
            process.send_signal(signal.SIGKILL)
            process.wait()
    gone = run("status", "--data-dir", ".", "--json", folder=tmp_path)
    assert gone.returncode == 1, "it was killed"
    assert json.loads(gone.stdout)["status"]["slot"] == "fetch-binance"
    with started(*FETCH, "--json", folder=tmp_path, environment=urls(exchange)) as process:
        # The status of the killed one still stands until this one has written its own.
        wait_until(lambda: _status(tmp_path).returncode == 0, process)
        shown = _status(tmp_path)
        code, out, errors = stopped(process)

    assert code == 0, errors
    assert shown.returncode == 0, shown.stdout
    assert "trades" in shown.stdout
    assert "book" in shown.stdout
    status = json.loads(out)
    assert status["state"] == "stopped"
    assert {each["what"] for each in status["fetches"]} == {"trades", "book", "info", "tickers"}
    found = ids(tmp_path)
    assert found == list(range(found[0], found[0] + len(found)))
    assert "Traceback" not in errors


def _status(folder: Path) -> "subprocess.CompletedProcess[str]":
    return run("status", "--data-dir", ".", folder=folder)


def test_it_runs_beside_a_collector_of_the_same_folder(tmp_path: Path, exchange: str) -> None:
    collect = ("collect", "binance", "btc_usdt", "--data-dir", ".")
    with started(*collect, folder=tmp_path, environment=urls(exchange)) as collecting:
        wait_until(lambda: (tmp_path / "log").exists() and bool(ids(tmp_path)), collecting)
        done = run(*FETCH, "--seconds", "2", "--json", folder=tmp_path, **urls(exchange))
        code, _, errors = stopped(collecting)

    assert (code, done.returncode) == (0, 0), errors + done.stderr
    assert slots(tmp_path) == ["collect-binance", "fetch-binance"]
    found = ids(tmp_path)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fetch", "binanse", "btc_usdt"), "binance"),
        (("fetch", "binance", "btc_usdtt"), "btc_usdt"),
        (("fetch", "binance", "--what", "trades"), "name at least one"),
        (("fetch", "binance", "btc_usdt", "--what", "trade"), "one of trades, book, info, tickers"),
        (("fetch", "binance", "btc_usdt", "--every", "0"), "every"),
    ],
)
def test_bad_input_is_answered_before_anything_is_recorded(
    words: tuple[str, ...], said: str, tmp_path: Path, exchange: str
) -> None:
    done = run(*words, "--data-dir", ".", "--seconds", "5", folder=tmp_path, **urls(exchange))

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "log").exists()


def test_an_exchange_that_cannot_be_reached_is_said_at_once(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    environment = urls(f"http://127.0.0.1:{unused_tcp_port}")
    done = run(*FETCH, folder=tmp_path, **environment)

    assert done.returncode == 75
    assert "Could not reach" in done.stderr
    assert not (tmp_path / "log").exists()


def test_a_judge_does_not_call_twice_what_two_slots_hold(tmp_path: Path, exchange: str) -> None:
    collect = ("collect", "binance", "btc_usdt", "--data-dir", ".", "--seconds", "2")
    done = run(*collect, folder=tmp_path, **urls(exchange))
    assert done.returncode == 0, done.stderr
    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as reader:
        stored = [*reader.scan(Stream("binance", "trades", "btc_usdt"))]
    with closing(open_log(f"rocksdb:{tmp_path}").writer("fetch-binance")) as writer:
        assert len(writer.append([each.event for each in stored])) == len(stored) > 0
    judged = run("judge", exchange, "--data-dir", ".", "--json", folder=tmp_path)

    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert json.loads(judged.stdout)["trades_duplicated"] == 0
