"""What a person sees: commands in a real terminal, small and large."""

import json
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.clock import SystemClock
from penstock.collect.status import BookStatus, CollectorStatus, read_status, write_status

from .conftest import PENSTOCK, SYMBOLS, run, urls
from .terminal import CTRL_C, Terminal, terminal

SMALL, LARGE = (80, 24), (200, 50)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x50"])
MOVES = re.compile(rb"\x1b\[[0-9;]*[A-HJKfsu]")
"""What moves the cursor, or clears."""
HEAD = ["symbol", "book", "trades", "missing"]


def rows(shown: Terminal) -> dict[str, list[str]]:
    """The rows of markets on the screen, by symbol, in their order."""
    cells = [line.split() for line in shown.lines]
    return {line[0]: line for line in cells if len(line) > 1 and line[0].endswith(("usdt", "usd"))}


def all_synced(shown: Terminal, count: int) -> bool:
    found = rows(shown).values()
    return len(found) == count and {row[1] for row in found} == {"synced"}


def seconds_left(shown: Terminal) -> int:
    return int(shown.text.partition("Recording, ")[2].split()[0])


def test_ctrl_c_in_the_demo_ends_with_the_verdict(tmp_path: Path) -> None:
    with terminal([*PENSTOCK, "demo", "--seconds", "600"], size=SMALL, folder=tmp_path) as shown:
        shown.until_shown("Demo: penstock records simulated exchanges (binance) on this machine")
        shown.until(lambda: all_synced(shown, 3))
        shown.until_shown("s left. Ctrl-C ends it and checks the records.")
        left = seconds_left(shown)
        during = shown.text
        shown.until(lambda: seconds_left(shown) < left)
        shown.type(CTRL_C)
        code = shown.ended()

    assert code == 0, shown.everything
    assert "3 of 3 books synced" in during
    assert "per minute" in during
    assert "complete and correct" in shown.lines
    assert "Next, collect from the real exchange: penstock collect binance btc_usdt" in shown.text
    assert {row[1] for row in rows(shown).values()} == {"stopped"}
    assert "Traceback" not in shown.everything
    assert "^C" not in shown.text


@SIZES
def test_collect_shows_a_row_per_market_and_ends_with_how_to_go_on(
    tmp_path: Path, exchange: str, size: tuple[int, int]
) -> None:
    words = ["collect", "binance", *SYMBOLS, "--data-dir", "data"]
    with terminal(
        [*PENSTOCK, *words], size=size, folder=tmp_path, environment=urls(exchange)
    ) as shown:
        shown.until(lambda: all_synced(shown, 2) and "running for" in shown.text)
        during, found = shown.lines, rows(shown)
        shown.type(CTRL_C)
        code = shown.ended()

    assert code == 0, shown.everything
    assert list(found) == sorted(SYMBOLS)
    (head,) = (line.split() for line in during if line.startswith("symbol"))
    assert head[:4] == HEAD
    assert ("resyncs" in head) == (size == LARGE)
    assert "of 6,000 per minute" in "\n".join(during)
    assert shown.lines[0].startswith("collect-binance  stopped")
    assert {row[1] for row in rows(shown).values()} == {"stopped"}
    assert f"Stopped. The data is in {tmp_path / 'data'}" in shown.everything.replace("\n", "")
    assert f"Continue with: penstock {' '.join(words)}" in shown.text
    assert not any("…" in line for line in shown.lines), "nothing is cropped"

    with terminal([*PENSTOCK, "status", "--data-dir", "data"], size=size, folder=tmp_path) as said:
        assert said.ended() == 0
    assert said.lines[0].startswith("collect-binance  stopped")
    assert list(rows(said)) == sorted(SYMBOLS)
    assert "synced" not in said.text


