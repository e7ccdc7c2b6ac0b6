"""Continuity: whatever is recorded, in whatever order, the list of what is missing is the truth."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import process_time

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import events

from penstock.coverage.batches import by_stream
from penstock.coverage.continuity import Continuity
from penstock.coverage.facts import GapFound, RecordsLost
from penstock.coverage.stored import GapCount, IdsStatus
from penstock.market.events import Disconnect, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, LogWriter, open_log
from penstock.storage.log.keys import Stream
from penstock.telemetry import Fact, quiet

BTC = Symbol("BTC", "USDT")
TRADES = Stream("toy", "trades", "btc_usdt")
ids = st.lists(st.integers(0, 30), max_size=40)


def trade(number: int, exchange: str = "toy") -> Trade:
    return events.trade(number, exchange=exchange, received_at_ns=1)


def heard(continuity: Continuity, writer: LogWriter, numbers: Sequence[int]) -> None:
    for number in numbers:
        continuity.take(by_stream(writer.append([trade(number)])))


def resumed(log: EventLog, before: Sequence[IdsStatus]) -> Continuity:
    continuity = Continuity(["trades"], quiet)
    with closing(log.reader()) as reader:
        continuity.resume("toy", before, reader)
    return continuity


def spread(runs: Sequence[tuple[int, int]]) -> set[int]:
    return {number for first, last in runs for number in range(first, last + 1)}


@given(ids)
def test_every_id_between_the_first_and_the_last_is_seen_or_missing(numbers: list[int]) -> None:
    continuity = Continuity(["trades"], quiet)
    heard(continuity, open_log("memory:").writer("a"), numbers)

    seen = {number for each in continuity.status() for number in spread(each.seen)}
    missing = {number for each in continuity.status() for number in spread(each.missing)}
    between = set(range(min(numbers), max(numbers) + 1)) if numbers else set()
    assert seen == set(numbers)
    assert missing == between - set(numbers)


@given(ids, ids)
def test_a_successor_knows_what_was_recorded_after_the_last_status(
    told: list[int], unreported: list[int]
) -> None:
    log = open_log("memory:")
    writer = log.writer("a")
    predecessor = Continuity(["trades"], quiet)
    heard(predecessor, writer, told)
    before = predecessor.status()
    heard(predecessor, writer, unreported)

    # What came late, into a hole or below everything, must not be called missing.
    assert resumed(log, before).status() == predecessor.status()


@given(ids)
def test_without_a_status_the_log_tells_all(numbers: list[int]) -> None:
    log = open_log("memory:")
    predecessor = Continuity(["trades"], quiet)
    heard(predecessor, log.writer("a"), numbers)

    assert resumed(log, ()).status() == predecessor.status()


def test_what_was_missed_while_away_is_missing_with_the_first_new_record() -> None:
    log = open_log("memory:")
    writer, predecessor = log.writer("a"), Continuity(["trades"], quiet)
    heard(predecessor, writer, [1, 2, 3])
    facts: list[Fact] = []
    successor = Continuity(["trades"], facts.append)
    with closing(log.reader()) as reader:
        successor.resume("toy", predecessor.status(), reader)
    heard(successor, writer, [8])

    assert successor.status()[0].missing == [(4, 7)]
    assert facts == [GapFound(exchange="toy", channel="trades", symbol="btc_usdt", first=4, last=7)]


def test_a_lost_tail_is_missing_once_the_exchange_tells_of_it() -> None:
    continuity = Continuity(["trades"], quiet)
    heard(continuity, open_log("memory:").writer("a"), [1, 2])
    assert not continuity.behind(TRADES)

    continuity.note_latest(TRADES, 5)

    assert continuity.behind(TRADES)
    assert continuity.last(TRADES) == 2
    assert continuity.status()[0].missing == [(3, 5)]


def test_a_lost_tail_stays_missing_after_a_restart() -> None:
    log = open_log("memory:")
    predecessor = Continuity(["trades"], quiet)
    heard(predecessor, log.writer("a"), [1, 2])
    predecessor.note_latest(TRADES, 5)

    assert resumed(log, predecessor.status()).status()[0].missing == [(3, 5)]


def test_a_stream_of_which_nothing_was_ever_seen_misses_nothing() -> None:
    continuity = Continuity(["trades"], quiet)
    continuity.note_latest(TRADES, 5)

    assert not continuity.behind(TRADES)
    assert continuity.last(TRADES) is None
    assert continuity.status() == []


def test_other_exchanges_and_channels_without_consecutive_ids_are_left_alone() -> None:
    log = open_log("memory:")
    ticker = Ticker(exchange="toy", symbol=BTC, received_at_ns=1, update_id=5, bid_text="1")
    stored = log.writer("a").append([trade(1, exchange="other"), ticker])

    assert resumed(log, ()).status() == []
    continuity = Continuity(["trades"], quiet)
    continuity.take(by_stream([each for each in stored if each.stream.channel == "tickers"]))
    assert continuity.status() == []


def test_gaps_are_counted_by_their_cause() -> None:
    continuity, writer = Continuity(["trades"], quiet), open_log("memory:").writer("a")
    cut = Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=1, channels=("trades", "tickers"), reason="cut"
    )
    heard(continuity, writer, [1, 3])
    continuity.take(by_stream(writer.append([cut])))
    heard(continuity, writer, [7, 9])
    continuity.take(by_stream(writer.append([replace(cut, received_at_ns=2)])))
    heard(continuity, writer, [10])

    assert continuity.gaps() == [
        GapCount(channel="trades", cause="lost", count=2),
        GapCount(channel="tickers", cause="disconnected", count=2),
        GapCount(channel="trades", cause="disconnected", count=1),
    ], "where ids tell that nothing is missing there is no gap"


def test_ten_thousand_holes_are_taken_up_at_once(tmp_path: Path) -> None:
    log = open_log(f"rocksdb:{tmp_path}")
    numbers = range(1, 60_000, 6)
    for slot in ("collect-toy", "work-0"):
        with closing(log.writer(slot)) as writer:
            writer.append([trade(number) for number in numbers])
            writer.append([trade(number) for number in (8, 30_002)])
    seen = [(number, number) for number in numbers]
    before = [IdsStatus(channel="trades", symbol="btc_usdt", seen=seen, missing=[])]
    began_s = process_time()
    continuity = resumed(log, before)
    status = continuity.status()
    took_s = process_time() - began_s

    assert took_s < 5, f"{took_s:.2f} s"
    assert spread(status[0].seen) == {*numbers, 8, 30_002}
    assert len(status[0].missing) == 9_999


def test_records_of_an_attempt_that_failed_are_not_called_missing() -> None:
    continuity = Continuity(["trades"], quiet)
    heard(continuity, open_log("memory:").writer("a"), [1, 4])
    continuity.recovered([trade(2), trade(3)])

    assert continuity.status()[0].missing == []


@given(ids.filter(bool), st.data())
def test_what_a_status_calls_seen_and_the_log_lost_is_missing(
    numbers: list[int], data: st.DataObject
) -> None:
    predecessor = Continuity(["trades"], quiet)
    heard(predecessor, open_log("memory:").writer("a"), numbers)
    kept = data.draw(st.sets(st.sampled_from(numbers)))
    damaged, facts = open_log("memory:"), list[Fact]()
    damaged.writer("a").append([trade(number) for number in sorted(kept)])

    successor = Continuity(["trades"], facts.append)
    with closing(damaged.reader()) as reader:
        successor.resume("toy", predecessor.status(), reader, doubted=True)

    [status] = successor.status()
    assert spread(status.seen) == kept
    assert spread(status.missing) == set(range(min(numbers), max(numbers) + 1)) - kept
    assert sum(fact.count for fact in facts if isinstance(fact, RecordsLost)) == len(
        set(numbers) - kept
    )
    # And so it stays, for those who come after.
    again = resumed(damaged, [status])
    assert again.status() == [status]
