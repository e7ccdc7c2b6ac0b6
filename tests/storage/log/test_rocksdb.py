"""The log on disk, with real processes: owners, readers, kill -9, a full disk."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from rocksdict import Options, Rdict
from tests import events
from tests.forked import python
from tests.waiting import PATIENCE_S

from penstock.errors import ConfigError, NotOurRecord, SlotInUse, StorageError
from penstock.market.events import Trade
from penstock.storage.log import LogReader, Stored, open_log, rocksdb
from penstock.storage.log.keys import VERSION_KEY, Stream, id_of_key
from penstock.storage.log.linked_folder import LinkedFolder
from penstock.storage.log.tuning import owners_options

TRADES = Stream("sim", "trades", "btc_usdt")
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "20"))

# A process that owns a slot and appends batches of trades, each overlapping the one before (as a
# reconnect would), and says how far it got after each is acknowledged. "paced" waits for a line of
# input before each, "free" runs for ever.
WRITER = """
import random, sys
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

folder, slot, seed, pace = sys.argv[1:]
chance = random.Random(int(seed))
writer = open_log(f"rocksdb:{folder}").writer(slot)
stream = next(iter(writer.last_numbers()), None)
done = writer.last_numbers()[stream] if stream else 0
print("from", done, flush=True)
while pace == "free" or sys.stdin.readline():
    first, last = max(1, done - 5), done + chance.randint(1, 200)
    stored = writer.append(
        [
            Trade(exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=n * 10**7, id=n,
                  at_ns=n, price_text="1", quantity_text="1", taker="buy")
            for n in range(first, last + 1)
        ],
        chance.choice(["flushed", "flushed", "flushed", "synced"]),
    )
    assert [s.number for s in stored] == list(range(done + 1, last + 1))
    done = last
    print(done, flush=True)
"""

# A process whose files cannot grow beyond a limit for a while: the nearest thing to a full disk
# that needs no rights. It says what it acknowledged.
FULL = """
import resource, sys
from penstock.errors import StorageFull
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

def batch(first):
    return [
        Trade(exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=n, id=n, at_ns=n,
              price_text="1", quantity_text="1", taker="buy")
        for n in range(first, first + 100)
    ]

writer = open_log(f"rocksdb:{sys.argv[1]}").writer("a")
done = len(writer.append(batch(1)))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
failures = 0
while failures < 3:
    try:
        done += len(writer.append(batch(done + 1)))
    except StorageFull as error:
        failures += 1
        print("refused", error)
print("acknowledged", done)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
stored = writer.append(batch(done + 1))
print("went on at", [s.number for s in stored] == list(range(done + 1, done + 101)))
"""


@contextmanager
def running(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = python("-c", code, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told_to_go_on(process: subprocess.Popen[str]) -> int:
    """Let a paced writer append one batch; returns how far it got."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(said(process))


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def trade(number: int) -> Trade:
    return events.trade(number, exchange="sim")


def ids(records: Iterable[Stored]) -> list[int | None]:
    return [id_of_key(stored.key) for stored in records]


@contextmanager
def reading(folder: Path) -> Iterator[LogReader]:
    reader = open_log(f"rocksdb:{folder}").reader()
    try:
        yield reader
    finally:
        reader.close()


def survive_kills(folder: Path, kills: int, seed: int) -> int:
    """Kill a writer again and again at random moments; nothing acknowledged may be missing.

    Returns how many records there are in the end. Raises AssertionError if one is missing, there
    twice, or numbered out of turn.
    """
    chance = random.Random(seed)
    acknowledged = 0
    with reading(folder) as reader:
        for kill in range(kills):
            with running(WRITER, str(folder), "a", str(seed * 1000 + kill), "free") as process:
                # Half of them die while they write, the others perhaps while they still open.
                begun = said(process) if chance.random() < 0.5 else ""
                time.sleep(chance.uniform(0, 0.03 if begun else 0.1))
                process.send_signal(signal.SIGKILL)
                told = (begun + "\n" + process.communicate()[0]).split("\n")[:-1]
            for line in told:
                if line.startswith("from "):
                    assert int(line[5:]) >= acknowledged, f"lost (seed {seed}): {line}"
                elif line:
                    acknowledged = int(line)
            found = list(reader.scan(TRADES))
            assert ids(found) == list(range(1, len(found) + 1)), f"seed {seed}"
            assert [s.number for s in found] == list(range(1, len(found) + 1)), f"seed {seed}"
            assert len(found) >= acknowledged, f"seed {seed}"
    return len(found)


