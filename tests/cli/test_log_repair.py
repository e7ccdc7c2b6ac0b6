"""``penstock log repair``: tells what is damaged, asks, and makes gaps of what is lost."""

import asyncio
import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.damaged import LAST, file_of, flip, make_slot, read_everything

from penstock.collect.status import CollectorStatus, read_status, write_status
from penstock.coverage.model import Run, SlotCoverage
from penstock.coverage.stored import IdsStatus
from penstock.coverage.writing import write_coverage
from penstock.market.events import Disconnect
from penstock.publish.endpoints import log_id
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store

from .conftest import invoke, run


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_slot(tmp_path_factory.mktemp("damage"))
    ids = [
        IdsStatus(channel="trades", symbol=symbol, seen=[(1, LAST)], missing=[])
        for symbol in ("btc_usdt", "eth_usdt")
    ]
    status = CollectorStatus(
        exchange="binance", slot="a", pid=1, started_ms=1, at_ms=2, state="stopped", ids=ids
    )
    write_status(folder, status)
    return folder


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    """The second of three tables is gone."""
    folder = Path(shutil.copytree(killed, tmp_path / "data"))
    file_of(folder, "*.sst", 1).unlink()
    return folder


def lines(words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in words.splitlines()]


def test_a_dry_run_tells_what_is_damaged_and_changes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))

    done = invoke("log", "repair", "a", "--dry-run", "--data-dir", str(folder))

    assert done.returncode == 1
    assert "000017.sst is missing" in done.stdout
    assert "binance.trades.btc_usdt between 150 and 301" in " ".join(done.stdout.split())
    assert "Nothing was changed" in done.stderr
    assert sorted(folder.rglob("*")) == before


def test_without_consent_nothing_is_changed(folder: Path) -> None:
    before = sorted(folder.rglob("*"))

    done = invoke("log", "repair", "a", "--data-dir", str(folder))

    assert done.returncode == 1
    assert "Repair it with --yes." in done.stderr
    assert sorted(folder.rglob("*")) == before


def test_what_is_lost_is_listed_as_gaps_and_no_longer_called_seen(folder: Path) -> None:
    done = invoke("log", "repair", "--yes", "--json", "--data-dir", str(folder))

    (facts,) = lines(done.stdout)
    assert done.returncode == 0, done.stderr
    assert facts["repaired"] is True
    assert facts["records"] == 4 * (LAST - 150)
    assert Path(str(facts["kept_aside"])).is_dir()
    content = read_everything(folder)
    kept = [id_of_key(key) for key, _, _ in content[Stream("binance", "trades", "btc_usdt")]]
    assert kept == [*range(1, 151), *range(301, LAST + 1)]
    gaps = lines(invoke("gaps", "--json", "--data-dir", str(folder)).stdout)
    ids = [gap for gap in gaps if gap["kind"] == "ids"]
    assert [(gap["symbol"], gap["first_id"], gap["last_id"]) for gap in ids] == [
        ("btc_usdt", 151, 300),
        ("eth_usdt", 151, 300),
    ]
    breaks = [gap for gap in gaps if gap["kind"] == "interruption"]
    assert [(gap["symbol"], gap["channel"]) for gap in breaks] == [
        ("btc_usdt", "tickers"),
        ("eth_usdt", "tickers"),
    ]
    records = content[Stream("binance", "tickers", "btc_usdt")]
    at_ns = [int.from_bytes(key[1:9], "big") for key, _, _ in records]
    assert (breaks[0]["lost_ns"], breaks[0]["back_ns"]) == (at_ns[149], at_ns[150])
    status = read_status(folder, "a")
    assert status is not None
    assert status.ids[0].seen == [(1, 150), (301, LAST)]
    assert status.ids[0].missing == [(151, 300)]


def listed(folder: Path) -> None:
    """Let the ledger list all trades as complete."""

    async def write() -> None:
        store = await open_store(f"sqlite:{folder / 'state.db'}")
        documents = [
            SlotCoverage(
                exchange="binance", channel="trades", symbol=symbol, log_id=log_id(folder),
                slot="a", number=LAST, by="id", runs=(Run(1, LAST, 1, 2),),
            )
            for symbol in ("btc_usdt", "eth_usdt")
        ]  # fmt: skip
        await write_coverage(store, documents)
        await store.close()

    asyncio.run(write())


