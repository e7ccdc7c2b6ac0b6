"""The projection: never ahead of the log, and after any restart equal to what the log holds."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import events

from penstock.coverage.batches import by_stream
from penstock.coverage.model import GapRow, Run, SlotCoverage
from penstock.coverage.projection import Projection
from penstock.coverage.timed_runs import TimedRuns
from penstock.market.events import Disconnect, Event, Ticker
from penstock.market.symbol import Symbol
from penstock.runtime.stream_taps import StreamTaps
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream

BTC = Symbol("BTC", "USDT")
TRADES = Stream("toy", "trades", "btc_usdt")
TICKERS = Stream("toy", "tickers", "btc_usdt")
SECOND = 1_000_000_000


def consecutive(_: str) -> frozenset[str]:
    return frozenset({"trades"})


def trade(number: int, second: int = 1) -> Event:
    return events.trade(number, BTC, "toy", received_at_ns=second * SECOND)


def ticker(second: int, source: str = "live") -> Event:
    return Ticker(
        exchange="toy", symbol=BTC, received_at_ns=second * SECOND, bid_text=str(second),
        source=source,  # type: ignore[arg-type]
    )  # fmt: skip


def cut(second: int, since: int | None = None, cause: Any = "disconnected") -> Disconnect:
    return Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=second * SECOND, channels=("tickers", "trades"),
        reason="cut off", since_ns=None if since is None else since * SECOND, cause=cause,
    )  # fmt: skip


class Slot:
    """A process that records to a slot, and what it has written to the state store."""

    def __init__(self, log: EventLog, slot: str = "collect-toy") -> None:
        self.log, self.slot = log, slot
        self.stored: dict[Stream, SlotCoverage] = {}
        self.gaps: list[GapRow] = []
        self.gathers = False
        """Whether records are gathered until they are written, as a process does it."""
        self.start()

    def start(self) -> None:
        """Begin, as after a kill: with what is stored and nothing else."""
        self.writer = self.log.writer(self.slot)
        self.projection = Projection(1, self.slot, consecutive, is_streamed=True)
        self.projection.found = self.gaps.append
        self.taps = StreamTaps([self.projection.take], 1e9, self.projection.has_ids)

    def resume(self) -> None:
        self.projection.resume(self.stored.values(), self.writer.last_numbers())
        with closing(self.log.reader()) as reader:
            for _ in self.projection.catch_up(reader):
                pass

    def record(self, *some: Event) -> None:
        recorded = self.writer.append(some)
        if self.gathers and recorded:
            self.taps(recorded)
        elif not self.gathers:
            self.projection.take(by_stream(recorded))

    def write(self) -> None:
        self.taps.pass_on()
        self.stored |= {each.stream: each for each in self.projection.changed()}

    def restart(self) -> None:
        self.writer.close()
        self.start()
        self.resume()

    def runs(self, stream: Stream = TRADES) -> list[tuple[int, int]]:
        found = self.stored.get(stream)
        return [(run.first, run.last) for run in found.runs] if found else []

    def seconds(self) -> list[tuple[float, float]]:
        return [(first / SECOND, last / SECOND) for first, last in self.runs(TICKERS)]


def slot() -> Slot:
    started = Slot(open_log("memory:"))
    started.resume()
    return started


def spread(runs: Sequence[tuple[int, int]]) -> set[int]:
    return {number for first, last in runs for number in range(first, last + 1)}


STEPS = st.lists(
    st.lists(st.integers(0, 30), min_size=1, max_size=8)
    | st.sampled_from(["write", "restart", "restart late"]),
    max_size=25,
)


@given(STEPS, st.booleans())
def test_any_history_of_ids_equals_the_log(steps: list[Any], gathers: bool) -> None:
    mine, recorded = slot(), set[int]()
    mine.gathers = gathers
    for step in steps:
        if step == "write":
            mine.write()
        elif step == "restart":
            mine.restart()
        elif step == "restart late":  # the store answers only later
            mine.writer.close()
            mine.start()
        else:
            mine.record(*map(trade, step))
            recorded |= set(step)
        # It may lag, and holds all records up to its number.
        assert spread(mine.runs()) <= recorded
        number = mine.stored[TRADES].number if mine.stored else 0
        with closing(mine.log.reader()) as log:
            numbered = {
                each.event.id  # type: ignore[attr-defined]
                for each in log.numbers(TRADES, mine.slot, 1, number or None)
            }
        assert not number or numbered <= spread(mine.runs())
    mine.write()
    mine.restart()
    mine.write()

    assert spread(mine.runs()) == recorded
    assert all(a[1] + 1 < b[0] for a, b in zip(mine.runs(), mine.runs()[1:], strict=False))


def test_a_clean_run_is_one_row_with_its_market_times() -> None:
    mine = slot()
    for number in range(100):
        mine.record(trade(number, second=number))
    mine.write()

    [run] = mine.stored[TRADES].runs
    first, last = events.trade(0), events.trade(99)
    assert run == Run(0, 99, first.at_ms, last.at_ms)
    assert mine.stored[TRADES].number == 100


def test_of_many_series_that_get_longer_each_is_written_in_its_turn() -> None:
    mine = slot()
    symbols = [Symbol(f"A{index}", "USDT") for index in range(5)]

    def grow(number: int) -> None:
        mine.record(*(replace(trade(number), symbol=symbol) for symbol in symbols))

    def written() -> list[str]:
        return [each.symbol for each in mine.projection.changed(most_longer=2)]

    grow(1)
    assert len(written()) == 5, "what was never written is written at once"
    rounds = []
    for number in range(2, 12):
        grow(number)
        rounds.append(written())
    assert {len(each) for each in rounds} == {2}
    for three in zip(rounds, rounds[1:], rounds[2:], strict=False):
        assert len({symbol for each in three for symbol in each}) == 5

    grow(20)
    assert len(written()) == 5, "and so is a gap"
    assert written() == []


def test_only_what_changed_is_written_and_a_failed_write_is_repeated() -> None:
    mine = slot()
    mine.record(trade(1))
    [document] = mine.projection.changed()
    assert mine.projection.changed() == []

    mine.projection.not_written([document])

    assert mine.projection.changed() == [document]


def test_a_log_that_lost_records_is_read_again() -> None:
    before = slot()
    before.record(trade(1), trade(2), trade(3))
    before.write()
    after = Slot(open_log("memory:"))
    after.writer.append([trade(1)])
    after.stored = before.stored

    after.resume()
    after.write()

    assert (after.runs(), after.stored[TRADES].number) == ([(1, 1)], 1)


def test_records_of_a_failed_attempt_are_read_from_the_log() -> None:
    mine = slot()
    mine.record(trade(1))
    mine.writer.append([trade(2)])  # the tap did not hear of it
    mine.record(trade(3))
    assert mine.projection.is_behind

    with closing(mine.log.reader()) as reader:
        for _ in mine.projection.catch_up(reader):
            pass
    mine.record(trade(4))
    mine.write()

    assert mine.runs() == [(1, 4)]


def test_what_is_recorded_while_the_log_is_read_is_not_left_out(tmp_path: Path) -> None:
    mine = Slot(open_log(f"rocksdb:{tmp_path}"))
    mine.writer.append([trade(1), ticker(1), ticker(2)])
    mine.projection.resume((), mine.writer.last_numbers())
    with closing(mine.log.reader()) as reader:
        reading = mine.projection.catch_up(reader)
        next(reading)

        mine.record(trade(2), ticker(3))
        mine.record(cut(5, since=4))
        for _ in reading:
            pass
    mine.record(trade(3), ticker(8))
    mine.write()
    mine.writer.close()

    assert mine.runs() == [(1, 3)]
    assert mine.seconds() == [(1, 4), (8, 8)]


def test_streams_that_never_pause_are_caught_up_with() -> None:
    mine = slot()
    mine.writer.append([trade(1), ticker(1)])
    mine.projection.resume((), mine.writer.last_numbers())
    last = 1
    with closing(mine.log.reader()) as reader:
        for _ in mine.projection.catch_up(reader):
            last += 1
            assert last < 20, "it does not end"
            mine.record(trade(last), ticker(last))
    mine.write()

    assert not mine.projection.is_behind
    assert mine.runs() == [(1, last)]
    assert mine.seconds() == [(1, last)]


def test_by_receive_time_runs_are_cut_at_disconnects() -> None:
    mine = slot()
    mine.record(ticker(1), ticker(5))
    mine.record(cut(9, since=6))
    mine.record(ticker(12), ticker(13))
    mine.write()

    assert mine.seconds() == [(1, 6), (12, 13)]
    [gap] = mine.gaps
    assert (gap.first, gap.last) == (6 * SECOND + 1, 12 * SECOND - 1)
    assert (gap.cause, gap.state) == ("disconnected", "unfillable")
    assert gap.reason == "cut off; the past of tickers cannot be requested"


def test_a_marker_between_records_of_one_batch_cuts_them() -> None:
    mine = slot()
    mine.record(ticker(1), trade(1, 1), cut(3), ticker(2), ticker(7), trade(2, 7))
    mine.write()

    assert mine.seconds() == [(1, 3), (7, 7)]
    assert mine.runs() == [(1, 2)], "ids show that nothing is missing"


def test_what_was_fetched_meanwhile_does_not_end_an_interruption() -> None:
    mine = slot()
    mine.record(ticker(1))
    mine.record(cut(3))
    mine.record(ticker(5, "rest"))
    mine.record(ticker(8))
    mine.write()

    assert mine.seconds() == [(1, 3), (8, 8)]


def test_quiet_streams_are_covered_while_they_are_connected() -> None:
    mine = slot()
    mine.record(ticker(1))
    mine.projection.alive(50 * SECOND)
    mine.record(cut(60, since=55))
    mine.projection.alive(90 * SECOND)
    mine.write()

    assert mine.seconds() == [(1, 55)]


def test_streams_that_are_not_collected_any_more_are_not_extended() -> None:
    mine = slot()
    mine.record(ticker(1))
    mine.write()
    mine.restart()

    mine.projection.alive(50 * SECOND)
    mine.write()

    assert mine.seconds() == [(1, 1)]


def test_an_interruption_goes_on_after_a_restart() -> None:
    mine = slot()
    mine.record(ticker(1), ticker(2))
    mine.write()
    mine.record(cut(3, cause="stopped"))
    mine.restart()

    mine.record(ticker(9))
    mine.write()

    assert mine.seconds() == [(1, 3), (9, 9)]
    [gap] = mine.gaps
    assert (gap.cause, gap.origin) == ("stopped", "ours")


@given(
    st.lists(st.sampled_from(["ticker", "cut", "write", "restart", "quiet", "batch"]), max_size=30),
    st.booleans(),
)
def test_any_history_by_time_equals_a_plain_account(steps: list[str], gathers: bool) -> None:
    mine, batch = slot(), list[Event]()
    mine.gathers = gathers
    covered, absent = set[int](), True

    for now, step in enumerate(steps, 1):
        if step in ("ticker", "cut"):
            batch.append(ticker(now) if step == "ticker" else cut(now, since=now - 1))
        if step == "batch":
            for event in batch:
                at = event.received_at_ns // SECOND
                if isinstance(event, Disconnect):
                    if not absent:
                        covered |= set(range(max(covered), at))
                    absent = True
                else:
                    covered |= {at} if absent else set(range(max(covered), at + 1))
                    absent = False
            mine.record(*batch)
            batch = []
        elif step == "write":
            mine.write()
        elif step == "restart":
            # A collector that starts records why it was away.
            mine.restart()
            if covered:
                last = max(covered)
                mine.record(cut(now, since=last if not absent else now - 1, cause="not_running"))
            absent, batch = True, []
    mine.write()
    mine.restart()
    mine.write()

    told = {second for first, last in mine.seconds() for second in range(int(first), int(last) + 1)}
    assert told == covered


def test_candles_are_known_by_time_and_an_interval_without_trades_is_covered() -> None:
    mine = slot()
    one = events.candle(60_000)
    mine.record(one, replace(one, open_ms=240_000, close_ms=299_999))
    stream = Stream("toy", "candles_1m", "btc_usdt")
    mine.write()
    assert mine.runs(stream) == [(60_000, 119_999), (240_000, 299_999)]

    mine.projection.cover(stream, 60_000, 360_000)
    mine.write()

    assert mine.runs(stream) == [(60_000, 359_999)]
    assert mine.stored[stream].runs[0].until_ms == 360_000
    mine.restart()
    mine.write()
    assert mine.runs(stream) == [(60_000, 359_999)]


def test_what_was_polled_has_no_coverage_by_time() -> None:
    log = open_log("memory:")
    projection = Projection(1, "fetch-toy", consecutive, is_streamed=False)
    projection.resume((), {})
    projection.take(by_stream(log.writer("fetch-toy").append([ticker(1, "rest"), trade(5)])))

    assert [each.stream for each in projection.changed()] == [TRADES]


def test_consecutive_ids_of_a_batch_are_one_range() -> None:
    writer = open_log("memory:").writer("a")
    cases = {
        (5, 6, 7): [(5, 7)],
        (5, 9, 7): [(5, 5), (9, 9), (7, 7)],
        (15, 12, 13): [(15, 15), (12, 13)],
    }
    for number, (ids, expected) in enumerate(cases.items()):
        [batch] = by_stream(writer.append([trade(100 * number + id_) for id_ in ids]))
        found = [(first - 100 * number, last - 100 * number) for first, last, *_ in batch.ranges]
        assert found == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6))))
def test_timed_runs_equal_a_set(added: list[tuple[int, int]]) -> None:
    runs, model = TimedRuns(), set[int]()
    for first, more in added:
        new = set(range(first, first + more + 1))
        assert runs.add(Run(first, first + more, 10 * first, 10 * (first + more))) == (
            not new <= model
        )
        model |= new

    assert spread([(run.first, run.last) for run in runs.all()]) == model
    assert all(
        (run.since_ms, run.until_ms) == (10 * run.first, 10 * run.last) for run in runs.all()
    )
