"""The log file of a process: bounded, masked, never in the way of the process."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.monitor.lines import write

from penstock.clock import SystemClock
from penstock.config import Settings, load
from penstock.errors import StorageError, hide
from penstock.errors.masking import _Hidden
from penstock.runtime.facts import LogsNotKept
from penstock.runtime.process import Process
from penstock.telemetry import Fact, configure_logging, hidden_from_stderr, log_facts, log_info
from penstock.telemetry.log_file import LogFile, logs_kept
from penstock.telemetry.rotated_file import RotatedFile

NAME = "work-0"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, own, hook = logging.getLogger(), logging.getLogger("penstock"), sys.excepthook
    before = (root.handlers[:], root.level, own.level)
    hidden = _Hidden.texts, _Hidden.pattern
    yield
    root.handlers[:], root.level, own.level = before
    _Hidden.texts, _Hidden.pattern = hidden
    logging.captureWarnings(False)
    sys.excepthook = hook


def lines(folder: Path, name: str = NAME) -> list[dict[str, object]]:
    path = folder / "logs" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_lines_are_kept_in_the_format_of_stderr_with_time_level_and_event_first(
    tmp_path: Path,
) -> None:
    configure_logging("human")
    with logs_kept(LogFile(tmp_path, lambda: NAME, 10**6), "info"):
        log_info("running", now="x\x1b[31m")
        logging.getLogger("aiohttp").warning("lost %s", "it")
    log_info("after")

    ours, theirs = lines(tmp_path)
    assert list(ours) == ["ts", "level", "event", "now"]
    assert (ours["level"], ours["event"], ours["now"]) == ("info", "running", "x\x1b[31m")
    assert (theirs["event"], theirs["logger"]) == ("lost it", "aiohttp")
    assert "\x1b" not in (tmp_path / "logs" / f"{NAME}.jsonl").read_text()


def test_levels_of_file_and_stderr_are_independent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("json", "error")
    with logs_kept(LogFile(tmp_path, lambda: NAME, 10**6), "info"):
        log_info("kept")
        logging.getLogger("library").info("not kept")
        logging.getLogger("library").warning("kept too")
    configure_logging("json", "info")
    with logs_kept(LogFile(tmp_path, lambda: NAME, 10**6), "warning"):
        log_info("shown")

    assert [line["event"] for line in lines(tmp_path)] == ["kept", "kept too"]
    shown = map(json.loads, capsys.readouterr().err.splitlines())
    assert [line["event"] for line in shown] == ["shown"]


def test_what_is_hidden_from_a_terminal_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("json")
    with logs_kept(LogFile(tmp_path, lambda: NAME, 10**6), "info"), hidden_from_stderr(True):
        log_facts(LogsNotKept(process="p", reason="r"))

    assert [line["event"] for line in lines(tmp_path)] == ["LogsNotKept"]
    assert capsys.readouterr().err == ""


def test_lines_wait_until_the_process_has_a_name(tmp_path: Path) -> None:
    configure_logging("json")
    name = ""
    with logs_kept(LogFile(tmp_path, lambda: name, 10**6), "info"):
        log_info("early")
        name = "collect-ccxt:kraken"
        log_info("late")
    with logs_kept(LogFile(tmp_path, lambda: "", 10**6), "info"):
        log_info("of nobody")

    assert [line["event"] for line in lines(tmp_path, "collect-ccxt%3Akraken")] == ["early", "late"]
    assert len(list((tmp_path / "logs").iterdir())) == 1


def test_a_secret_is_masked(tmp_path: Path) -> None:
    secret = "canary7-'q\"p'-secret"
    hide(load(Settings, {"PENSTOCK_API_TOKEN": secret}).secrets())
    configure_logging("json")
    file = LogFile(tmp_path, lambda: NAME, 10**6)
    with logs_kept(file, "info"):
        log_info("asked", token=secret, url="redis://me:hunter2@cache")
        file.note_end(StorageError(f"redis://me:{secret}@cache", "no"))
        try:
            raise ValueError(secret)
        except ValueError as error:
            file.note_end(error)
        log_info(secret * 20_000)

    text = (tmp_path / "logs" / f"{NAME}.jsonl").read_text()
    assert [line["event"] for line in lines(tmp_path)] == [
        "asked", "stopped", "crashed", "LineTooLong",
    ]  # fmt: skip
    assert "_secret_is_masked" in text, "the traceback"
    assert "canary7" not in text
    assert "hunter2" not in text


def test_a_full_disk_is_reported_once_and_what_was_lost_is_counted(tmp_path: Path) -> None:
    configure_logging("json")
    failures: list[str] = []
    path = tmp_path / "logs" / f"{NAME}.jsonl"
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    file = LogFile(tmp_path, lambda: NAME, 10**6, failures.append)

    def lose(event: str, lost: int) -> None:
        log_info(event)
        while file._dropped != lost:
            sleep(0.001)

    with logs_kept(file, "info"):
        lose("lost", 1)
        lose("lost too", 2)
        path.unlink()
        log_info("kept")

    assert len(failures) == 1
    assert "No space left" in failures[0]
    kept, lost = lines(tmp_path)
    assert (kept["event"], lost["event"], lost["count"]) == ("kept", "LinesLost", 2)


def test_a_disk_that_hangs_stops_nobody_and_the_queue_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.telemetry.log_file._CLOSE_S", 0.05)
    configure_logging("json", "error")
    hangs, reached = threading.Event(), threading.Event()

    def append(_: RotatedFile, __: bytes) -> None:
        reached.set()
        hangs.wait(10)

    monkeypatch.setattr(RotatedFile, "append", append)
    file = LogFile(tmp_path, lambda: NAME, 10**6)
    with logs_kept(file, "info"):
        log_info("first")
        assert reached.wait(10)
        for _ in range(600):
            log_info("more", pad="x" * 10_000)
        assert file._waiting <= 4_000_000
        assert file._dropped > 150
    hangs.set()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 60), max_size=60),
    st.integers(20, 400),
    st.sampled_from(["nothing", "torn", "removed"]),
)
def test_both_files_have_the_newest_lines_and_no_more_than_allowed(
    sizes: list[int], most: int, what: str
) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "logs" / "a.jsonl"
        file, written = RotatedFile(path, most), []
        for number, size in enumerate(sizes):
            line = f"{number:03}" + "x" * size
            file.append(line.encode() + b"\n")
            written.append(line)
            if number == len(sizes) // 2:
                if what == "torn":
                    write(Path(name), path.name, b"torn")
                    file.close()
                elif what == "removed":
                    path.unlink()
                    written = []
        file.close()
        old = path.with_name(path.name + ".1")
        texts = [each.read_text() if each.exists() else "" for each in (old, path)]

    found = [each for each in "".join(texts).splitlines() if not each.startswith("torn")]
    if what != "removed":
        assert found == written[len(written) - len(found) :]
    for text in texts:
        assert len(text) <= max(most // 2, 64) + len("torn\n")
    assert not sizes or len("".join(texts)) > min(most // 2, sum(map(len, written))) - 65


async def test_a_process_keeps_its_lines_and_why_it_ended(tmp_path: Path) -> None:
    configure_logging("json")
    settings_ = load(
        Settings,
        {
            "PENSTOCK_COLLECT_DATA_DIR": str(tmp_path),
            "PENSTOCK_STATE_URL": "memory:",
            "PENSTOCK_LIVE_URL": "memory:",
        },
    ).settings

    async def crash() -> None:
        async with Process("work", settings_, SystemClock(), log_facts) as process:
            process.name = NAME
            log_info("working")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await crash()

    events = [line["event"] for line in lines(tmp_path)]
    assert events == ["working", "crashed"]


async def test_a_process_tells_that_its_lines_cannot_be_kept(tmp_path: Path) -> None:
    configure_logging("json")
    (tmp_path / "logs").write_text("in the way")
    facts: list[Fact] = []
    environment = {
        "PENSTOCK_COLLECT_DATA_DIR": str(tmp_path),
        "PENSTOCK_LIVE_URL": "memory:",
    }
    clock = SystemClock()
    async with Process(
        "work", load(Settings, environment).settings, clock, facts.append
    ) as process:
        process.name = NAME
        log_info("working")
        while not facts:
            await clock.sleep(0.01)

    [fact] = facts
    assert isinstance(fact, LogsNotKept)
    assert fact.process == NAME


@pytest.mark.parametrize("configured", [True, False])
async def test_nothing_is_kept_if_it_is_switched_off_or_logging_is_not_ours(
    tmp_path: Path, configured: bool
) -> None:
    environment = {
        "PENSTOCK_COLLECT_DATA_DIR": str(tmp_path),
        "PENSTOCK_LIVE_URL": "memory:",
    }
    if configured:
        configure_logging("json")
        environment["PENSTOCK_LOGS_KEEP_MB"] = "0"
    process = Process("work", load(Settings, environment).settings, SystemClock())
    async with process:
        process.name = NAME
        logging.getLogger("penstock").warning("working")

    assert not (tmp_path / "logs").exists()
