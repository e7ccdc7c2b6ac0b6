"""Lines of supervised processes: tagged, in one format, bounded, and never a reason to wait."""

import json
import os
import threading
from collections.abc import Iterator
from select import select

import pytest

from penstock.supervisor.output import Output, OwnLines, TaggedLines


class Pipe:
    """An output into a pipe, and what was read from it."""

    def __init__(self, pending: int = 1 << 20) -> None:
        self._read, self._write = os.pipe()
        self.output = Output(self._write, pending)

    def lines(self, *, as_json: bool = True) -> TaggedLines:
        return TaggedLines("collect:sim", self.output, as_json=as_json)

    def close(self) -> list[str]:
        found: list[bytes] = []

        def read() -> None:
            while data := os.read(self._read, 1 << 16):
                found.append(data)

        reading = threading.Thread(target=read)
        reading.start()
        self.output.close(60)
        os.close(self._write)
        reading.join()
        os.close(self._read)
        return b"".join(found).decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    return Pipe()  # type: ignore[return-value]


def test_a_json_line_gets_a_field_and_other_lines_become_json(pipe: Pipe) -> None:
    lines = pipe.lines()
    lines.feed(b'{"event":"Gap","level":"warning"}\nTraceback "x" \xff\n\n{}\n')

    assert [json.loads(line) for line in pipe.close()] == [
        {"process": "collect:sim", "event": "Gap", "level": "warning"},
        {"process": "collect:sim", "level": "info", "event": "output", "text": 'Traceback "x" �'},
        {"process": "collect:sim", "level": "info", "event": "output", "text": "{}"},
    ]


def test_a_human_line_gets_a_prefix_and_cannot_control_the_terminal(pipe: Pipe) -> None:
    lines = pipe.lines(as_json=False)
    lines.feed(b"one\ntwo \x1b[2J\n")

    assert pipe.close() == ["collect:sim | one", "collect:sim | two \\x1b[2J"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_come_whole_however_they_are_read(pipe: Pipe, size: int) -> None:
    data = b"".join(b'{"n":%d}\n' % number for number in range(100)) + b"the end"
    lines = pipe.lines()
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    lines.end()

    found = [json.loads(line) for line in pipe.close()]
    assert [line["n"] for line in found[:-1]] == list(range(100))
    assert found[-1]["text"] == "the end"


def test_a_line_without_end_is_cut_and_held_only_once(pipe: Pipe) -> None:
    lines = pipe.lines()
    for _ in range(100):
        lines.feed(b"x" * 10_000)
    lines.feed(b"\nnext\n")

    found = [json.loads(line)["text"] for line in pipe.close()]
    assert len(found[0]) < 50_000
    assert found[1:] == ["next"]


def test_a_flood_that_nobody_reads_is_dropped_and_counted_and_harms_no_other() -> None:
    pipe = Pipe(pending=10_000)
    flood, other = pipe.lines(), TaggedLines("work:0", pipe.output, as_json=True)
    for number in range(100_000):
        flood.feed(b'{"n":%d}\n' % number)
    other.feed(b'{"n":-1}\n')

    found = [json.loads(line) for line in pipe.close()]
    kept = [line for line in found if line["process"] == "collect:sim"]
    assert len(kept) + flood.dropped == 100_000
    assert flood.dropped > 90_000
    assert other.dropped == 0
    assert {"process": "work:0", "n": -1} in found


def test_the_supervisors_own_lines_do_not_wait_either() -> None:
    pipe = Pipe(pending=1000)
    own = OwnLines(pipe.output, original=None)  # type: ignore[arg-type]
    for _ in range(100_000):
        own.write("own line\n")

    assert pipe.close()[0] == "own line"


def test_a_terminal_that_another_program_made_non_blocking_gets_all_lines() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    output = Output(write)
    lines = [b"%06d" % number + b"x" * 1000 + b"\n" for number in range(200)]
    assert all(output.put("a", line) for line in lines)
    found = b""
    while len(found) < sum(map(len, lines)) and select((read,), (), (), 5)[0]:
        found += os.read(read, 65536)
    output.close()
    os.close(read)
    os.close(write)

    assert found == b"".join(lines)


def test_nobody_who_reads_is_no_error() -> None:
    pipe = Pipe()
    os.close(pipe._read)
    lines = pipe.lines()
    lines.feed(b"one\n" * 1000)
    pipe.output.close(10)
    os.close(pipe._write)


def test_the_error_by_which_a_command_ends_is_remembered(pipe: Pipe) -> None:
    lines = pipe.lines()
    lines.feed(b'{"error":"No bus","event":"stopped","level":"error"}\n{"event":"x"}\n')
    assert lines.error == "No bus"
    lines.feed(b"penstock: 127.0.0.1:80 is in use\n")
    assert lines.error == "127.0.0.1:80 is in use"
    pipe.close()
