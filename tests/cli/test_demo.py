"""``penstock demo`` on several exchanges, which share one folder, and what it shows of them."""

import json
import os
import socket
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli.demo_view import describe_demo, draw_demo, introduction
from penstock.cli.fitting import Viewport
from penstock.collect.status import (
    BookStatus,
    CollectorStatus,
    LimitStatus,
    StreamStatus,
    read_all,
)

from .conftest import run

SMALL = Viewport(80, 23)


def test_a_demo_of_two_exchanges_judges_each_and_adds_up(tmp_path: Path) -> None:
    # The fleet's own store and ports are none of a demo's business.
    elsewhere = {"PENSTOCK_STATE_URL": "sqlite:elsewhere.db", "PENSTOCK_METRICS_PORT": "1"}
    words = ["--exchanges", "kraken,binance", "--seconds", "3", "--data-dir", "data", "--json"]
    done = run("demo", *words, folder=tmp_path, **elsewhere)

    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout.splitlines()[-1])
    each = findings.pop("exchanges")
    assert list(each) == ["kraken", "binance"]
    for name, found in each.items():
        assert found["trades"] > 0, name
        assert found["books_synced"] == 3, name
        assert found["books_checked"] > 3, name
    assert findings == {key: sum(found[key] for found in each.values()) for key in findings}
    for wrong in ("trades_missing", "trades_duplicated", "trades_wrong", "book_mismatches"):
        assert findings[wrong] == 0, wrong
    assert (findings["http_429"], findings["http_418"]) == (0, 0)
    slots = [status.slot for status in read_all(tmp_path / "data")]
    assert slots == ["collect-binance", "collect-kraken"]
    assert (tmp_path / "data" / "state.db").exists()
    assert not (tmp_path / "elsewhere.db").exists()

    told = run("status", "--json", folder=tmp_path, PENSTOCK_COLLECT_DATA_DIR="data")
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    processes = [line.get("process") or line["status"] for line in lines]
    assert {each["state"] for each in processes} == {"stopped"}
    names = [each.get("name") or each["slot"] for each in processes]
    assert sorted(name.rstrip("0123456789") for name in names) == [
        "collect-binance", "collect-kraken", "serve-", "sim-binance-", "sim-kraken-", "work-",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--exchanges", "binance,krakne"],
            "Exchange 'krakne' is not supported. Did you mean krak",
        ),
        (["--exchanges", "nowhere"], "Supported: binance "),
        (["--exchanges", " ,"], "--exchanges (from command line): no exchange is given. Available"),
        (["--exchanges", "kraken", "--symbols", "bct_usd"], "Did you mean btc_usd"),
        (["--exchanges", "binance,kraken", "--symbols", "btc_usd"], "does not list 'btc_usd'"),
        (["--faults", "dorp=0.1"], "Did you mean drop"),
    ],
)
def test_bad_input_is_answered_in_one_line_before_anything_starts(
    tmp_path: Path, words: list[str], says: str
) -> None:
    done = run("demo", *words, "--data-dir", "data", folder=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("full", [[], ["--full"]])
def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path, full: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("demo", "--port", str(port), *full, "--data-dir", "data", folder=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"127.0.0.1:{port} is already in use by" in line
    assert f"(pid {os.getpid()})" in line
    assert "choose another port with --port" in line
    assert not (tmp_path / "data").exists()


def status(exchange: str, symbols: list[str], trouble: str = "") -> CollectorStatus:
    def stream(channel: str, symbol: str) -> StreamStatus:
        return StreamStatus(
            channel=channel, symbol=symbol, records=1234, per_second=1.5, last_price="7.50"
        )

    return CollectorStatus(
        exchange=exchange, slot=f"collect-{exchange}", pid=1, started_ms=0, at_ms=0,
        state="running", connection="connected", trouble=trouble,
        limits=[LimitStatus(
            unit="weight", kind="window", used=4, amount=6000, rate=6000, period_ms=60_000
        )],
        streams=[stream(each, symbol) for symbol in symbols for each in ("trades", "tickers")],
        books=[
            BookStatus(
                symbol=symbol, state="synced", reason="", update_id=1, resyncs=0, bid="7", ask="8"
            )
            for symbol in symbols
        ],
    )  # fmt: skip


def drawn(statuses: dict[str, CollectorStatus | None], viewport: Viewport = SMALL) -> list[str]:
    console = Console(width=viewport.width)
    words = introduction(list(statuses), 30)
    with console.capture() as capture:
        console.print(draw_demo(statuses, words, "Recording, 12 s left.", viewport))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert len(lines) <= (viewport.height or 0)
    return lines


def test_four_exchanges_of_three_markets_fit_a_screen() -> None:
    names = ("one", "two", "three", "four")
    lines = drawn({name: status(name, ["btc_usd", "eth_usd", "sol_usd"]) for name in names})

    for name in names:
        title = f"{name}  running  3 of 3 books synced  weight 4 of 6,000 per minute"
        assert title in lines
    (row, *others) = (line.split() for line in lines if "eth_usd" in line)
    assert row[:4] == ["eth_usd", "synced", "1,234", "3"]
    assert len(others) == 3


def test_what_one_exchange_does_not_need_of_the_screen_is_anothers() -> None:
    many = [f"m{number:02}_usd" for number in range(40)]
    lines = drawn({"one": status("one", ["btc_usd"]), "two": status("two", many)})

    shown = sum(line.startswith("m") for line in lines)
    assert len(lines) == SMALL.height
    assert lines[-1] == f"… and {40 - shown} more, all fine"


def test_the_first_lines_say_what_is_shown_and_for_how_long_still() -> None:
    lines = drawn({"one": None, "two": None})

    assert " ".join(" ".join(lines[:2]).split()) == (
        "Demo: penstock records simulated exchanges (one and two) on this machine for 30 s,"
        " then checks every record against what they sent."
    )
    assert lines[2:] == ["Recording, 12 s left.", "one  starting …", "two  starting …"]


def test_an_exchange_that_is_in_trouble_says_so() -> None:
    statuses = {"one": None, "two": status("two", ["btc_usd"], trouble="no answer")}

    assert "! trouble: no answer" in drawn(statuses)
    assert describe_demo(statuses).splitlines() == [
        "one: starting",
        "collect-two: running: no answer",
    ]


def test_one_exchange_alone_is_shown_in_full() -> None:
    assert any("collect-one" in line for line in drawn({"one": status("one", ["btc_usd"])}))