@SIZES
def test_status_shows_trouble_first_and_counts_what_does_not_fit(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    symbols = [f"m{number:02}_usdt" for number in range(60)]
    books = [
        BookStatus(symbol=each, state="synced", reason="", update_id=1, resyncs=0, bid="1", ask="2")
        for each in symbols
    ]
    books[59] = replace(books[59], state="stale", reason="gap: 3 updates were lost")
    now_ms = SystemClock().now_ms() + 60_000
    status = CollectorStatus(
        exchange="toy", slot="collect-toy", pid=os.getpid(), started_ms=0, at_ms=now_ms,
        state="running", connection="connected", books=books, refused=["-1121: Invalid symbol."],
    )  # fmt: skip
    write_status(tmp_path, status)
    with terminal([*PENSTOCK, "status", "--data-dir", "."], size=size, folder=tmp_path) as shown:
        assert shown.ended() == 0

    assert shown.lines[0].startswith("collect-toy  running"), "nothing scrolled out"
    assert "59 of 60 books synced" in shown.text
    assert "! refused by the exchange: -1121: Invalid symbol." in shown.lines
    assert "! m59_usdt: stale: gap: 3 updates were lost" in shown.lines
    found = list(rows(shown))
    assert found == ["m59_usdt", *symbols[: len(found) - 1]]
    assert len(found) > (40 if size == LARGE else 14)
    assert f"… and {60 - len(found)} more, all fine" in shown.lines


def test_in_the_background_nothing_is_drawn_until_it_comes_to_the_front(
    tmp_path: Path, exchange: str
) -> None:
    collect = " ".join([*PENSTOCK, "collect", "binance", *SYMBOLS, "--data-dir", "data"])

    def streams() -> bool:
        status = read_status(tmp_path / "data", "collect-binance")
        return status is not None and {book.state for book in status.books} == {"synced"}

    script = f"{collect} & read line; fg %1"
    with terminal(
        ["bash", "-m", "-c", script], size=SMALL, folder=tmp_path, environment=urls(exchange)
    ) as shown:
        shown.until(streams)
        behind = shown.raw
        shown.type("\n")
        shown.until(lambda: all_synced(shown, 2))
        shown.type(CTRL_C)
        shown.ended()

    assert b"ConnectionOpened" in behind, "lines are written"
    assert not MOVES.search(behind)
    assert b"symbol" not in behind
    assert "Stopped. The data is in" in shown.everything


@pytest.fixture(scope="module")
def worked(exchange: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job that is done, one that waits, and what was recorded."""
    folder = tmp_path_factory.mktemp("worked")
    backfill = ("jobs", "add", "binance", "ohlcv_backfill", "btc_usdt")
    for words in (
        (*backfill, "1h", "--since", "2026-01-01", "--until", "2026-01-03"),
        ("work", "--seconds", "3"),
        (*backfill, "1d"),
    ):
        done = run(*words, folder=folder, **urls(exchange))
        assert done.returncode == 0, done.stderr
    return folder


@SIZES
def test_jobs_that_are_done_stay_in_the_list_for_an_hour(
    worked: Path, size: tuple[int, int]
) -> None:
    with terminal([*PENSTOCK, "jobs", "list"], size=size, folder=worked) as shown:
        assert shown.ended() == 0

    lines = [line for line in shown.lines if line]
    told = [line.split() for line in lines if line.split()[0].startswith("01")]
    assert [(len(line[0]), *line[1:5]) for line in told] == [
        (24, "success", "binance", "BTC/USDT", "1h"),
        (24, "idle", "binance", "BTC/USDT", "1d"),
    ]
    assert "48 rows" in shown.text
    assert "next run" in shown.text
    assert ("progress" in lines[0]) == (size == LARGE), "a second line where one is too short"


@SIZES
def test_status_counts_what_workers_recorded(worked: Path, size: tuple[int, int]) -> None:
    with terminal([*PENSTOCK, "status"], size=size, folder=worked) as shown:
        assert shown.ended() == 0

    process = next(line.split() for line in shown.lines if line.startswith("work-0"))
    assert process[:2] == ["work-0", "stopped"]
    assert "jobs running" in shown.text
    assert any(line.startswith("work-0  48 records of 1 streams") for line in shown.lines)
    (row,) = (line.split() for line in shown.lines if "btc_usdt" in line)
    assert row[:4] == ["binance", "btc_usdt", "candles_1h", "48"]


def test_so_does_status_for_machines(worked: Path) -> None:
    (facts,) = map(json.loads, run("status", "--json", folder=worked).stdout.splitlines())

    assert facts["slot"] == "work-0"
    assert {each["stream"]: each["records"] for each in facts["streams"]} == {
        "binance.candles_1h.btc_usdt": 48
    }
