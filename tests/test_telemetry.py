"""Telemetry: facts reach everybody who listens, as data; a process logs in one format."""

import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from penstock.coverage.facts import GapFound
from penstock.exchanges.facts import RequestSent
from penstock.jobs.facts import JobFailed, StoreAnswers, StoreSilent
from penstock.simulator.engine.facts import FaultInjected
from penstock.telemetry import Fact, Level, configure_logging, fan_out, log_facts, quiet

GAP = GapFound(exchange="binance", channel="trades", symbol="btc_usdt", first=3, last=5)
FAULT = FaultInjected(exchange="binance", kind="drop", where="btcusdt@trade")
SENT = RequestSent(exchange="binance", path="/", cost=1, status=200, took_ms=1)
REFUSED = RequestSent(exchange="binance", path="/", cost=1, status=429, took_ms=1)
FAILED = JobFailed(job="1", kind="x", exchange="binance", reason="no", given_up=False)
GIVEN_UP = JobFailed(job="1", kind="x", exchange="binance", reason="no", given_up=True)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, own, hook = logging.getLogger(), logging.getLogger("penstock"), sys.excepthook
    before = (root.handlers[:], root.level, own.level)
    yield
    root.handlers[:], root.level, own.level = before
    logging.captureWarnings(False)
    sys.excepthook = hook


def test_a_listener_that_raises_does_not_silence_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard: list[Fact] = []

    def broken(_: Fact) -> None:
        raise RuntimeError("out of order")

    configure_logging("json")
    fan_out([broken, quiet, heard.append])(GAP)

    assert heard == [GAP]
    assert "out of order" in capsys.readouterr().err


def test_a_fact_becomes_one_structured_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    log_facts(GAP)

    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "GapFound"
    assert (line["first"], line["symbol"], line["level"]) == (3, "btc_usdt", "warning")
    assert "ts" in line


def test_on_a_terminal_the_line_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("human")
    log_facts(GAP)

    assert "GapFound" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fact", "level"),
    [
        (SENT, "debug"),
        (REFUSED, "warning"),
        (StoreAnswers(), "info"),
        (GAP, "warning"),
        (FAILED, "warning"),
        (GIVEN_UP, "error"),
        (StoreSilent(reason="no answer"), "error"),
    ],
)
def test_a_fact_has_a_level(fact: Fact, level: str) -> None:
    assert fact.logged_at() == level


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["FaultInjected", "StoreAnswers", "GapFound", "JobFailed"]),
        ("info", ["StoreAnswers", "GapFound", "JobFailed"]),
        ("warning", ["GapFound", "JobFailed"]),
        ("error", ["JobFailed"]),
    ],
)
def test_nothing_below_the_level_that_is_set_is_written(
    capsys: pytest.CaptureFixture[str], level: Level, written: list[str]
) -> None:
    configure_logging("json", level)
    for fact in (FAULT, StoreAnswers(), GAP, GIVEN_UP):
        log_facts(fact)

    lines = map(json.loads, capsys.readouterr().err.splitlines())
    assert [line["event"] for line in lines] == written


def test_libraries_and_warnings_are_logged_in_the_same_format(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("json")
    logging.getLogger("aiohttp.client").error("lost %s", "it")
    logging.getLogger("aiohttp.access").info("GET /")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("ccxt").exception("failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    lost, failed, warned = map(json.loads, capsys.readouterr().err.splitlines())
    assert (lost["event"], lost["level"], lost["logger"]) == ("lost it", "error", "aiohttp.client")
    assert "ValueError: bad" in failed["exception"]
    assert (warned["level"], warned["logger"]) == ("warning", "py.warnings")
    assert "old" in warned["event"]


def test_a_crash_is_one_line_of_the_log() -> None:
    script = (
        "import threading; from penstock.telemetry import configure_logging\n"
        "configure_logging('json')\n"
        "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()\n"
        "raise RuntimeError('nobody foresaw')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    thread, main = map(json.loads, done.stderr.splitlines())
    assert "ZeroDivisionError" in thread["exception"]
    assert (main["event"], main["level"]) == ("crashed", "critical")
    assert "nobody foresaw" in main["exception"]
