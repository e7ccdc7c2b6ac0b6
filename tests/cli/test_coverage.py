"""``penstock coverage`` and ``penstock gaps``: what the state store and the local log say."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests import events

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow, Run, SlotCoverage
from penstock.coverage.writing import write_coverage
from penstock.market.symbol import Symbol
from penstock.publish.endpoints import log_id
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

from .conftest import invoke

BTC = Symbol("BTC", "USDT")
TRADES = Stream("binance", "trades", "btc_usdt")


def record(folder: Path, ids: Sequence[int]) -> None:
    with closing(open_log(f"rocksdb:{folder}").writer("collect-binance")) as writer:
        writer.append(
            [events.trade(id_, BTC, "binance", received_at_ns=10**18 + id_) for id_ in ids]
        )


async def store_ledger(folder: Path) -> None:
    """Ids 1 to 4 and 11 to 15 of the log are projected; 5 to 7 were filled, 8 to 10 are open."""
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    held = SlotCoverage(
        **TRADES._asdict(), log_id=log_id(folder), slot="collect-binance", number=9, by="id",
        runs=(Run(1, 4, 1000, 4000), Run(11, 15, 11_000, 15_000)),
    )  # fmt: skip
    await write_coverage(store, [held])
    rows = GapRows(store)
    gap = GapRow(
        **TRADES._asdict(), by="id", first=5, last=10, cause="disconnected", origin="exchange",
        reason="closed by the exchange (1001)", since_ms=4000, until_ms=11_000,
    )  # fmt: skip
    await rows.open(gap)
    await rows.mark_filled(TRADES, "id", 5, 7)
    await store.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coverage")
    record(folder, [*range(1, 5), *range(11, 21)])
    asyncio.run(store_ledger(folder))
    return folder


def lines(folder: Path, *words: str) -> list[dict[str, object]]:
    done = invoke(*words, "--json", "--data-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_ledger_is_that_of_the_store_and_of_the_log_beyond_it(folder: Path) -> None:
    [series] = lines(folder, "coverage", "binance", "BTC/USDT")

    intervals = series.pop("intervals")
    assert isinstance(intervals, list)
    assert [(each["first"], each["last"], each["state"]) for each in intervals] == [
        (1, 4, "complete"), (5, 7, "filled"), (8, 10, "gap"), (11, 20, "complete"),
    ]  # fmt: skip
    assert series == {
        "exchange": "binance", "channel": "trades", "symbol": "btc_usdt", "by": "id",
        "share": 85.0, "total": 20, "complete": 14, "filled": 3, "gaps": 3, "unfillable": 0,
        "unreported": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("required", "code"), [("80", 0), ("99.99", 1)])
def test_what_is_required_decides_the_exit_code(folder: Path, required: str, code: int) -> None:
    done = invoke("coverage", "--require", required, "--data-dir", str(folder))

    assert done.returncode == code
    assert "85.0000 %" in done.stdout
    assert ("binance btc_usdt trades is complete to 85.0000 %" in done.stderr) == bool(code)


def test_gaps_are_listed_with_their_state_and_cause(folder: Path) -> None:
    [gap] = lines(folder, "gaps")
    assert {name: gap[name] for name in ("kind", "first", "last", "state", "cause", "origin")} == {
        "kind": "gap", "first": 8, "last": 10, "state": "open", "cause": "disconnected",
        "origin": "exchange",
    }  # fmt: skip

    assert [each["state"] for each in lines(folder, "gaps", "--filled")] == ["filled", "open"]


def test_people_read_a_table_of_gaps(folder: Path) -> None:
    done = invoke("gaps", "--filled", "--data-dir", str(folder))

    assert done.returncode == 0
    assert "disconnected (exchange)" in done.stdout.replace("\n", " ")
    assert "2 gaps: 1 filled, 1 open" in done.stdout


def test_without_anything_that_is_said(tmp_path: Path) -> None:
    done = invoke("coverage", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (
        0, "Nothing was collected yet. Begin with: penstock collect\n",
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert invoke("coverage", "--require", "99", "--data-dir", str(tmp_path)).returncode == 1


def test_a_market_that_was_never_collected_is_refused(folder: Path) -> None:
    done = invoke("coverage", "binance", "eth_usdt", "--data-dir", str(folder))

    assert done.returncode == 2
    assert "has no data of 'binance eth_usdt'" in done.stderr
