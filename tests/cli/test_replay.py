"""``penstock replay``: the same records in the same order, at any speed and in any process."""

import asyncio
import json
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests import events
from tests.waiting import PATIENCE_S

import penstock
from penstock.playback.digest import digest_of
from penstock.storage.log import open_log

from .conftest import invoke, run, started, stopped, urls, wait_until

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with 50 trades of two markets in five seconds."""
    with closing(open_log(f"rocksdb:{tmp_path}").writer("a")) as writer:
        writer.append([events.trade(n, received_at_ns=NOON + n * SECOND // 10) for n in range(50)])
    return tmp_path


def replayed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return invoke("replay", *words, "--data-dir", str(folder))


def test_a_replay_at_any_speed_in_any_process_has_the_digest_of_the_live_run(
    exchange: str, tmp_path: Path
) -> None:
    live = list[penstock.Delivery]()

    async def follow(collecting: subprocess.Popen[str]) -> None:
        async with penstock.subscribe("", data_dir=tmp_path / "penstock-data", start=1) as found:
            while (ended := collecting.poll() is not None) < 1 or len(live) < recorded_in(tmp_path):
                try:
                    async with asyncio.timeout(0.5 if ended else 0.1):
                        each = await anext(found)
                except TimeoutError:
                    continue
                assert isinstance(each, penstock.Delivery)
                live.append(each)

    words = ("collect", "binance", "btc_usdt", "eth_usdt", "--seconds", "3", "--json")
    with (
        started("bus", "--json", folder=tmp_path, environment={}) as bus,
        started(*words, folder=tmp_path, environment=urls(exchange)) as collecting,
    ):
        wait_until((tmp_path / "penstock-data" / "log").exists, bus)
        asyncio.run(asyncio.wait_for(follow(collecting), PATIENCE_S))
        stopped(bus)

    of_live = digest_of(live)
    assert {each.topic.split(".")[1] for each in live} >= {"trades", "book_deltas"}
    for speed in ("max", "10"):
        done = run("replay", "--digest", "--speed", speed, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{of_live}\n"
    here = penstock.replay(data_dir=tmp_path / "penstock-data", speed=3)
    assert sum(1 for _ in here) == len(live)
    assert here.digest == of_live


def recorded_in(folder: Path) -> int:
    with closing(open_log(f"rocksdb:{folder / 'penstock-data'}").reader()) as reader:
        return sum(each.last_number for slot in reader.stats() for each in slot.streams)


def test_records_are_printed_as_json_lines_or_for_people(recorded: Path) -> None:
    done = replayed(recorded, "toy.trades.BTC-USDT", "--json")
    plain = replayed(recorded, "toy.", "--to", "2023-11-14T22:13:21")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines] == list(range(50))
    assert lines[0]["topic"] == "toy.trades.btc_usdt"
    assert (lines[0]["slot"], lines[0]["number"]) == ("a", 1)
    assert "replayed 50 records, SHA-256 " in done.stderr
    assert len(plain.stdout.splitlines()) == 10
    assert plain.stdout.startswith("2023-11-14 22:13:20.000  toy BTC/USDT  trade 0: buy")


def test_the_digest_is_printed_alone(recorded: Path) -> None:
    plain, as_json = replayed(recorded, "--digest"), replayed(recorded, "--digest", "--json")

    assert len(plain.stdout.strip()) == 64
    assert json.loads(as_json.stdout) == {"records": 50, "sha256": plain.stdout.strip()}


def test_what_a_keeper_moved_to_the_lake_is_replayed_too(recorded: Path) -> None:
    with closing(open_log(f"rocksdb:{recorded}").writer("b")) as writer:
        writer.append([events.trade(n, received_at_ns=NOON + n * SECOND // 9) for n in range(70)])
        writer.append([events.ticker(NOON + n * SECOND // 7) for n in range(40)])
    before = replayed(recorded, "--json").stdout

    kept = run("keep", "--once", "--data-dir", ".", folder=recorded)

    assert kept.returncode == 0, kept.stderr
    with closing(open_log(f"rocksdb:{recorded}").reader()) as reader:
        assert sum(1 for each in reader.streams() for _ in reader.scan(each)) <= 3
    assert replayed(recorded, "--json").stdout == before
    assert replayed(recorded / "lake", "--json").stdout == before, "the lake alone"
    part = replayed(recorded, "toy.trades.*", "--to", "2023-11-14T22:13:21", "--json")
    assert [json.loads(line)["id"] for line in part.stdout.splitlines()] == list(range(10))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["toy.trades.btc_ustd"], "Did you mean toy.trades.btc_usdt"),
        (["--from", "2024-01-01"], "Nothing of toy.trades.btc_usdt was received in that range"),
        (["--from", "2024-01-01", "--to", "2023-01-01"], "the range is empty"),
        (["--from", "noon"], "is not a time"),
        (["--speed", "0"], "above zero"),
        (["--speed", "-2"], "above zero"),
        (["--speed", "fast"], "nor max"),
        (["--to-url", "nats://x"], "no publisher has the scheme"),
        (["--to-url", "tcp://nowhere"], "is no address"),
    ],
)
def test_bad_input_is_refused_in_words(recorded: Path, words: list[str], told: str) -> None:
    done = replayed(recorded, *words)

    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ").replace("│", "")
    assert done.stdout == ""


def test_an_empty_folder_has_nothing_to_replay(tmp_path: Path) -> None:
    done = replayed(tmp_path / "none")

    assert done.returncode == 2
    assert "nothing to replay" in done.stderr
    assert not (tmp_path / "none").exists()


def test_ctrl_c_ends_a_replay(recorded: Path) -> None:
    words = ("replay", "--json", "--speed", "0.01", "--data-dir", ".")
    with started(*words, folder=recorded, environment={}) as replaying:
        assert replaying.stdout is not None
        assert json.loads(replaying.stdout.readline())["id"] == 0
        replaying.send_signal(signal.SIGINT)
        _, errors = replaying.communicate(timeout=PATIENCE_S)

    assert replaying.returncode == 0, errors
    assert "replayed 1 records" in errors


def test_a_replay_to_the_bus_has_the_same_topics(recorded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"

    async def replay_and_follow() -> list[int]:
        async with penstock.subscribe("toy.trades.", data_dir=folder, start=1) as found:
            replaying = asyncio.create_task(asyncio.to_thread(publish))
            records = [await anext(found) for _ in range(50)]
            await replaying
            return [each.number for each in records if isinstance(each, penstock.Delivery)]

    def publish() -> None:
        address = f"ipc://{folder / 'bus' / 'publish'}.sock"
        words = ("--to-url", address, "--speed", "max", "--data-dir", str(recorded))
        done = run("replay", *words, folder=recorded)
        assert done.returncode == 0, done.stderr

    with started(
        "bus", "--json", "--data-dir", str(folder), folder=tmp_path, environment={}
    ) as bus:
        assert bus.stdout is not None
        bus.stdout.readline()
        assert asyncio.run(asyncio.wait_for(replay_and_follow(), PATIENCE_S)) == [*range(1, 51)]


def test_without_a_bus_a_replay_to_it_says_so(recorded: Path) -> None:
    done = run("replay", "--to-url", "zeromq:", "--data-dir", ".", folder=recorded)

    assert done.returncode == 2
    assert "penstock bus" in done.stderr
