"""Damaged files of the log: always noticed, never read as less than there was, and repaired."""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.damaged import (
    IN_RECORDS,
    LAST,
    SYMBOLS,
    Change,
    Content,
    everything,
    file_of,
    files_of,
    flip,
    make_slot,
    read_everything,
    trade,
)

from penstock.errors import LogDamaged
from penstock.storage.log import open_log
from penstock.storage.log.damage import parts_of
from penstock.storage.log.keys import Stream
from penstock.storage.log.repair import DamageReport, repairing

FLIPS = int(os.environ.get("PENSTOCK_TEST_FLIPS", "14"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "20"))
TICKERS = Stream("binance", "tickers", "btc_usdt")
AT_NS = 1_800_000_000_000_000_000


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_slot(tmp_path_factory.mktemp("damage"))


@pytest.fixture(scope="module")
def whole(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> Content:
    copy = tmp_path_factory.mktemp("whole") / "data"
    shutil.copytree(killed, copy)
    return read_everything(copy)


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def header(part: int, byte: int, bit: int) -> Change:
    """Change the header of one part of a record of a write-ahead log: checksum, length, kind."""

    def change(file: Path) -> None:
        flip([*parts_of(file.read_bytes())][part].start + byte, bit)(file)

    return change


def shorten(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def zero_page(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(bytes(4096))


def at_end(back: int) -> Change:
    return lambda file: flip(file.stat().st_size - back)(file)


DAMAGES: dict[str, tuple[str, int, Change]] = {
    "a record of a table": ("*.sst", 1, flip(IN_RECORDS)),
    "the index of a table": ("*.sst", 1, at_end(2300)),
    "the end of a table": ("*.sst", 1, at_end(20)),
    "a table that is gone": ("*.sst", 1, Path.unlink),
    "a table cut short": ("*.sst", 1, shorten),
    "a page of zeros in a table": ("*.sst", 0, zero_page),
    "a record of the write-ahead log": ("*.log", 0, flip(40_000)),
    "a page of zeros in the write-ahead log": ("*.log", 0, zero_page),
    "the length of the last record": ("*.log", 0, header(-1, 5, 6)),
    "the length of a record near the end": ("*.log", 0, header(-2, 5, 6)),
    "the kind of a record": ("*.log", 0, header(1, 6, 2)),
    "CURRENT": ("CURRENT", 0, flip(12, 0)),
    "CURRENT is gone": ("CURRENT", 0, Path.unlink),
    "MANIFEST": ("MANIFEST-*", 0, flip(100)),
}


def inflict(folder: Path, damage: str) -> str:
    pattern, place, change = DAMAGES[damage]
    file = file_of(folder, pattern, place)
    change(file)
    return file.name


def test_an_error_tells_the_file_the_stream_and_the_place(folder: Path) -> None:
    name = inflict(folder, "a record of a table")

    with (
        closing(open_log(f"rocksdb:{folder}").reader()) as reader,
        pytest.raises(LogDamaged, match=rf"in {name} .*records of {TICKERS} next to received:\d+"),
    ):
        list(reader.scan(TICKERS))


def test_reading_by_time_tells_damage_too(folder: Path) -> None:
    name = inflict(folder, "a record of a table")

    with (
        closing(open_log(f"rocksdb:{folder}").reader()) as reader,
        pytest.raises(LogDamaged, match=rf"in {name} .*records of {TICKERS}"),
    ):
        reader.received([TICKERS], 0, 1 << 62, most=1 << 62)


def flips(killed: Path) -> Iterator[tuple[str, int, int]]:
    chance = random.Random(SEED)
    files = files_of(killed)
    for number in range(FLIPS):
        file = files[number % len(files)]
        yield file.name, chance.randrange(file.stat().st_size), chance.randrange(8)


def test_with_any_byte_flipped_all_is_read_or_damage_is_told(
    killed: Path, whole: Content, tmp_path: Path
) -> None:
    told = 0
    for number, (name, at, bit) in enumerate(flips(killed)):
        folder = Path(shutil.copytree(killed, tmp_path / str(number)))
        flip(at, bit)(folder / "log" / "a" / name)
        where = f"bit {bit} of byte {at} of {name}"
        try:
            found = read_everything(folder)
        except LogDamaged:
            told += 1
        else:
            assert found == whole, where
        # Nor does an owner number anything anew, or store it again.
        try:
            with closing(open_log(f"rocksdb:{folder}").writer("a")) as writer:
                numbers = dict(writer.last_numbers())
                assert writer.append(everything(range(LAST - 9, LAST + 1))) == [], where
                assert numbers == dict.fromkeys(whole, LAST), where
        except LogDamaged:
            pass
        shutil.rmtree(folder)
    assert told > FLIPS // 3


def test_a_write_ahead_log_may_end_in_the_middle_of_a_record(folder: Path, whole: Content) -> None:
    wal = file_of(folder, "*.log")
    os.truncate(wal, wal.stat().st_size - 10)
    # Begun by an owner that was killed before it had written anything.
    (wal.parent / "000099.log").touch()

    found = read_everything(folder)

    assert {stream: len(records) for stream, records in found.items()} == dict.fromkeys(
        whole, LAST - 50
    )


def repair(folder: Path) -> DamageReport:
    with repairing(folder / "log", "a") as under_way:
        findings = under_way.examine()
        if not findings.sound:
            under_way.put_in_place(datetime.fromtimestamp(AT_NS / 1e9, UTC))
    return findings


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_an_error_until_a_repair_keeps_what_is_sound_and_tells_the_rest(
    folder: Path, whole: Content, damage: str
) -> None:
    name = inflict(folder, damage)
    with pytest.raises(LogDamaged) as error:
        read_everything(folder)
    assert str(folder / "log" / "a") in str(error.value)
    assert "penstock log repair a --dry-run" in str(error.value)
    assert name in str(error.value) or name.startswith("MANIFEST")

    findings = repair(folder)

    named = [file.name for file in findings.files]
    assert name in named or (name.startswith("MANIFEST") and "CURRENT" in named)
    assert [each.name for each in (folder / "log").glob("a.*")] == ["a.damaged-20270115T080000Z"]
    found = read_everything(folder)
    lost = 0
    for stream, records in whole.items():
        kept = found.get(stream, [])
        assert set(kept) <= set(records)
        for key, _, _ in set(records) - set(kept):
            lost += 1
            assert any(
                each.stream == stream
                and (each.after is None or each.after < key)
                and (each.before is None or key < each.before)
                for each in findings.lost
            )
    known = [each.records for each in findings.lost]
    assert None in known or sum(each or 0 for each in known) == lost
    assert bool(findings.lost) is bool(lost)
    with closing(open_log(f"rocksdb:{folder}").writer("a")) as writer:
        assert all(number >= LAST for number in writer.last_numbers().values())
        again = writer.append(everything(range(1, LAST + 1)))
        assert len(again) == lost
        assert all(stored.number > LAST for stored in again)
    filled = read_everything(folder)
    assert records_of(filled) == records_of(whole)


def records_of(content: Content) -> dict[Stream, list[bytes]]:
    return {stream: [record for _, _, record in found] for stream, found in content.items()}


def test_one_damaged_block_costs_only_its_own_records(folder: Path, whole: Content) -> None:
    inflict(folder, "a record of a table")

    findings = repair(folder)

    total = sum(map(len, whole.values()))
    assert total - 200 < findings.records < total


def test_what_is_sound_is_left_alone(folder: Path, whole: Content) -> None:
    before = {file.name: file.read_bytes() for file in files_of(folder)}

    findings = repair(folder)

    assert findings.sound
    assert findings.records == sum(map(len, whole.values()))
    assert {file.name: file.read_bytes() for file in files_of(folder)} == before
    assert [each.name for each in (folder / "log").iterdir()] == ["a"]


def test_an_abandoned_repair_changes_nothing(folder: Path) -> None:
    inflict(folder, "a record of a table")
    before = {file.name: file.read_bytes() for file in files_of(folder)}

    with repairing(folder / "log", "a") as under_way:
        assert not under_way.examine().sound

    assert {file.name: file.read_bytes() for file in files_of(folder)} == before
    assert [each.name for each in (folder / "log").iterdir()] == ["a"]


def test_a_repair_that_was_interrupted_is_finished_by_the_next_owner(folder: Path) -> None:
    slot = folder / "log" / "a"
    slot.rename(folder / "log" / "a.repaired")

    with closing(open_log(f"rocksdb:{folder}").writer("a")) as writer:
        assert writer.append([trade(SYMBOLS[0], LAST + 1)])[0].number == LAST + 1

    assert [each.name for each in (folder / "log").glob("a*")] == ["a"]


def test_readers_go_on_with_a_slot_that_was_repaired(folder: Path) -> None:
    inflict(folder, "a record of a table")
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        with pytest.raises(LogDamaged):
            list(reader.scan(TICKERS))

        repair(folder)

        found = list(reader.scan(TICKERS))
    assert LAST - 150 < len(found) < LAST
    assert found[-1].number == LAST
