"""Data of several machines meets in a lake on an object store: one frame has every row."""

from pathlib import Path

import pytest
from tests.dataset.stored import NOON_NS, SECOND_NS, seal
from tests.events import trade

import penstock
from penstock.config import Settings, Storage
from penstock.errors import NoDataset, StorageError
from penstock.market.events import Trade
from penstock.storage.log import open_log

URL = "s3://lake/all"


def trades(first: int, last: int) -> list[Trade]:
    times = [(each, NOON_NS + each * SECOND_NS) for each in range(first, last + 1)]
    return [trade(i, at_ns=ns, received_at_ns=ns) for i, ns in times]


def test_two_folders_and_one_lake_are_one_frame(tmp_path: Path, s3_options: dict[str, str]) -> None:
    for machine, (first, last) in enumerate([(1, 60), (40, 100)], 1):
        folder = tmp_path / str(machine)
        writer = open_log(f"rocksdb:{folder}").writer("a")
        written = writer.append(trades(first, last))
        seal(URL, written[:50], machine, s3_options)
        writer.close()

    # Each machine has what it has not sealed yet; what others have sealed is in the lake.
    here = penstock.open(tmp_path / "2", lake_url=URL, storage_options=s3_options)
    alone = penstock.open(URL, storage_options=s3_options)
    frames = [each.trades("BTC/USDT", on_gap="ignore").polars() for each in (here, alone)]
    counted = alone.sql("SELECT count(*) FROM trades").rows()
    settings = Settings(storage=Storage(lake_url=URL, lake_options=s3_options))
    replayed = [
        [each.event for each in penstock.replay(data_dir=where, settings=settings)]
        for where in (tmp_path / "2", URL)
    ]

    assert frames[0]["id"].to_list() == [*range(1, 101)]
    assert frames[1]["id"].to_list() == [*range(1, 90)]
    assert counted == [(89,)]
    assert replayed == [trades(1, 100), trades(1, 89)]


def test_a_store_that_cannot_be_reached_or_is_empty_is_named(s3_options: dict[str, str]) -> None:
    with pytest.raises(NoDataset, match="s3://lake/nothing"):
        penstock.open("s3://lake/nothing", storage_options=s3_options)
    with pytest.raises(StorageError, match="s3://lake"):
        penstock.open(URL, storage_options={**s3_options, "aws_endpoint_url": "http://127.0.0.1:9"})