@pytest.mark.parametrize("life", range(0, KILLS, 20))
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, life: int) -> None:
    kills = min(20, KILLS - life)

    assert survive_kills(tmp_path, kills, seed=random.randrange(1_000_000)) > 0


def test_a_second_process_is_told_who_owns_the_slot(tmp_path: Path) -> None:
    with running(WRITER, str(tmp_path), "a", "1", "free") as process:
        said(process)
        with pytest.raises(SlotInUse) as refusal:
            open_log(f"rocksdb:{tmp_path}").writer("a")

        assert f"process {process.pid} (" in str(refusal.value)
        assert sys.executable in str(refusal.value)
        assert "with another slot: --slot NAME" in str(refusal.value)
        process.kill()
        process.wait()
        writer = open_log(f"rocksdb:{tmp_path}").writer("a")

    with pytest.raises(SlotInUse, match="this very process"):
        open_log(f"rocksdb:{tmp_path}").writer("a")
    writer.close()
    assert not (tmp_path / "log" / "a.owner").exists()


def test_a_lock_that_cannot_be_made_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "log" / "a" / "LOCK").mkdir(parents=True)

    with pytest.raises(StorageError, match="Check the disk"):
        open_log(f"rocksdb:{tmp_path}").writer("a")


def test_readers_follow_several_running_writers(tmp_path: Path) -> None:
    with (
        running(WRITER, str(tmp_path), "a", "1", "paced") as one,
        running(WRITER, str(tmp_path), "b", "2", "paced") as other,
        reading(tmp_path) as reader,
    ):
        assert said(one) == said(other) == "from 0"
        for _ in range(20):
            acknowledged = max(told_to_go_on(one), told_to_go_on(other))
            assert ids(reader.scan(TRADES)) == list(range(1, acknowledged + 1))
        assert reader.slots() == ["a", "b"]


def test_a_reader_outlives_the_files_it_reads(tmp_path: Path) -> None:
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")
    with reading(tmp_path) as reader:
        for first in range(1, 4001, 1000):
            writer.append([trade(number) for number in range(first, first + 1000)])
            scan = reader.scan(TRADES)
            next(scan)
            # Opening again turns the write-ahead log into tables and starts a new one.
            writer.close()
            writer = open_log(f"rocksdb:{tmp_path}").writer("a")
            assert len(list(scan)) == first + 998
    writer.close()


def test_a_reader_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")

    with reading(tmp_path) as one, reading(tmp_path) as other:
        assert one.slots() == other.slots() == ["a"]
        assert len(list(scratch.iterdir())) == 2

    assert list(scratch.iterdir()) == []
    writer.close()


def test_a_reader_of_nothing_finds_nothing(tmp_path: Path) -> None:
    with reading(tmp_path / "nowhere") as reader:
        assert reader.slots() == []
        assert reader.streams() == []
        assert reader.stats() == []

    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert sum("Free some space" in line for line in lines) == 3
    acknowledged = int(lines[3].removeprefix("acknowledged "))
    assert acknowledged > 100
    assert lines[4] == "went on at True"
    with reading(tmp_path) as reader:
        assert ids(reader.scan(TRADES)) == list(range(1, acknowledged + 101))


