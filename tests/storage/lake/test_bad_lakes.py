"""Lakes that cannot be used: reported clearly, and nothing is changed."""

import builtins
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests import servers
from tests.storage.lake.test_contract import BTC, SLOT, TRADES, seal, stats, trades

from penstock.errors import MissingExtra, NewerStore, StorageError, StorageFull
from penstock.storage.lake import NumberRange, open_lake


def files(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def create(folder: Path, configuration: dict[str, str]) -> None:
    schema = pa.schema([("exchange", pa.string()), ("date", pa.date32())])
    (folder / "trades").mkdir(parents=True)
    DeltaTable.create(
        folder / "trades", schema, configuration=configuration, raise_if_key_not_exists=False
    )


def test_a_table_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    create(tmp_path, {"penstock.format": "2"})
    before, lake = files(tmp_path), open_lake(str(tmp_path))

    with pytest.raises(NewerStore, match=r"version 2; this one supports 1.*Upgrade penstock"):
        seal(lake, 1, 2)
    with pytest.raises(NewerStore):
        lake.sealed(TRADES, SLOT, [BTC])
    with pytest.raises(NewerStore):
        lake.equal(TRADES, trades(1, 2))

    assert files(tmp_path) == before


def test_a_table_of_another_program_is_refused(tmp_path: Path) -> None:
    create(tmp_path, {})
    before = files(tmp_path)

    with pytest.raises(StorageError, match="penstock did not create"):
        seal(open_lake(str(tmp_path)), 1, 2)

    assert files(tmp_path) == before


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    lake = open_lake(str(tmp_path))
    rows = seal(lake, 1, 50)
    (file,) = tmp_path.rglob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:kept] if kept >= 0 else content[:-8] + b"\0" * 8)

    with pytest.raises(StorageError, match=r"trades: .*the log keeps its records"):
        lake.equal(TRADES, rows)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    rows = seal(lake, 1, 50)
    (file,) = tmp_path.rglob("*.parquet")
    file.unlink()

    with pytest.raises(StorageError, match=file.name):
        lake.equal(TRADES, rows)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where the folder should be")

    with pytest.raises(StorageError, match="trades"):
        seal(open_lake(str(tmp_path / "lake")), 1, 2)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Generic LocalFileSystem error: No space left on device (os error 28)", StorageFull),
        ("Generic LocalFileSystem error: Read-only file system (os error 30)", StorageError),
    ],
)
def test_a_write_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception]
) -> None:
    lake = open_lake(str(tmp_path))
    seal(lake, 1, 2)
    before = stats(lake)

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(said)

    with monkeypatch.context() as patch:
        patch.setattr("penstock.storage.lake.delta.write_deltalake", fails)
        with pytest.raises(error):
            seal(lake, 3, 4)

    assert stats(lake) == before
    seal(lake, 3, 4)
    assert stats(lake)["trades"].rows == 4


def test_a_store_without_conditional_put_is_refused_for_several_writers() -> None:
    with servers.s3(conditional_put=False) as options:
        with pytest.raises(StorageError, match=r"lost \d+ of \d+ commits.*lake_single_writer"):
            open_lake("s3://lake/data", options)

        alone = open_lake("s3://lake/data", options, alone=True)
        seal(alone, 1, 2)
        assert stats(alone)["trades"].rows == 2


def test_a_store_with_conditional_put_is_accepted(s3_options: dict[str, str]) -> None:
    lake = open_lake("s3://lake/probed", s3_options)

    lake.seal(TRADES, SLOT, trades(1, 2), {BTC: NumberRange(1, 2)})

    assert stats(lake)["trades"].rows == 2


def test_a_store_that_does_not_answer_is_named() -> None:
    options = {
        "aws_endpoint_url": "http://127.0.0.1:9", "aws_allow_http": "true", "aws_region": "x",
        "aws_access_key_id": "x", "aws_secret_access_key": "x", "max_retries": "0",
    }  # fmt: skip
    with pytest.raises(StorageError, match="s3://lake"):
        open_lake("s3://lake/data", options)


def test_without_the_extra_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "deltalake":
            raise ModuleNotFoundError("No module named 'deltalake'", name="deltalake")
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in list(sys.modules):
        if name.startswith("penstock.storage.lake."):
            monkeypatch.delitem(sys.modules, name)

    with pytest.raises(MissingExtra, match=r"deltalake is not installed.*penstock\[lake\]"):
        open_lake(str(tmp_path))
