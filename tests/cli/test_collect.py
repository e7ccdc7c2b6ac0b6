"""``penstock collect`` and ``penstock status`` as processes: what they say when things go wrong."""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from tests.waiting import PATIENCE_S

from penstock.cli.symbols_file import read_symbols
from penstock.collect.status import BookStatus, CollectorStatus, read_status, write_status
from penstock.market.market_shard import MarketShard
from penstock.storage.state import open_store

from .conftest import SYMBOLS, invoke, run, started, stopped, urls, wait_until

SLOT = "collect-binance"
COLLECT = ("collect", "binance", *SYMBOLS, "--data-dir")
BTC = "binance.trades.btc_usdt"


def status_in(folder: Path) -> CollectorStatus:
    status = read_status(folder, SLOT)
    assert status is not None
    return status


def trouble_in(folder: Path) -> str:
    status = read_status(folder, SLOT)
    return status.trouble if status is not None else ""


def streams(folder: Path) -> bool:
    """Whether a collector in this folder has its books."""
    status = read_status(folder, SLOT)
    return status is not None and bool(status.books) and status.books[0].state == "synced"


def test_a_running_one_keeps_its_slot_and_can_be_looked_at(tmp_path: Path, exchange: str) -> None:
    data = str(tmp_path)
    with started(
        *COLLECT, data, folder=tmp_path, environment=urls(exchange), forked=False
    ) as process:
        wait_until(lambda: streams(tmp_path), process)
        second = run(*COLLECT, data, folder=tmp_path, **urls(exchange))
        beside = run(
            *(*COLLECT, data, "--slot", "b", "--seconds", "0.5"), folder=tmp_path, **urls(exchange)
        )
        shown = run("status", "--data-dir", data, folder=tmp_path, COLUMNS="80")
        facts = run("status", "--data-dir", data, "--json", folder=tmp_path)
        tail = run(
            *("log", "tail", BTC, "-n", "1", "--follow", "--seconds", "1", "--data-dir", data),
            folder=tmp_path,
        )
        code, _, _ = stopped(process)

    assert second.returncode == 75
    assert f"process {process.pid} (" in second.stderr
    assert "collect binance btc_usdt" in second.stderr
    assert "Traceback" not in second.stderr
    assert "--slot NAME" in second.stderr
    assert beside.returncode == 0, beside.stderr
    assert (tmp_path / "log" / f"{SLOT}-b" / "CURRENT").exists()
    assert (shown.returncode, facts.returncode, code) == (0, 0, 0)
    assert "running" in shown.stdout
    assert "2 of 2 books synced" in shown.stdout
    assert "…" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    found = [json.loads(line)["status"] for line in facts.stdout.splitlines()]
    assert {each["slot"]: each["pid"] == process.pid for each in found} == {
        SLOT: True,
        f"{SLOT}-b": False,
    }
    numbers = [json.loads(line)["number"] for line in tail.stdout.splitlines()]
    assert len(numbers) > 5, "more came while it followed"
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_one_that_was_killed_is_gone_and_one_that_stopped_is_not(
    tmp_path: Path, exchange: str
) -> None:
    data = str(tmp_path)
    with started(*COLLECT, data, folder=tmp_path, environment=urls(exchange)) as process:
        wait_until(lambda: streams(tmp_path), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    gone = run("status", "--data-dir", data, folder=tmp_path)
    gone_facts = run("status", "--data-dir", data, "--json", folder=tmp_path)

    with started(*COLLECT, data, folder=tmp_path, environment=urls(exchange)) as process:
        wait_until(lambda: status_in(tmp_path).pid == process.pid and streams(tmp_path), process)
        code, _, errors = stopped(process)
    after = run("status", "--data-dir", data, folder=tmp_path)

    assert (gone.returncode, gone_facts.returncode) == (1, 1)
    assert "gone: its process ended without stopping" in gone.stdout
    assert json.loads(gone_facts.stdout)["gone"] is True
    assert (code, after.returncode) == (0, 0), errors
    assert "stopped" in after.stdout
    holes = {ids.symbol: ids.missing for ids in status_in(tmp_path).ids}
    assert [len(missing) for missing in holes.values()] == [1, 1], "it missed what came meanwhile"


def test_an_exchange_that_cannot_be_reached_is_tried_until_told_to_stop(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    address = f"http://127.0.0.1:{unused_tcp_port}"
    environment = {**urls(address), "PENSTOCK_REQUESTS_ATTEMPTS": "1"}
    with started(*COLLECT, str(tmp_path), folder=tmp_path, environment=environment) as process:
        assert process.stderr is not None
        lines: list[str] = []
        while sum("ExchangeSilent" in line for line in lines) < 2:
            lines.append(process.stderr.readline())
            assert lines[-1], "it ended by itself"
        during = status_in(tmp_path)
        code, _, errors = stopped(process)

    assert during.state == "starting"
    assert str(unused_tcp_port) in during.trouble
    assert code == 0
    assert "Traceback" not in "".join(lines) + errors
    assert status_in(tmp_path).state == "stopped"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["binance", "btc_usd"], "binance does not list 'btc_usd'. Did you mean btc_usdt"),
        (
            ["binance", "btc_usdt", "--channels", "trods"],
            "penstock has no channel 'trods'. Did you mean trades?",
        ),
        (
            ["binanse", "btc_usdt"],
            "Exchange 'binanse' is not supported. Did you mean binance",
        ),
        (["binance", "btc_usdt", "--slot", "../b"], "'../b' is not a name: use letters, digits"),
    ],
)
def test_a_name_nobody_knows_is_answered_in_one_line(
    tmp_path: Path, exchange: str, words: list[str], says: str
) -> None:
    done = run("collect", *words, folder=tmp_path, **urls(exchange))

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_status_of_nothing_says_how_to_begin(tmp_path: Path) -> None:
    done = run("status", "--data-dir", ".", folder=tmp_path)

    assert done.returncode == 0
    assert "Begin with: penstock collect" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_status_of_a_folder_that_is_not_there_says_so_and_which_one_may_be_meant(
    tmp_path: Path,
) -> None:
    alone = run("status", folder=tmp_path)
    write_status(tmp_path / "market-data", ended("stopped"))
    near = run("status", "--data-dir", "makret-data", "--json", folder=tmp_path)

    assert (alone.returncode, near.returncode) == (1, 1)
    assert alone.stderr == (
        "penstock: There is no folder penstock-data."
        " Name the folder with --data-dir, or begin with: penstock collect\n"
    )
    assert "Data is in: market-data." in near.stderr
    assert near.stdout == alone.stdout == ""
    assert not (tmp_path / "penstock-data").exists()


