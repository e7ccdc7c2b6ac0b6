"""Following log files: every line once, whatever happens to the files meanwhile."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.monitor.log_follower import LogFollower
from penstock.monitor.process_logs import LogFilter, LogQuery
from penstock.telemetry.rotated_file import OLD

from .lines import line, write


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["line", "half", "rotate", "read"])),
        max_size=60,
    )
)
def test_every_line_is_read_once_though_files_are_rotated(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as name:
        folder, written = Path(name), list[str]()
        write(folder, "a.jsonl", line(0, "before"))
        follower = LogFollower(folder, LogFilter(LogQuery()))
        found, halves, rotated = list[str](), dict[str, bytes](), set[str]()
        for number, (process, what) in enumerate(steps):
            path = folder / "logs" / f"{process}.jsonl"
            if what == "rotate" and path.exists() and process not in rotated:
                if process not in halves:
                    path.replace(path.with_name(path.name + OLD))
                    rotated.add(process)  # a second time would remove what was not read
            elif what == "read":
                found += [each.event for each in follower.new_lines()]
                rotated.clear()
            elif what == "line" or process in halves:
                write(folder, path.name, halves.pop(process, b""), line(number + 1, f"{number}"))
                written.append(f"{number}")
            else:
                whole = line(number + 1, f"h{number}")
                write(folder, path.name, whole[:45])
                halves[process] = whole[45:]
                written.append(f"h{number}")
        for process, rest in halves.items():
            write(folder, f"{process}.jsonl", rest)
        found += [each.event for each in follower.new_lines()]

    assert sorted(found) == sorted(written)


def test_lines_of_all_processes_are_in_the_order_of_their_times(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path, LogFilter(LogQuery(level="warning")))
    assert follower.new_lines() == []
    write(tmp_path, "a.jsonl", line(3_000, "3", "error"), line(4_000, "4"))
    write(tmp_path, "b.jsonl", line(1_000, "1", "warning"), line(5_000, "5", "warning"))

    assert [each.event for each in follower.new_lines()] == ["1", "3", "5"]


def test_more_than_is_read_at_once_comes_with_the_next_calls(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path, LogFilter(LogQuery()))
    write(tmp_path, "a.jsonl", *(line(n, f"{n}", pad="x" * 1_000) for n in range(2_500)))
    write(tmp_path, "b.jsonl", b"y" * 2_500_000, b"\n", line(1, "b"))

    found = [each.event for _ in range(4) for each in follower.new_lines()]
    assert sorted(found) == sorted([*map(str, range(2_500)), "b"])
