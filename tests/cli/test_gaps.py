"""``penstock gaps``: every range that is known to be missing, by market."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests import events

from penstock.collect.status import CollectorStatus, write_status
from penstock.coverage.stored import IdsStatus
from penstock.market.events import Disconnect, Event, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

from .conftest import invoke

BTC, WON = Symbol("BTC", "USDT"), Symbol("BTC", "KRW")
SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


def trade(exchange: str, symbol: Symbol, number: int, second: int) -> Trade:
    return events.trade(number, symbol, exchange, received_at_ns=NOON + second * SECOND)


def lost(exchange: str, symbol: Symbol, second: int) -> Disconnect:
    return Disconnect(
        exchange=exchange, symbol=symbol, received_at_ns=NOON + second * SECOND,
        channels=("trades", "tickers"), reason="cut",
    )  # fmt: skip


def record(folder: Path, slot: str, events: Sequence[Event]) -> None:
    with closing(open_log(f"rocksdb:{folder}").writer(slot)) as writer:
        for event in events:
            writer.append([event])


def knows(
    folder: Path, slot: str, seen: list[tuple[int, int]], missing: list[tuple[int, int]]
) -> None:
    ids = IdsStatus(channel="trades", symbol=BTC.slug, seen=seen, missing=missing)
    status = CollectorStatus(
        exchange="binance", slot=slot, pid=1, started_ms=0, at_ms=0, state="stopped", ids=[ids]
    )
    write_status(folder, status)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two slots with holes that a third fills in part; an exchange whose ids tell nothing."""
    folder = tmp_path_factory.mktemp("gaps")
    live = [trade("binance", BTC, number, number) for number in (1, 2, 6, 9)]
    record(folder, "collect-binance", [*live, lost("binance", BTC, 3)])
    record(folder, "collect-binance-b", [trade("binance", BTC, 4, 4)])
    record(folder, "fetch-binance", [trade("binance", BTC, 7, 500)])
    knows(folder, "collect-binance", [(1, 2), (6, 6), (9, 9)], [(3, 5), (7, 8), (10, 12)])
    knows(folder, "collect-binance-b", [(4, 4)], [])
    won = [trade("upbit", WON, number, second) for number, second in ((5, 0), (90, 7200))]
    breaks = [lost("upbit", WON, second) for second in (60, 61, 7300)]
    record(folder, "collect-upbit", [*won, *breaks])
    return folder


def found(folder: Path, *words: str) -> list[dict[str, object]]:
    done = invoke("gaps", *words, "--json", "--data-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_range_of_ids_that_no_slot_holds_is_listed(folder: Path) -> None:
    listed = [one for one in found(folder, "binance", "BTC-USDT") if one["kind"] == "ids"]

    assert [(one["first_id"], one["last_id"], one["count"]) for one in listed] == [
        (3, 3, 1), (5, 5, 1), (8, 8, 1), (10, 12, 3),
    ]  # fmt: skip
    assert {(one["exchange"], one["symbol"], one["channel"]) for one in listed} == {
        ("binance", "btc_usdt", "trades")
    }


def test_where_ids_do_not_tell_interruptions_are_listed(folder: Path) -> None:
    by_channel = {
        (one["exchange"], one["channel"], one["lost_ns"]): one["back_ns"]
        for one in found(folder)
        if one["kind"] == "interruption"
    }

    assert by_channel == {
        ("binance", "tickers", NOON + 3 * SECOND): None,  # trades are known by id
        ("upbit", "trades", NOON + 60 * SECOND): NOON + 7200 * SECOND,  # and the next lost in it
        ("upbit", "tickers", NOON + 60 * SECOND): None,
        ("upbit", "trades", NOON + 7300 * SECOND): None,
    }


def test_people_read_a_table(folder: Path) -> None:
    done = invoke("gaps", "--data-dir", str(folder))

    assert done.returncode == 0
    assert "6 ids missing in 4 ranges" in done.stdout
    assert "2023-11-14 22:14:20" in done.stdout
    assert "upbit: trade ids are not consecutive" in done.stdout


def test_nothing_missing_is_said(tmp_path: Path) -> None:
    record(tmp_path, "collect-binance", [trade("binance", BTC, 1, 1)])
    knows(tmp_path, "collect-binance", [(1, 1)], [])

    done = invoke("gaps", "--data-dir", str(tmp_path))

    assert (done.returncode, done.stdout) == (0, "No known gaps in 1 market.\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["binanse"], 2, "This folder has no data of 'binanse'. Did you mean binance?"),
        (["binance", "btc_usdc"], 2, "Did you mean binance btc_usdt?"),
        (["--data-dir", "absent"], 1, "there is no folder absent. Choose another with --data-dir"),
        (["--data-dir", "empty"], 1, "empty has no collected data. Begin with: penstock"),
    ],
)
def test_what_was_never_collected_is_said(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    where = ["--data-dir", str(folder)] if "--data-dir" not in words else []

    done = invoke("gaps", *words, *where)

    assert done.returncode == code
    assert says in done.stderr
    assert done.stdout == ""
    assert [each.name for each in tmp_path.iterdir()] == ["empty"]