def ended(state: Literal["stopped", "failed"], trouble: str = "") -> CollectorStatus:
    """A status of a process that is gone; its book is as the last penstock wrote it."""
    book = BookStatus(symbol="btc_usdt", state="synced", reason="", update_id=1, resyncs=0)
    return CollectorStatus(
        exchange="binance", slot=SLOT, pid=1, started_ms=0, at_ms=0, state=state, books=[book],
        trouble=trouble,
    )  # fmt: skip


def test_status_of_one_that_failed_says_why_and_exits_1(tmp_path: Path) -> None:
    write_status(tmp_path, ended("failed", "the disk is full"))
    shown = run("status", "--data-dir", ".", folder=tmp_path)

    assert shown.returncode == 1
    assert "failed" in shown.stdout
    assert "! trouble: the disk is full" in shown.stdout


def test_a_status_written_by_an_older_penstock_is_read(tmp_path: Path) -> None:
    written = json.loads(msgspec.json.encode(ended("stopped")))
    del written["limits"], written["books"][0]["was_synced"]
    written |= {"weight_used": 2, "weight_limit": 6000}
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / f"{SLOT}.json").write_text(json.dumps(written))
    facts = run("status", "--data-dir", ".", "--json", folder=tmp_path)

    assert facts.returncode == 0, facts.stderr
    (book,) = json.loads(facts.stdout)["status"]["books"]
    assert (book["state"], book["was_synced"]) == ("stopped", True)


@dataclass
class Disk:
    """A disk with hardly any room left, and how to make some."""

    before: Callable[[], None] | None
    """What a process has to do first that is to find it full."""
    make_room: Callable[[int], object]
    """For the process with this id."""


Full = Callable[[Path], Iterator[Disk]]


def small_files(folder: Path) -> Iterator[Disk]:
    """The collector's files cannot grow: needs no rights."""
    folder.mkdir()
    # Made before, as its tables alone may take more than a file can have.
    asyncio.run(make_state(folder))
    unlimited = resource.RLIM_INFINITY
    yield Disk(
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, unlimited)),
        lambda pid: resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited)),
    )


