"""A byte of a data file that changes later is found, and never becomes part of a new file."""

import shutil
from pathlib import Path

import pytest
from tests.events import trade
from tests.storage.lake.test_columns import stored_of

from penstock.errors import StorageError
from penstock.market.channels import TRADES
from penstock.storage.lake import FileProblem, Lake, NumberRange, open_lake
from penstock.storage.lake.columns import slot_text, table_of

SLOT = slot_text(0xAB, "collect-toy")


def seal(lake: Lake, first: int, last: int, *, compare: bool = True) -> None:
    stored = stored_of([trade(n) for n in range(1, last + 1)])[first - 1 :]
    rows = table_of(TRADES, stored, 0xAB)
    lake.seal(TRADES, SLOT, rows, {stored[0].stream: NumberRange(first, last)})
    if compare:
        assert lake.equal(TRADES, rows)


def data_files(folder: Path) -> list[Path]:
    return sorted((folder / "trades").glob("*/*/*.parquet"))


def problems(lake: Lake) -> list[str]:
    return [each.problem for each in lake.check_files(TRADES)]


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def test_files_that_were_compared_are_proven(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    assert problems(lake) == []

    seal(lake, 1, 5)
    seal(lake, 6, 9)

    assert problems(open_lake(str(tmp_path))) == []


def test_a_flipped_byte_and_a_missing_file_are_found(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5)
    first = data_files(tmp_path)[0]
    seal(lake, 6, 9)
    flip_a_byte(first)

    assert [*lake.check_files(TRADES)] == [
        FileProblem(str(first.relative_to(tmp_path / "trades")), "changed")
    ]

    first.unlink()
    assert problems(lake) == ["missing"]


def test_a_file_that_was_not_compared_is_unverified_until_it_is(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5, compare=False)
    seal(lake, 6, 9)
    assert problems(lake) == ["unverified"]

    stored = stored_of([trade(n) for n in range(1, 6)])
    assert lake.equal(TRADES, table_of(TRADES, stored[:3], 0xAB))
    assert problems(lake) == ["unverified"], "only a part of the file was compared"

    assert lake.equal(TRADES, table_of(TRADES, stored, 0xAB))
    assert problems(lake) == []


def test_compacted_files_are_proven_and_old_digests_are_removed(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5)
    seal(lake, 6, 9)
    (partition,) = lake.partitions(TRADES)

    assert lake.compact(TRADES, partition)
    assert problems(lake) == []
    lake.vacuum(TRADES, 0)

    assert len(data_files(tmp_path)) == 1
    assert problems(lake) == []


def test_what_was_not_compared_stays_unverified_after_a_compaction(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5, compare=False)
    seal(lake, 6, 9)
    (partition,) = lake.partitions(TRADES)

    assert lake.compact(TRADES, partition)

    assert problems(lake) == ["unverified"]


def test_a_changed_file_is_not_compacted(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5)
    flip_a_byte(data_files(tmp_path)[0])
    seal(lake, 6, 9)
    (partition,) = lake.partitions(TRADES)

    with pytest.raises(StorageError, match="has changed"):
        lake.compact(TRADES, partition)

    assert len(data_files(tmp_path)) == 2


def test_a_lake_without_digests_has_unverified_files(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 5)
    shutil.rmtree(tmp_path / "digests")

    assert problems(open_lake(str(tmp_path))) == ["unverified"]