def test_what_is_lost_is_missing_in_the_ledger_too(folder: Path) -> None:
    listed(folder)
    words = ("--json", "--data-dir", str(folder))

    done = invoke("log", "repair", "--yes", *words)

    (facts,) = lines(done.stdout)
    assert done.returncode == 0, done.stderr
    lost = {"by": "id", "first": 151, "last": 300}
    streams = [f"binance.trades.{symbol}" for symbol in ("btc_usdt", "eth_usdt")]
    gaps = [{"stream": stream, **lost} for stream in streams]
    assert facts["ledger"] == {"corrected": True, "problem": None, "gaps": gaps}
    assert "2 ranges of lost trades or candles are gaps now" in done.stderr
    assert "penstock work" in done.stderr
    rows = [each for each in lines(invoke("gaps", *words).stdout) if each["kind"] == "gap"]
    assert [(row["symbol"], row["first"], row["last"], row["state"]) for row in rows] == [
        ("btc_usdt", 151, 300, "open"), ("eth_usdt", 151, 300, "open")
    ]  # fmt: skip
    assert {(row["cause"], row["origin"]) for row in rows} == {("damaged", "ours")}
    series = [
        each for each in lines(invoke("coverage", *words).stdout) if each["channel"] == "trades"
    ]
    assert [(each["gaps"], each["complete"]) for each in series] == [(150, LAST - 150)] * 2


def test_without_the_state_store_it_says_how_to_correct_the_ledger(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(folder)
    (folder / "state.db").write_bytes(b"this is no database" * 100)

    done = invoke("log", "repair", "--yes", "--data-dir", str(folder))

    assert done.returncode == 0, "the slot itself is repaired"
    assert "lost records are still listed as complete" in done.stderr
    assert "penstock jobs add binance trade_scan eth_usdt" in done.stderr


def test_what_is_sound_needs_no_consent(killed: Path) -> None:
    done = invoke("log", "repair", "--data-dir", str(killed))

    assert done.returncode == 0
    assert done.stdout == f"a: intact, {4 * LAST:,} records\n"


def test_a_slot_that_is_being_written_is_left_alone(folder: Path) -> None:
    shutil.rmtree(folder / "log")
    with closing(open_log(f"rocksdb:{folder}").writer("a")):
        done = run("log", "repair", "a", "--yes", "--data-dir", str(folder), folder=folder)

    assert done.returncode == 2
    assert "already being written" in done.stderr


def test_an_unknown_slot_is_named_with_those_there_are(killed: Path) -> None:
    done = invoke("log", "repair", "b", "--data-dir", str(killed))

    assert done.returncode == 2
    assert "no slot 'b'" in done.stderr
    assert "It has: a." in done.stderr


def test_every_command_that_reads_ends_with_an_error(killed: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(killed, tmp_path / "data"))
    flip(file_of(folder, "*.sst", 2).stat().st_size - 20)(file_of(folder, "*.sst", 2))

    for words in (
        ["log", "stats"],
        ["log", "scan", "binance.trades.btc_usdt"],
        ["log", "tail", "binance.trades.btc_usdt"],
        ["gaps"],
    ):
        done = invoke(*words, "--data-dir", str(folder))
        assert done.returncode == 2, words
        assert "the log is damaged" in done.stderr
        assert "penstock log repair a" in done.stderr


def test_a_marker_of_lost_records_is_read_back(folder: Path) -> None:
    invoke("log", "repair", "a", "--yes", "--data-dir", str(folder))

    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        (marker,) = reader.scan(Stream("binance", "disconnects", "btc_usdt"))
    event = marker.event
    assert isinstance(event, Disconnect)
    assert event.cause == "damaged"
    assert event.channels == ("tickers",)
    assert event.reason.startswith("log damaged: lost between received:")
