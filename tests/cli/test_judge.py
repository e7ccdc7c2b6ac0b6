"""``penstock judge``: honest data is called so, and doctored data is found out."""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from penstock.cli.judge import gather
from penstock.collect.status import BookStatus, CollectorStatus, read_status, write_status
from penstock.coverage.stored import IdsStatus
from penstock.market.events import BookSnapshot, Event, Trade
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

from .conftest import run

SLOT = "collect-binance"
Doctor = Callable[[list[Event]], Sequence[Event]]


def doctored(collected: Path, folder: Path, doctor: Doctor) -> Path:
    """A copy of what was collected, changed on the way."""
    source = collected / "penstock-data"
    shutil.copytree(source / "status", folder / "status")
    with (
        closing(open_log(f"rocksdb:{source}").reader()) as reader,
        closing(open_log(f"rocksdb:{folder}").writer(SLOT)) as writer,
    ):
        for stream in reader.streams():
            events = [stored.event for stored in reader.scan(stream)]
            writer.append(doctor(events) if stream.symbol == "btc_usdt" else events)
    return folder


def trades_only(change: Callable[[list[Trade]], Sequence[Event]]) -> Doctor:
    def doctor(events: list[Event]) -> Sequence[Event]:
        trades = [event for event in events if isinstance(event, Trade)]
        return change(trades) if trades else events

    return doctor


def removed(trades: list[Trade]) -> Sequence[Event]:
    return trades[:5] + trades[6:]


def altered(trades: list[Trade]) -> Sequence[Event]:
    return [*trades[:5], replace(trades[5], price_text="1.23"), *trades[6:]]


def invented(trades: list[Trade]) -> Sequence[Event]:
    return [*trades, replace(trades[-1], id=10**12)]


def book_altered(events: list[Event]) -> Sequence[Event]:
    return [
        replace(event, bids_raw=write_levels([("1.00", "1.00")]))
        if isinstance(event, BookSnapshot)
        else event
        for event in events
    ]


def test_honest_data_is_right(collected: Path, exchange: str) -> None:
    done = run("judge", exchange, folder=collected)

    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "complete and correct"


@pytest.mark.parametrize(
    ("doctor", "finding"),
    [
        (trades_only(removed), "gaps_unlisted"),
        (trades_only(altered), "trades_wrong"),
        (trades_only(invented), "trades_wrong"),
        (book_altered, "book_mismatches"),
    ],
    ids=["removed", "altered", "invented", "book"],
)
def test_doctored_data_is_found_out(
    collected: Path, exchange: str, tmp_path: Path, doctor: Doctor, finding: str
) -> None:
    folder = doctored(collected, tmp_path / "data", doctor)
    done = run("judge", exchange, "--data-dir", str(folder), "--json", folder=tmp_path)

    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)
    assert findings[finding] >= 1
    if finding != "book_mismatches":
        assert findings[finding] == 1


@pytest.mark.parametrize("untrue", ["recorded", "never was"])
def test_a_gap_that_is_none_is_found_out(
    collected: Path, exchange: str, tmp_path: Path, untrue: str
) -> None:
    folder = doctored(collected, tmp_path / "data", lambda events: events)
    status = read_status(folder, SLOT)
    assert status is not None
    first = status.ids[0].seen[0][0] if untrue == "recorded" else 10**12
    ids = [replace(status.ids[0], missing=[(first, first)]), *status.ids[1:]]
    write_status(folder, replace(status, ids=ids))
    done = run("judge", exchange, "--data-dir", str(folder), "--json", folder=tmp_path)

    assert done.returncode == 1
    assert json.loads(done.stdout)["gaps_untrue"] == 1


def test_nothing_is_not_called_right(tmp_path: Path, exchange: str) -> None:
    done = run("judge", exchange, folder=tmp_path)

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "nothing was collected"


def test_without_a_simulator_there_is_no_judgement(collected: Path, unused_tcp_port: int) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        nobody, somebody = (f"http://127.0.0.1:{p}" for p in (unused_tcp_port, other.server_port))
        for address in (nobody, somebody, "rubbish"):
            done = run("judge", address, folder=collected)

            assert done.returncode == 2
            assert f"No simulator with these markets answers at {address}" in done.stderr
            assert "Traceback" not in done.stderr
        other.shutdown()