async def make_state(folder: Path) -> None:
    """Create the state store of a data folder."""
    await (await open_store(f"sqlite:{folder / 'state.db'}")).close()


def full_disk(folder: Path) -> Iterator[Disk]:
    """A file system of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only an administrator can mount a small disk")
    try:
        ballast = folder / "ballast"
        ballast.write_bytes(b"\0" * (shutil.disk_usage(folder).free - 600_000))
        yield Disk(None, lambda _: ballast.unlink(missing_ok=True))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("full", [small_files, full_disk])
def test_without_room_it_waits_and_says_so_and_goes_on_when_there_is_some(
    tmp_path: Path, exchange: str, full: Full
) -> None:
    folder = tmp_path / "data"
    data = ("--data-dir", str(folder))
    environment = {**urls(exchange), "PENSTOCK_COLLECT_BOOK_EVERY": "0.05"}
    with contextmanager(full)(folder) as disk:
        with started(
            *COLLECT, str(folder), folder=tmp_path, environment=environment, before=disk.before
        ) as process:
            wait_until(lambda: "disk full" in trouble_in(folder), process)
            during = status_in(folder)
            seen = {ids.symbol: ids.seen for ids in during.ids}.get("btc_usdt", [])
            scan = run("log", "scan", BTC, *data, "--limit", "1000000", folder=tmp_path)
            disk.make_room(process.pid)
            wait_until(lambda: streams(folder) and not trouble_in(folder), process)
            code, _, errors = stopped(process)
        judged = run("judge", exchange, *data, folder=tmp_path)
        after = status_in(folder)

    assert code == 0, errors
    assert "Traceback" not in errors
    assert '"level":"error"' in errors
    assert "LogUnwritable" in errors
    assert "LogWritable" in errors
    assert during.state == "running"
    assert "records wait" in during.troubles["log"]
    found = {json.loads(line)["id"] for line in scan.stdout.splitlines()}
    assert {n for first, last in seen for n in range(first, last + 1)} <= found
    assert judged.returncode == 0, judged.stdout
    assert after.state == "stopped"


def test_told_twice_to_stop_it_stops_at_once_though_the_disk_is_full(
    tmp_path: Path, exchange: str
) -> None:
    folder = tmp_path / "data"
    with (
        contextmanager(full_disk)(folder) as disk,
        started(
            *COLLECT, str(folder), folder=tmp_path, environment=urls(exchange), before=disk.before
        ) as process,
    ):
        wait_until(lambda: "disk full" in trouble_in(folder), process)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        code, _, errors = stopped(process)
        after = status_in(folder)

    assert code == 1
    assert "after a second signal" in errors
    assert after.state == "stopped"


# A command to which a signal comes when nothing but the first module has been imported.
STRUCK = """
import builtins, os, runpy, signal, sys
plain = builtins.__import__
def importing(name, *rest, **more):
    if name == "penstock.cli" and not hasattr(os, "struck"):
        os.struck = True
        os.kill(os.getpid(), getattr(signal, sys.argv.pop(1)))
    return plain(name, *rest, **more)
builtins.__import__ = importing
sys.argv[:1] = ["penstock"]
runpy.run_module("penstock", run_name="__main__")
"""


def test_ctrl_c_at_the_first_instant_ends_it_without_a_traceback() -> None:
    words = [sys.executable, "-c", STRUCK, "SIGINT", "status"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_hangup_is_harmless_from_the_first_instant_and_is_remembered(
    tmp_path: Path, exchange: str
) -> None:
    file = tmp_path / "markets"
    file.write_text("btc_usdt\n")
    words = ("collect", "binance", "--symbols-file", str(file), "--data-dir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", STRUCK, "SIGHUP", *words],
        env={**os.environ, **urls(exchange)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_until(lambda: streams(tmp_path), process)
        returned, _, errors = stopped(process)

    assert returned == 0, errors
    assert "SymbolsReread" in errors


def catches_hangups(pid: int) -> bool:
    """Whether a process has said what is to happen on SIGHUP."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (signal.SIGHUP - 1))


