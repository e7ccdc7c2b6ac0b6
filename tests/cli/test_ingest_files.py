"""``penstock ingest --files``: trades of published files, and files that are refused."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.forked import command

from penstock.market.events import Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream

from .conftest import invoke, urls

NAME = "SIM002USDT-trades-2025-01-01.zip"
PATH = f"data/spot/daily/trades/SIM002USDT/{NAME}"
RANGE = ("SIM002USDT", "--from", "2024-12-31T23:00:00Z", "--to", "2025-01-02T01:00:00Z")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a simulator of one quiet market listens."""
    words = ["sim", "--port", "0", "--json", "--symbols", "sim002_usdt"]
    folder = tmp_path_factory.mktemp("sim")
    with command(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.kill()


@pytest.fixture
def data(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in urls(address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def ids(data: Path) -> list[int]:
    reader = open_log(f"rocksdb:{data}").reader()
    found = [each.event for each in reader.scan(Stream("binance", "trades", "sim002_usdt"))]
    reader.close()
    return [each.id for each in found if isinstance(each, Trade)]


def true_ids(address: str) -> list[int]:
    ends = []
    for at_ms in (1_735_686_000_000, 1_735_779_600_000):
        url = f"{address}/_sim/ledger/ids?symbol=sim002_usdt&at_ms={at_ms}"
        with urllib.request.urlopen(url) as answer:
            ends.append(json.load(answer)["next_trade_id"])
    return list(range(*ends))


def test_files_are_planned_read_and_stitched(data: Path, address: str) -> None:
    planned = invoke("ingest", "binance", *RANGE, "--files", address, "--dry-run")
    done = invoke("ingest", "binance", *RANGE, "--files", address)

    assert planned.returncode == 0, planned.stderr
    assert "from 1 file of 0.1 MB and /api/v3/historicalTrades" in planned.stdout
    assert done.returncode == 0, done.stderr
    assert ids(data) == true_ids(address)


def test_a_file_with_a_wrong_checksum_is_named_and_nothing_of_it_is_recorded(
    data: Path, address: str, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for suffix in ("", ".CHECKSUM"):
        with urllib.request.urlopen(f"{address}/{PATH}{suffix}") as answer:
            (folder / f"{NAME}{suffix}").write_bytes(answer.read())
    right = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(right[:-1] + bytes([right[-1] ^ 1]))

    failed = invoke("ingest", "binance", *RANGE, "--files", str(folder))

    assert failed.returncode == 1
    said = failed.stdout + failed.stderr
    assert NAME in said
    assert "its SHA-256 is" in said
    assert len(ids(data)) < 1000, "only what is before it"
    (folder / NAME).write_bytes(right)
    again = invoke("ingest", "binance", *RANGE, "--files", str(folder))
    assert again.returncode == 0, again.stderr
    assert ids(data) == true_ids(address)


def test_a_folder_that_does_not_exist_is_refused(data: Path) -> None:
    refused = invoke("ingest", "binance", *RANGE, "--files", "nowhere")

    assert refused.returncode == 2
    assert "there is no folder 'nowhere'" in refused.stderr
    assert not data.exists() or not ids(data)
