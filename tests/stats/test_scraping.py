"""Scraping: the metrics of all processes by their sockets; a dead or slow one harms nobody."""

import asyncio
import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.runtime.status import ProcessStatus, SeenProcess, this_machine
from penstock.stats.fleet import named
from penstock.stats.merging import merge
from penstock.stats.scraping import FleetScraper, processes_text
from penstock.stats.sockets import read_from, served_on, socket_file

HOST, _ = this_machine()
TEXT = b"# HELP x X.\n# TYPE x gauge\nx 1.0\n"


def seen(name: str, folder: Path, pid: int, **fields: object) -> SeenProcess:
    silent_ms = fields.pop("silent_ms", 0)
    assert isinstance(silent_ms, int)
    status = ProcessStatus(
        kind=name.partition("-")[0], name=name, host=HOST, pid=pid, folder=str(folder),
        started_ms=1000, at_ms=2000, state="running",
    )  # fmt: skip
    return SeenProcess(f"{name}/{pid}", replace(status, **fields), silent_ms)


def reads(file: Path) -> bytes:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with suppress(OSError):
            return asyncio.run(read_from(file, PATIENCE_S))
    raise AssertionError("it is not served")


def test_a_text_is_served_as_it_is_now_until_the_end(tmp_path: Path) -> None:
    file = socket_file(tmp_path / "data", "a/host", 7)
    texts = iter((b"1\n", b"2\n", b"3\n"))
    with served_on(file, lambda: next(texts)):
        (tmp_path / "data" / "log").mkdir(parents=True)  # a process may still have to create it
        assert [reads(file), reads(file)] == [b"1\n", b"2\n"]
        assert file.stat().st_mode & 0o007 == 0, "others may not read it"

    assert not file.exists()


def test_the_data_folder_is_not_created_for_it(tmp_path: Path) -> None:
    with served_on(socket_file(tmp_path / "typo", HOST, 7), lambda: TEXT):
        pass

    assert not (tmp_path / "typo").exists()


def test_a_path_may_be_longer_than_the_kernel_allows(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    (folder / "log").mkdir(parents=True)
    file = socket_file(folder, "h" * 200, 7)
    with served_on(file, lambda: TEXT):
        assert reads(file) == TEXT


def test_sockets_of_killed_processes_are_removed_and_those_that_listen_stay(
    tmp_path: Path,
) -> None:
    dead, alive, own = (socket_file(tmp_path, HOST, pid) for pid in (1, 2, 3))
    dead.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(os.path.relpath(dead))
    with served_on(alive, lambda: TEXT):
        reads(alive)
        with served_on(own, lambda: TEXT):
            reads(own)
            assert sorted(dead.parent.iterdir()) == [alive, own]


def test_a_client_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    file = socket_file(tmp_path, HOST, 7)
    (tmp_path / "log").mkdir()
    with served_on(file, lambda: b"x" * 10_000_000 + b"\n"):
        reads(file)
        with socket.socket(socket.AF_UNIX) as idle:
            idle.connect(os.path.relpath(file))
            assert len(reads(file)) == 10_000_001


def test_a_scrape_has_what_answers_and_says_what_does_not(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with ExitStack() as stack:
        for pid in (11, 12):
            file = socket_file(tmp_path, HOST, pid)
            stack.enter_context(served_on(file, lambda: TEXT))
            reads(file)
        # A process that hangs: the kernel accepts the connection, and nothing comes.
        hung = stack.enter_context(socket.socket(socket.AF_UNIX))
        hung.bind(os.path.relpath(socket_file(tmp_path, HOST, 13)))
        hung.listen()
        fleet = [
            seen("collect-a", tmp_path, 11),
            seen("collect-a", tmp_path, 11, kind="fetch"),
            seen("work-0", tmp_path, 12, last_data_ms=3000, problems=["x", "y"]),
            seen("keep", tmp_path, 13),
            seen("bus", tmp_path, 14, silent_ms=60_000),
            seen("tickers", tmp_path, 15, state="failed"),
            seen("fetch-a", tmp_path, 16, state="stopped"),
            seen("serve-1", tmp_path, os.getpid()),
            seen("ingest-9", tmp_path, 17, host="elsewhere"),
        ]
        scraper = FleetScraper(tmp_path, timeout_s=0.2)
        begun = time.monotonic()
        scraped = asyncio.run(scraper.scrape(fleet))
        assert time.monotonic() - begun < PATIENCE_S / 4

    merged = merge(scraped.texts).decode()
    assert merged.count("# TYPE x gauge") == 1
    assert merged.count("x{process=") == 2
    assert 'x{process="work-0"} 1.0' in merged
    assert scraped.own == "serve-1"
    text = processes_text(scraped).decode()
    ups = {
        line.split('"')[1]: line[-3:] == "1.0"
        for line in text.splitlines()
        if line.startswith("penstock_process_up{")
    }
    down = {name for name, up in ups.items() if not up}
    assert down == {"bus", "tickers"}
    assert len(ups) == 8
    assert 'process_scraped{kind="ingest",process="ingest-9"}' not in text, "it is out of reach"
    assert 'penstock_process_scraped{kind="keep",process="keep"} 0.0' in text
    assert 'penstock_process_scraped{kind="serve",process="serve-1"} 1.0' in text
    assert 'penstock_process_problems{kind="work",process="work-0"} 2.0' in text
    assert 'last_data_timestamp_seconds{kind="work",process="work-0"} 3.0' in text

    remembered = asyncio.run(scraper.scrape(None))
    assert set(remembered.processes) == set(scraped.processes), "the state store is away"


def test_names_are_unique_and_short_and_a_new_container_takes_the_place_of_the_old(
    tmp_path: Path,
) -> None:
    replaced = seen("keep", tmp_path, 1, host="old", silent_ms=60_000)
    both = [
        seen("work-0", tmp_path, 2), seen("work-0", tmp_path, 2, host="other"),
        seen("bus", tmp_path, 3), seen("bus", tmp_path / "b", 4),
        seen("bus", tmp_path / "b", 5),
    ]  # fmt: skip

    found = named([replaced, seen("keep", tmp_path, 1, host="new"), *both])

    assert found["keep"].status.host == "new"
    assert {f"work-0@{HOST}", "work-0@other", f"bus@{HOST}:{tmp_path}"} < set(found)
    assert len(found) == 6
    assert set(named([replaced])) == {"keep"}, "nobody has taken its place"
