"""``penstock log``: what was recorded is found, by id, by time and by name."""

import json
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests import events

from penstock.cli.log import print_new
from penstock.market.events import Candle, Trade
from penstock.storage.log import appending, open_log
from penstock.storage.log import writer as writer_module

from .conftest import PENSTOCK, invoke, run

BTC = "binance.trades.btc_usdt"


def records(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def trade(number: int, *, at_ms: int = 0, received_at_ns: int | None = None) -> Trade:
    received_at_ns = number if received_at_ns is None else received_at_ns
    return events.trade(number, at_ns=at_ms * 1_000_000, received_at_ns=received_at_ns)


def candle(close: str, at_ns: int) -> Candle:
    return events.candle(0, received_at_ns=at_ns, close_text=close)


def when(at_ns: int) -> str:
    """As text, to the millisecond below."""
    return datetime.fromtimestamp(at_ns // 1_000_000 / 1000, UTC).isoformat()


def test_scan_finds_by_id_and_by_time_and_in_both_directions(collected: Path) -> None:
    def scan(*words: str) -> list[dict[str, Any]]:
        where = ("--data-dir", str(collected / "penstock-data"))
        return records(invoke("log", "scan", BTC, *words, *where))

    everything = scan()
    ids = [record["id"] for record in everything]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert [record["number"] for record in everything] == list(range(1, len(ids) + 1))
    part = scan("--first", str(ids[3]), "--last", str(ids[7]), "--reverse", "--limit", "3")
    assert [record["id"] for record in part] == [ids[7], ids[6], ids[5]]
    middle = everything[len(ids) // 2]
    for before, after, at in (
        ("--until", "--since", when(middle["at_ns"])),
        ("--received-until", "--received-since", when(middle["received_at_ns"])),
    ):
        early, late = scan(before, at), scan(after, at)
        assert [r["id"] for r in early + late] == ids
        assert early
        assert late


def test_scan_shows_everything_unless_told_otherwise_and_says_what_it_left_out(
    tmp_path: Path,
) -> None:
    with closing(open_log(f"rocksdb:{tmp_path}").writer("a")) as writer:
        writer.append([trade(number) for number in range(1, 151)])

    def scan(*words: str) -> subprocess.CompletedProcess[str]:
        words = ("log", "scan", "toy.trades.BTC-USDT", *words, "--data-dir", str(tmp_path))
        return invoke(*words)

    whole, cut, all_of_them = scan(), scan("--limit", "149"), scan("--limit", "150")
    assert [record["id"] for record in records(whole)] == list(range(1, 151))
    assert [record["id"] for record in records(cut)] == list(range(1, 150))
    assert "there are more records" in cut.stderr
    assert "--limit" in cut.stderr
    assert records(all_of_them) == records(whole)
    assert whole.stderr == all_of_them.stderr == ""


def test_scan_means_the_time_of_the_market(tmp_path: Path) -> None:
    # Fetched a year later, among what came live.
    noon = 1_700_000_000_000
    with closing(open_log(f"rocksdb:{tmp_path}").writer("a")) as writer:
        for number in (1, 3, 2):
            late_ms = 365 * 86_400_000 if number == 2 else 5
            at_ms = noon + number * 1000
            received_ns = (at_ms + late_ms) * 1_000_000
            writer.append([trade(number, at_ms=at_ms, received_at_ns=received_ns)])

    def ids(*words: str) -> list[int]:
        words = ("log", "scan", "toy.trades.btc_usdt", *words, "--data-dir", str(tmp_path))
        return [record["id"] for record in records(invoke(*words))]

    since, until = when((noon + 2000) * 1_000_000), when((noon + 3000) * 1_000_000)
    assert ids("--since", since, "--until", until) == [2]
    assert ids("--since", since) == [2, 3]
    assert ids("--received-since", since) == [2, 3]
    assert ids("--received-since", since, "--received-until", when((noon + 9000) * 10**6)) == [3]


def test_records_that_tell_milliseconds_are_shown_with_nanoseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the version before wrote it.
    before = (
        b'\x01{"kind":"trade","exchange":"toy","symbol":"BTC/USDT","received_at_ns":1,"id":1,'
        b'"at_ms":1633998523963,"price":"1","quantity":"1","taker":"buy"}'
    )
    url = f"rocksdb:{tmp_path / 'penstock-data'}"
    monkeypatch.setattr(writer_module, "encode", lambda _event: before)
    monkeypatch.setattr(appending, "encode_many", lambda events: [before for _ in events])
    with closing(open_log(url).writer("collect-toy")) as writer:
        writer.append([trade(1)])
    monkeypatch.undo()
    with closing(open_log(url).writer("collect-toy")) as writer:
        assert writer.append([trade(1)]) == [], "it is known already"
        writer.append([trade(2)])

    shown = records(run("log", "scan", "toy.trades.btc_usdt", folder=tmp_path))

    assert [(each["id"], each["at_ns"]) for each in shown] == [(1, 1633998523963000000), (2, 0)]
    assert "at_ms" not in shown[0]


def test_tail_begins_with_the_newest(collected: Path) -> None:
    everything = records(run("log", "scan", BTC, folder=collected))
    tail = records(run("log", "tail", BTC, "-n", "3", folder=collected))

    assert tail == everything[-3:]


def test_following_begins_at_the_end_of_every_slot(tmp_path: Path) -> None:
    # Two slots of one stream; the newest record of all is in one of them.
    for slot, first in (("a", 1), ("b", 100)):
        with closing(open_log(f"rocksdb:{tmp_path}").writer(slot)) as writer:
            writer.append([trade(number) for number in range(first, first + 20)])
    words = ("log", "tail", "toy.trades.btc_usdt", "-n", "2", "--follow", "--seconds", "0.2")
    tail = records(run(*words, "--data-dir", str(tmp_path), folder=tmp_path))

    assert [record["id"] for record in tail] == [118, 119]


def test_following_shows_a_correction_and_no_copy_of_a_candle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(slot: str, close: str, at_ns: int) -> None:
        with closing(log.writer(slot)) as writer:
            writer.append([candle(close, at_ns)])

    log = open_log(f"rocksdb:{tmp_path}")
    write("a", "1", 1)
    with closing(log.reader()) as reader:
        (stream,) = reader.streams()
        numbers = {"a": 1}
        for slot, close, at_ns in (("b", "1", 2), ("c", "2", 4), ("d", "1", 3)):
            write(slot, close, at_ns)
            print_new(reader, stream, numbers)

    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["slot"], each["close"]) for each in shown] == [("c", "2")]


@pytest.mark.parametrize("columns", ["80", "160"])
def test_stats_name_every_stream_in_full(collected: Path, columns: str) -> None:
    done = run("log", "stats", folder=collected, COLUMNS=columns)

    assert done.returncode == 0
    assert "collect-binance" in done.stdout
    for channel in ("trades", "book_deltas", "book_snapshots", "tickers"):
        for slug in ("btc_usdt", "eth_usdt"):
            assert f" binance.{channel}.{slug} " in done.stdout
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= int(columns)
    assert (" first " in done.stdout) == (columns == "160")


def test_stats_as_facts(collected: Path) -> None:
    stats = records(run("log", "stats", "--json", folder=collected))
    found = {each["stream"]: each for each in stats}
    everything = records(run("log", "scan", BTC, folder=collected))

    assert found[BTC]["records"] == len(everything)
    assert found[BTC]["first"] == str(everything[0]["id"])
    assert found[BTC]["last_received_ns"] == everything[-1]["received_at_ns"]


def test_stats_of_nothing_say_how_to_begin(tmp_path: Path) -> None:
    done = run("log", "stats", folder=tmp_path)

    assert done.returncode == 0
    assert "Begin with: penstock collect" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["scan", "tail"])
def test_an_unknown_stream_is_answered_with_near_matches(collected: Path, command: str) -> None:
    done = run("log", command, "binance.trade.btc_usdt", folder=collected)

    assert done.returncode == 2
    assert f"Did you mean {BTC}" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--since", "yesterday"], "'yesterday' is not a time such as 2026-11-01T12:00"),
        (["--received-until", "noon"], "'noon' is not a time such as"),
        (["--since", "2026-01-02", "--until", "2026-01-01"], "2026-01-02 is not before --until"),
        (["--first", "9", "--last", "5"], "9 is above --last 5"),
        (["--first=-3"], "-3 is not in the range x>=0"),
    ],
)
def test_what_is_no_part_of_a_stream_is_refused(
    collected: Path, words: list[str], says: str
) -> None:
    done = invoke("log", "scan", BTC, *words, "--data-dir", str(collected / "penstock-data"))

    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_enough_is_no_error(collected: Path) -> None:
    words = [*PENSTOCK, "log", "scan", "binance.tickers.btc_usdt"]
    with subprocess.Popen(
        words, cwd=collected, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert "Traceback" not in errors
