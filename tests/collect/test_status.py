"""The status file: always whole, always ours, or said not to be."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import events

from penstock.clock import ManualClock
from penstock.collect import status_file
from penstock.collect.facts import StatusUnwritable
from penstock.collect.reporter import Reporter, StatusLocation
from penstock.collect.status import (
    FOLDER,
    BookStatus,
    CollectorStatus,
    ConnectionStatus,
    ShardStatus,
    read_all,
    read_status,
    with_books_stopped,
    write_status,
)
from penstock.coverage.batches import by_stream
from penstock.coverage.continuity import Continuity
from penstock.coverage.stored import IdsStatus
from penstock.errors import NotOurRecord, StorageError
from penstock.market.events import Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log
from penstock.telemetry import Fact, quiet

BTC = Symbol("BTC", "USDT")


def status(slot: str, trouble: str = "") -> CollectorStatus:
    return CollectorStatus(
        exchange="toy", slot=slot, pid=1, started_ms=0, at_ms=0, state="running", trouble=trouble
    )


def trade(number: int) -> Trade:
    return events.trade(number, price_text=f"{number}.5")


runs = st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)), max_size=5)


@settings(max_examples=20)  # each is a file that is synced
@given(runs, runs, st.dictionaries(st.text(max_size=20), st.integers(0, 2**40)), st.text())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    seen: list[tuple[int, int]],
    missing: list[tuple[int, int]],
    reconnects: dict[str, int],
    trouble: str,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "written"
    ids = [IdsStatus(channel="trades", symbol="btc_usdt", seen=seen, missing=missing)]
    written = replace(status("a", trouble), ids=ids, reconnects=reconnects)

    write_status(folder, written)

    assert read_status(folder, "a") == written


def test_fields_that_were_renamed_keep_their_names_in_the_file(tmp_path: Path) -> None:
    connection = ConnectionStatus(number=1, state="connected", is_primary=True)
    shard = ShardStatus(state="connected", members=[connection])
    write_status(tmp_path, replace(status("a"), shards=[shard], stalled=["trades btc_usdt"]))

    written = msgspec.json.decode((tmp_path / FOLDER / "a.json").read_bytes())

    assert written["mute"] == ["trades btc_usdt"]
    assert written["shards"][0]["legs"][0]["leads"] is True


def test_a_slot_that_never_was_has_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path, "a") is None
    assert read_all(tmp_path) == []


def test_one_that_died_while_writing_leaves_the_old_status(tmp_path: Path) -> None:
    write_status(tmp_path, status("a"))
    (tmp_path / FOLDER / "a.new").write_bytes(b'{"exchange":"toy","sl')

    assert read_all(tmp_path) == [status("a")]
    write_status(tmp_path, status("a", "some"))
    assert read_all(tmp_path) == [status("a", "some")]


def test_who_reads_while_a_status_is_replaced_has_the_old_one_whole(tmp_path: Path) -> None:
    write_status(tmp_path, status("a"))
    with (tmp_path / FOLDER / "a.json").open("rb") as opened:
        write_status(tmp_path, status("a", "some"))
        found = opened.read()

    assert msgspec.json.decode(found, type=CollectorStatus) == status("a")


def test_books_of_a_process_that_ended_are_not_called_synced() -> None:
    book = BookStatus(symbol="btc_usdt", state="synced", reason="", update_id=5, resyncs=0)

    (stopped,) = with_books_stopped(replace(status("a"), books=[book])).books

    assert (stopped.state, stopped.was_synced) == ("stopped", True)


def test_all_are_read_by_name(tmp_path: Path) -> None:
    for slot in ("b", "a"):
        write_status(tmp_path, status(slot))

    assert [each.slot for each in read_all(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 40, b'{"exchange":5}'])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, damage: bytes) -> None:
    write_status(tmp_path, status("a"))
    (tmp_path / FOLDER / "a.json").write_bytes(damage)

    with pytest.raises(NotOurRecord, match=r"a\.json is not a status.*Remove it"):
        read_status(tmp_path, "a")


def test_one_that_cannot_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")

    with pytest.raises(StorageError, match=r"a\.json: Not a directory\. Check the disk"):
        read_status(tmp_path, "a")


def test_the_reporter_counts_what_was_recorded_and_how_fast(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    reporter = Reporter(StatusLocation("toy", "a", tmp_path), Continuity(["trades"], quiet), clock)
    ticker = Ticker(exchange="toy", symbol=BTC, received_at_ns=1, update_id=5, bid_text="7.5")
    reporter(by_stream(open_log("memory:").writer("a").append([trade(1), trade(2), ticker])))
    clock.step_wall(2.0)
    reporter.write("running")

    written = read_status(tmp_path, "a")
    assert written is not None
    shown = {each.channel: each for each in written.streams}
    assert (shown["trades"].records, shown["trades"].per_second) == (2, 1.0)
    assert shown["trades"].last_price == "2.5"
    assert shown["tickers"].last_price == "7.5"
    assert (written.at_ms, written.started_ms) == (3_000, 1_000)


def test_trouble_is_told_until_it_runs_again(tmp_path: Path) -> None:
    reporter = Reporter(
        StatusLocation("toy", "a", tmp_path), Continuity(["trades"], quiet), ManualClock(1)
    )
    told = []
    reporter.write("starting", trouble="nobody answers")
    told.append(reporter.latest)
    reporter.write("running")
    told.append(reporter.latest)

    assert [each.trouble for each in told if each] == ["nobody answers", ""]


def test_a_status_tells_what_is_missing_from_the_first_moment_on(tmp_path: Path) -> None:
    log = open_log("memory:")
    log.writer("a").append([trade(1), trade(4)])
    continuity = Continuity(["trades"], quiet)
    continuity.resume("toy", (), log.reader())
    Reporter(StatusLocation("toy", "a", tmp_path), continuity, ManualClock(1)).write("starting")

    written = read_status(tmp_path, "a")
    assert written is not None
    assert written.ids[0].missing == [(2, 3)]


def test_a_status_that_cannot_be_written_is_said_once_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    facts: list[Fact] = []
    reporter = Reporter(
        StatusLocation("toy", "a", tmp_path),
        Continuity(["trades"], quiet),
        ManualClock(1),
        facts.append,
    )
    reporter.write("running")
    reporter.write("running")

    assert [type(fact) for fact in facts] == [StatusUnwritable]
    (tmp_path / FOLDER).unlink()
    reporter.write("running")
    assert read_status(tmp_path, "a") == reporter.latest


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 1.0), (0.01, 1.0), (0.02, 2.0), (5.0, 3.0)])
def test_a_status_takes_one_percent_of_the_time_or_comes_less_often(
    took_s: float, pause_s: float
) -> None:
    assert status_file.pause_s(took_s) == pytest.approx(pause_s)