@pytest.mark.parametrize("command", ["fetch", "work", "serve", "bus"])
def test_a_hangup_ends_no_process_that_is_to_stay(
    tmp_path: Path, exchange: str, command: str
) -> None:
    words = {
        "fetch": ("fetch", "binance", "btc_usdt", "--every", "1"),
        "work": ("work",),
        "serve": ("serve", "--port", "0"),
        "bus": ("bus",),
    }[command]
    with started(*words, "--seconds", "2", folder=tmp_path, environment=urls(exchange)) as process:
        wait_until(lambda: catches_hangups(process.pid), process)
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0, errors


def test_a_file_of_markets_is_read_again_when_told(tmp_path: Path, exchange: str) -> None:
    file = tmp_path / "markets"
    file.write_text("btc_usdt  # the first\n")
    words = ("collect", "binance", "--symbols-file", str(file), "--data-dir", str(tmp_path))

    def synced() -> set[str]:
        status = read_status(tmp_path, SLOT)
        return {book.symbol for book in status.books if book.state == "synced"} if status else set()

    with started(*words, folder=tmp_path, environment=urls(exchange)) as process:
        wait_until(lambda: synced() == {"btc_usdt"}, process)
        file.write_text("btc_usdt, ETH/USDT\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: synced() == {"btc_usdt", "eth_usdt"}, process)
        for bad in ("btc_usdt no_such\n", "# nothing\n"):
            file.write_text(bad)
            process.send_signal(signal.SIGHUP)
        file.write_text("eth_usdt\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: synced() == {"eth_usdt"}, process)
        code, _, errors = stopped(process)

    assert code == 0
    assert "SymbolsReread" in errors
    assert status_in(tmp_path).reconnects == {}


def test_a_file_of_markets_may_hold_remarks(tmp_path: Path) -> None:
    file = tmp_path / "markets"
    file.write_text("btc_usdt, eth_usdt # not sol_usdt\n\n# nothing\nada_usdt\n")

    assert read_symbols(file) == ["btc_usdt", "eth_usdt", "ada_usdt"]


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), ("# nothing\n", "names no market")]
)
def test_a_file_of_markets_that_is_no_use_is_refused_at_once(
    tmp_path: Path, content: str | None, says: str
) -> None:
    file = tmp_path / "markets"
    if content is not None:
        file.write_text(content)
    done = run("collect", "binance", "--symbols-file", str(file), folder=tmp_path)
    nothing = run("collect", "binance", folder=tmp_path)

    assert (done.returncode, nothing.returncode) == (2, 2)
    assert says in done.stderr
    assert "no market is given" in nothing.stderr
    assert not (tmp_path / "penstock-data").exists()


def test_a_container_tells_it_everything_by_short_names(tmp_path: Path, exchange: str) -> None:
    told = {
        "SYMBOLS": ",".join(SYMBOLS),
        "API_BASE_URL": exchange,
        "WSS_BASE_URL": exchange,
        "STORAGE_BASE_DIR": str(tmp_path / "kept"),
    }
    collected = run("collect", "binance", "--seconds", "3", "--json", folder=tmp_path, **told)
    shown = run("status", "--json", folder=tmp_path, **told)

    assert collected.returncode == 0, collected.stderr
    streams = json.loads(collected.stdout)["streams"]
    assert {each["symbol"] for each in streams} == set(SYMBOLS)
    assert json.loads(shown.stdout)["status"]["slot"] == "collect-binance"
    assert not (tmp_path / "penstock-data").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shard", "3/3"), "3 shards are numbered from 0 to 2: there is no 3"),
        (("--shard", "a/b"), "'a/b' is not NUMBER/COUNT, such as 0/3"),
        (("--shard", "0/2", "--slot", "b"), "leave out --slot b, or --shard 0/2"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused_at_once(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    refused = invoke(*COLLECT, str(tmp_path), *options)

    assert refused.returncode == 2
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


def test_a_shard_without_a_market_runs_in_its_own_slot(tmp_path: Path, exchange: str) -> None:
    assert not any(map(MarketShard(0, 3).owns, SYMBOLS))
    words = (*COLLECT, str(tmp_path), "--shard", "0/3", "--seconds", "1", "--json")
    ended = run(*words, folder=tmp_path, **urls(exchange))

    assert ended.returncode == 0, ended.stderr
    status = json.loads(ended.stdout.splitlines()[-1])
    assert (status["slot"], status["shard"], status["streams"]) == (f"{SLOT}-0", "0/3", [])