def test_books_without_ids_are_judged_by_their_times(tmp_path: Path) -> None:
    levels = write_levels([("1.00", "2.00")])
    books = [
        BookSnapshot(
            exchange="kraken",
            symbol=Symbol("BTC", "USD"),
            received_at_ns=number,
            update_id=update_id,
            at_ns=5_000_999_999,
            bids_raw=levels,
            asks_raw=levels,
        )
        for number, update_id in ((1, 0), (2, 77))
    ]
    with closing(open_log(f"rocksdb:{tmp_path}").writer("collect-kraken")) as writer:
        writer.append(books)

    (evidence,) = gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), "kraken").values()

    assert {(book.update_id, book.at_ms) for book in evidence.books} == {(0, 5_000), (77, None)}


def test_a_book_without_a_number_or_a_time_is_not_held_against_anything(tmp_path: Path) -> None:
    def book(number: int, at_ns: int | None) -> BookSnapshot:
        levels = write_levels([("1.00", "1.00")])
        return BookSnapshot(
            exchange="binance", symbol=Symbol("BTC", "USDT"), received_at_ns=number + 1,
            update_id=number, at_ns=at_ns, bids_raw=levels, asks_raw=levels,
        )  # fmt: skip

    with closing(open_log(f"rocksdb:{tmp_path}").writer(SLOT)) as writer:
        writer.append([book(0, None), book(7, None), book(0, 1_700_000_000_000_123_456)])

    books = gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), "binance")["btc_usdt"].books
    assert {(each.update_id, each.at_ms) for each in books} == {(7, None), (0, 1_700_000_000_000)}


def test_what_a_worker_has_filled_is_not_missing(tmp_path: Path) -> None:
    trades = [
        Trade(
            exchange="kraken", symbol=Symbol("BTC", "USD"), received_at_ns=number, id=number,
            at_ns=number, price_text="1", quantity_text="1", taker="buy",
        )
        for number in range(1, 10)
    ]  # fmt: skip
    log = open_log(f"rocksdb:{tmp_path}")
    for slot, recorded in (("collect-kraken", trades[:2]), ("work-0", trades[3:5])):
        with closing(log.writer(slot)) as writer:
            writer.append(recorded)
    ids = IdsStatus(channel="trades", symbol="btc_usd", seen=[(1, 1)], missing=[(2, 7)])
    write_status(
        tmp_path,
        CollectorStatus(
            exchange="kraken", slot="collect-kraken", pid=1, started_ms=0, at_ms=0,
            state="stopped", ids=[ids],
        ),
    )  # fmt: skip

    (evidence,) = gather(tmp_path, log, "kraken").values()

    assert evidence.missing == [(2, 3), (6, 7)], "what the collector itself holds is not filled"
    assert len(evidence.trades) == 4


def test_what_other_exchanges_have_in_the_same_folder_is_left_alone(tmp_path: Path) -> None:
    levels = write_levels([("1.00", "1.00")])
    for number, exchange in enumerate(("coinbase", "kraken"), start=1):
        book = BookSnapshot(
            exchange=exchange, symbol=Symbol("BTC", "USD"), received_at_ns=number, update_id=number,
            at_ns=5_000_000_000, bids_raw=levels, asks_raw=levels,
        )  # fmt: skip
        books = [BookStatus(symbol="btc_usd", state="synced", reason="", update_id=1, resyncs=0)]
        with closing(open_log(f"rocksdb:{tmp_path}").writer(f"collect-{exchange}")) as writer:
            writer.append([book])
        write_status(
            tmp_path,
            CollectorStatus(
                exchange=exchange, slot=f"collect-{exchange}", pid=1, started_ms=0, at_ms=0,
                state="stopped", books=books if exchange == "coinbase" else [],
            ),
        )  # fmt: skip

    (evidence,) = gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), "kraken").values()

    assert [book.update_id for book in evidence.books] == [2]
    assert not evidence.synced
