"""Log lines of many processes: merged by time, in pages, from the ends of large files."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StorageError
from penstock.monitor import log_tails
from penstock.monitor.process_logs import LogLine, LogQuery, read_logs

from .lines import START, line, write


def events(folder: Path, **query: object) -> list[str]:
    return [each.event for each in read_logs(folder, LogQuery(**query)).items]  # type: ignore[arg-type]


def all_pages(folder: Path, limit: int, **query: object) -> list[LogLine]:
    found, after = list[LogLine](), None
    while True:
        page = read_logs(folder, LogQuery(limit=limit, after=after, **query))  # type: ignore[arg-type]
        found += page.items
        assert len(page.items) <= limit
        if page.next is None:
            return found
        after = page.next


def test_a_folder_without_logs_has_no_lines(tmp_path: Path) -> None:
    assert read_logs(tmp_path, LogQuery()).items == []


def test_a_line_has_its_time_level_process_event_and_fields(tmp_path: Path) -> None:
    write(tmp_path, "collect-ccxt%3Akraken.jsonl", line(1_234_567, "A", "critical", n=1, why="<b>"))

    [found] = read_logs(tmp_path, LogQuery()).items
    assert found == LogLine(
        at_ms=round(START.timestamp() * 1000) + 1234,
        level="error",
        process="collect-ccxt:kraken",
        event="A",
        fields={"n": 1, "why": "<b>"},
    )


def test_lines_are_filtered_by_level_process_and_text(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1, "One"), line(3, "Three", "error", reason='Say "no"\x1b'))
    write(tmp_path, "b.jsonl", line(2, "Two", "warning"), line(4, "Four", "debug"))

    assert events(tmp_path) == ["Four", "Three", "Two", "One"]
    assert events(tmp_path, level="warning") == ["Three", "Two"]
    assert events(tmp_path, process="a") == ["Three", "One"]
    assert events(tmp_path, process="../logs/a") == []
    assert events(tmp_path, text="tWo") == ["Two"]
    assert events(tmp_path, text='say "NO"\x1b') == ["Three"]
    assert events(tmp_path, text="one", process="b") == []


def test_what_is_not_a_complete_line_of_ours_is_left_out(tmp_path: Path) -> None:
    good = line(5, "Good")
    write(
        tmp_path, "a.jsonl", line(1, "Old"), b"\n", b"Traceback:\n", line(2)[:20] + b"\n",
        b"\0" * 99 + b"\n", b'{"ts":"2026-99-99T99:99:99Z","level":"info","event":"x"}\n',
        b'{"ts":"2026-01-01T10:10:10Z","level":"info","event":"x\n', b"\xff\xfe\n",
        b'{"ts":"2026-01-01T10:10:10Z","level":"mad","event":"x"}\n', good, line(6, "Torn")[:-4],
    )  # fmt: skip

    assert events(tmp_path) == ["Good", "Old"]


def test_a_line_that_never_ends_takes_no_memory_and_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1, "Before"), b"x" * 5_000_000, b"\n", line(2, "After"))

    assert events(tmp_path) == ["After", "Before"]


def test_lines_of_a_clock_that_was_set_back_keep_their_order(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(10, "1"), line(20, "2"), line(5, "3"), line(6, "4"))
    write(tmp_path, "b.jsonl", line(1, "b"))

    assert events(tmp_path) == ["4", "3", "2", "1", "b"]


@pytest.mark.parametrize("bad", ["x", "2026-01-17T10:30:00 1", "2026-01-17T10:30:00 -1 a", "\0"])
def test_a_position_that_is_none_is_rejected(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ValueError, match="next"):
        read_logs(tmp_path, LogQuery(after=bad))


lines_of = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines_of, max_size=4), st.integers(1, 50), st.data())
def test_pages_have_every_line_once_in_order_though_files_are_rotated_and_grow(
    processes: list[list[tuple[int, int]]], limit: int, data: st.DataObject
) -> None:
    block = log_tails._BLOCK
    log_tails._BLOCK = data.draw(st.integers(100, 400))
    try:
        with TemporaryDirectory() as name:
            folder, expected = Path(name), []
            for number, steps in enumerate(processes):
                at_us, lines = 0, []
                for count, (pause_us, padding) in enumerate(steps):
                    at_us += pause_us
                    lines.append(line(at_us, f"{number}.{count}", pad="x" * padding))
                    expected.append((at_us, number, count))
                cut = data.draw(st.integers(0, len(lines)))
                write(folder, f"p{number}.jsonl.1", *lines[:cut])
                write(folder, f"p{number}.jsonl", *lines[cut:])
            page = read_logs(folder, LogQuery(limit=limit))
            found = page.items
            for number in range(len(processes)):
                write(folder, f"p{number}.jsonl", line(10**6, "late"))
                if data.draw(st.booleans()):
                    path = folder / "logs" / f"p{number}.jsonl"
                    kept = path.with_name(path.name + ".1").read_bytes()
                    path.write_bytes(kept + path.read_bytes())
                    path.replace(path.with_name(path.name + ".1"))
            while page.next is not None:
                page = read_logs(folder, LogQuery(limit=limit, after=page.next))
                found += page.items
    finally:
        log_tails._BLOCK = block

    assert [each.event for each in found] == [
        f"{number}.{count}" for _, number, count in sorted(expected, reverse=True)
    ]


def test_a_page_continues_where_too_much_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.monitor.process_logs.MOST_SCANNED", 100_000)
    write(tmp_path, "a.jsonl", line(0, "needle"), *(line(n, pad="x" * 300) for n in range(2_000)))

    first = read_logs(tmp_path, LogQuery(text="needle"))
    assert first.items == []
    assert first.next is not None
    assert [each.event for each in all_pages(tmp_path, 10, text="needle")] == ["needle"]


def test_a_hundred_megabytes_are_read_from_their_ends(tmp_path: Path) -> None:
    chunk = b"".join(line(n, f"{n}", pad="x" * 100) for n in range(10_000))
    for number in range(10):
        path = write(tmp_path, f"p{number}.jsonl", *([chunk] * (10_000_000 // len(chunk))))
        write(tmp_path, path.name, line(20_000, "last"))
    script = (
        "import resource, sys; from pathlib import Path;"
        "from penstock.monitor.process_logs import *;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "page = read_logs(Path(sys.argv[1]), LogQuery());"
        "page = read_logs(Path(sys.argv[1]), LogQuery(after=page.next));"
        "assert len(page.items) == 200;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    began_s = time.process_time()
    page = read_logs(tmp_path, LogQuery())
    took_s = time.process_time() - began_s
    grown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True, text=True
    )

    assert [each.event for each in page.items[:11]] == ["last"] * 10 + ["9999"]
    assert took_s < 0.25
    assert int(grown.stdout) < 20_000, "kB"


def test_what_a_line_holds_is_json_again(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1, "<img src=x onerror=alert(1)>", why="\x1b[31m\u202e"))

    [found] = msgspec.json.decode(msgspec.json.encode(read_logs(tmp_path, LogQuery())))["items"]
    assert found["event"] == "<img src=x onerror=alert(1)>"
    assert found["fields"]["why"] == "\x1b[31m\u202e"


def test_files_are_closed(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", line(1))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        read_logs(tmp_path, LogQuery(limit=1))

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.jsonl", line(1))

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("penstock.monitor.log_tails.os.open", refuse)
    with pytest.raises(StorageError, match=r"logs/a\.jsonl: Permission denied"):
        read_logs(tmp_path, LogQuery())