def test_what_is_not_a_folder_cannot_be_a_slot(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")

    with pytest.raises(StorageError, match="Check the disk"):
        open_log(f"rocksdb:{tmp_path}").writer("a")
    for name in ("", "../a", "a/b", "a b"):
        with pytest.raises(ConfigError, match="letters, digits"):
            open_log(f"rocksdb:{tmp_path}").writer(name)


def test_a_log_of_a_newer_penstock_is_left_alone(tmp_path: Path) -> None:
    open_log(f"rocksdb:{tmp_path}").writer("a").close()
    db = Rdict(str(tmp_path / "log" / "a"), Options(raw_mode=True))
    db[VERSION_KEY] = b"3"
    db.close()

    with pytest.raises(NotOurRecord, match="newer version"):
        open_log(f"rocksdb:{tmp_path}").writer("a")
    with reading(tmp_path) as reader, pytest.raises(NotOurRecord, match="newer version"):
        reader.streams()


def test_a_checkpoint_is_a_log_of_its_own(tmp_path: Path) -> None:
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")
    writer.append([trade(1), trade(2)])

    writer.checkpoint(tmp_path / "copy" / "log" / "a")
    writer.append([trade(3)])

    copy = open_log(f"rocksdb:{tmp_path / 'copy'}")
    with reading(tmp_path / "copy") as reader:
        assert ids(reader.scan(TRADES)) == [1, 2]
    owner = copy.writer("a")
    assert [s.number for s in owner.append([trade(3)])] == [3]
    owner.close()
    with pytest.raises(StorageError, match="already exists"):
        writer.checkpoint(tmp_path / "copy" / "log" / "a")
    writer.close()


def test_a_reader_misses_nothing_while_tables_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small_buffers() -> Options:
        options = owners_options()
        options.set_write_buffer_size(70_000)
        return options

    monkeypatch.setattr(rocksdb, "owners_options", small_buffers)
    log, at_once, last = open_log(f"rocksdb:{tmp_path}"), 100, 20_000
    with closing(log.writer("a")) as owner, closing(log.reader()) as reader:
        for first in range(1, last, at_once):
            numbers = range(first, first + at_once)
            owner.append([events.trade(n, exchange="sim", received_at_ns=n) for n in numbers])
            if first % (4 * at_once) == 1:
                found = [id_of_key(each.key) for each in reader.scan(TRADES)]
                assert found == list(range(1, first + at_once))
    assert max(int(table.stem) for table in (tmp_path / "log" / "a").glob("*.sst")) > 20


def test_records_are_placed_in_memory_beside_those_of_their_stream(tmp_path: Path) -> None:
    """An option that rocksdict has no method for, and that would be missing silently."""
    open_log(f"rocksdb:{tmp_path}").writer("a").close()

    (options,) = (tmp_path / "log" / "a").glob("OPTIONS-*")
    assert "memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix.5" in options.read_text()


def test_a_table_that_is_made_while_a_reader_catches_up_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, refresh, made = open_log(f"rocksdb:{tmp_path}"), LinkedFolder.refresh, list[int]()

    def append(first: int) -> None:
        numbers = range(first, first + 100)
        owner.append([events.trade(n, exchange="sim", received_at_ns=n) for n in numbers])

    def refresh_too_early(folder: LinkedFolder) -> None:
        refresh(folder)
        if not made:
            made.append(1)
            owner._opened()._db.flush()  # type: ignore[attr-defined]
            append(201)

    with closing(log.writer("a")) as owner, closing(log.reader()) as reader:
        append(1)
        assert [id_of_key(each.key) for each in reader.scan(TRADES)] == list(range(1, 101))
        append(101)
        monkeypatch.setattr(LinkedFolder, "refresh", refresh_too_early)
        assert [id_of_key(each.key) for each in reader.scan(TRADES)] == list(range(1, 301))
    assert made


def test_tables_of_whatever_size_are_merged_before_there_are_too_many(tmp_path: Path) -> None:
    log, chance, last = open_log(f"rocksdb:{tmp_path}"), random.Random(1), 0
    with closing(log.writer("a")) as owner, closing(log.reader()) as reader:
        for _ in range(200):
            numbers = range(last + 1, last + 1 + chance.choice((1, 3, 10, 100)))
            owner.append([trade(number) for number in numbers])
            owner._opened()._db.flush()  # type: ignore[attr-defined]
            last = numbers[-1]
        give_up_s = time.monotonic() + PATIENCE_S / 4
        while len(list((tmp_path / "log" / "a").glob("*.sst"))) >= 48:
            assert time.monotonic() < give_up_s, "readers have all of them open"
            time.sleep(0.05)
        assert ids(reader.scan(TRADES)) == list(range(1, last + 1))
