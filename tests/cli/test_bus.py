"""``penstock bus`` and ``penstock tail``: found without a setting, refused with a reason."""

import json
import re
from pathlib import Path

import pytest

from .conftest import run, started, stopped, urls, wait_until

TRADES = "binance.trades.btc_usdt"


def test_records_are_followed_while_they_are_written(exchange: str, tmp_path: Path) -> None:
    collect = ("collect", "binance", "btc_usdt", "--json")
    with (
        started("bus", "--json", folder=tmp_path, environment={}) as bus,
        started(*collect, folder=tmp_path, environment=urls(exchange)) as collecting,
    ):
        assert bus.stdout is not None
        assert bus.stdout.readline().startswith('{"publish":"ipc://')

        def streams() -> dict[str, int]:
            done = run("bus", "streams", "--json", folder=tmp_path)
            assert done.returncode == 0, done.stderr
            slots = json.loads(done.stdout)["slots"]
            return slots[0]["numbers"] if slots else {}

        wait_until(lambda: streams().get(TRADES, 0) > 5, collecting)
        tail = run("tail", TRADES, "--json", "--count", "20", folder=tmp_path)
        whole = run("tail", TRADES, "--json", "--start", "1", "--count", "20", folder=tmp_path)
        plain = run("tail", "binance.", "--count", "3", folder=tmp_path)
        second = run("bus", folder=tmp_path)
        unknown = run("tail", "toy.trades.x_y", "--seconds", "0.1", folder=tmp_path)
        code, out, errors = stopped(collecting)
        counts = json.loads(stopped(bus)[1])

    got = [json.loads(line)["number"] for line in tail.stdout.splitlines()]
    assert got == list(range(got[0], got[0] + 20)), tail.stderr
    assert got[0] > 1
    assert [json.loads(line)["number"] for line in whole.stdout.splitlines()] == [*range(1, 21)]
    assert len(plain.stdout.splitlines()) == 3
    assert re.match(r"\d{4}-\d\d-\d\d [\d:.]{12}  binance .../USDT  \w", plain.stdout)
    assert second.returncode == 2
    # In words that depend on where the bus is: a long path is not a file's.
    assert re.search("another (bus serves|program listens)", second.stderr), second.stderr
    assert "waiting for toy.trades.x_y: not published yet" in unknown.stderr
    assert code == 0, errors
    status = json.loads(out)
    assert status["bus_dropped"] == 0
    assert 0 < counts["forwarded"] <= status["bus_published"]


def test_tail_without_a_bus_says_what_to_do(tmp_path: Path) -> None:
    done = run("tail", TRADES, folder=tmp_path)

    assert done.returncode == 2
    assert "No bus answers at ipc://" in done.stderr
    assert "penstock bus" in done.stderr


@pytest.mark.parametrize("words", [["bus"], ["collect", "binance", "btc_usdt"], ["work"], ["tail"]])
def test_off_this_machine_nothing_starts_without_keys(words: list[str], tmp_path: Path) -> None:
    done = run(*words, folder=tmp_path, PENSTOCK_BUS_PUBLISH="tcp://0.0.0.0:7001")

    assert done.returncode == 2
    assert "bus.publish" in done.stderr
    assert "penstock bus keys" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.parametrize("words", [["bus"], ["tail"], ["bus", "streams"]])
def test_where_there_is_to_be_no_bus_one_is_told_so(words: list[str], tmp_path: Path) -> None:
    done = run(*words, folder=tmp_path, PENSTOCK_BUS_PUBLISH="")

    assert done.returncode == 2
    assert "there is no bus" in done.stderr


def test_keys_are_made_and_the_secret_is_not_shown(tmp_path: Path) -> None:
    done = run("bus", "keys", "one", "--folder", "keys", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    secret, public = tmp_path / "keys" / "one.secret", tmp_path / "keys" / "one.public"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert public.read_text().strip() in done.stdout
    assert secret.read_text().strip() not in done.stdout + done.stderr
    again = run("bus", "keys", "one", "--folder", "keys", folder=tmp_path)
    assert again.returncode == 2
    assert "No key was overwritten" in again.stderr


def test_a_start_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run("tail", TRADES, "--start", "yesterday", folder=tmp_path)

    assert done.returncode == 2
    assert "neither last, nor now" in done.stderr
