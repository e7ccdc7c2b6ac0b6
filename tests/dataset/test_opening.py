"""A data folder or a lake is opened by one call, read while others write, and never changed."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.dataset.stored import NOON_NS, SECOND_NS, seal
from tests.events import trade

import penstock
from penstock.errors import NoDataset
from penstock.market.events import Trade
from penstock.storage.log import Stored, open_log

pytestmark = pytest.mark.filterwarnings("ignore:data is missing")


def trades(first: int, last: int) -> list[Trade]:
    times = [(each, NOON_NS + each * SECOND_NS) for each in range(first, last + 1)]
    return [trade(i, at_ns=ns, received_at_ns=ns) for i, ns in times]


def test_a_data_folder_has_log_and_lake(tmp_path: Path) -> None:
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")
    seal(tmp_path / "lake", writer.append(trades(1, 10)))
    writer.append(trades(11, 20))
    writer.close()

    assert penstock.open(tmp_path).trades().polars()["id"].to_list() == list(range(1, 21))
    alone = penstock.open(str(tmp_path / "lake"))
    assert alone.trades("BTC/USDT").polars()["id"].to_list() == list(range(1, 11))
    assert penstock.open(f"file://{tmp_path / 'lake'}").streams() == ["toy.trades.btc_usdt"]


def test_nothing_is_changed(tmp_path: Path) -> None:
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")
    seal(tmp_path / "lake", writer.append(trades(1, 10)))
    writer.close()

    def contents() -> dict[str, bytes]:
        files = [each for each in tmp_path.rglob("*") if each.is_file()]
        return {str(each): each.read_bytes() for each in files}

    before = contents()
    data = penstock.open(tmp_path)
    data.trades().polars()
    data.sql("SELECT count(*) FROM trades").rows()
    data.coverage()
    assert contents() == before


@pytest.mark.parametrize("kind", ["absent", "empty", "file"])
def test_where_nothing_was_collected_that_is_said(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "empty":
        place.mkdir()
    elif kind == "file":
        place.write_text("")

    with pytest.raises(NoDataset, match="penstock collect"):
        penstock.open(place)
    assert place.exists() == (kind != "absent")


def test_frames_are_read_while_a_collector_writes_and_a_keeper_seals(tmp_path: Path) -> None:
    """Every frame has all records that were written before it was asked for, each once."""
    log = open_log(f"rocksdb:{tmp_path}")
    writer, last, stop = log.writer("a"), 10, threading.Event()
    seal(tmp_path / "lake", writer.append(trades(1, 10)))
    failures: list[BaseException] = []

    def write() -> None:
        nonlocal last
        unsealed: list[Stored] = []
        try:
            while not stop.is_set() and last < 5000:
                unsealed += writer.append(trades(last + 1, last + 10))
                last += 10
                if len(unsealed) == 50:
                    seal(tmp_path / "lake", unsealed)
                    writer.delete_below(unsealed[0].stream, unsealed[40].key)
                    unsealed.clear()
        except BaseException as error:
            failures.append(error)

    data = penstock.open(tmp_path)
    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(8):
        known = last
        found = data.trades().polars()["id"].to_list()
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= known
    stop.set()
    thread.join()
    writer.close()
    assert not failures


def test_without_the_extra_the_package_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text("raise ModuleNotFoundError('no', name='polars')")
    code = (
        "import penstock\n"
        "from penstock.errors import MissingExtra\n"
        "try:\n    penstock.open('.')\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "polars is not installed. Run: pip install 'penstock[lake]'\n"
