"""Reading by receive time, of many streams at once: nothing left out, nothing twice."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, LogReader, Received, open_log, received_at_ns

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND
BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
FAR_MORE = 10**9


@pytest.fixture(params=["memory", "rocksdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return open_log("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}")


def shown(reader: LogReader) -> list[Received]:
    """Every record as a scan shows it."""
    return sorted(
        Received(received_at_ns(each.record), each.slot, each.number, each.topic, each.record)
        for stream in reader.streams()
        for each in reader.scan(stream)
    )


Times = st.integers(0, 4 * SECOND).map(lambda offset: offset - offset % (SECOND // 4) + NOON)
Trades = st.builds(
    lambda number, at_ns, symbol: events.trade(number, symbol, received_at_ns=at_ns),
    st.integers(0, 40),
    Times,
    st.sampled_from((BTC, ETH)),
)
Tickers = st.builds(events.ticker, Times)
Candles = st.builds(
    lambda minute, at_ns, close: events.candle(
        minute * 60_000, received_at_ns=at_ns, close_text=close
    ),
    st.integers(0, 3),
    Times,
    st.sampled_from("12"),
)
Appends = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c")),
        st.booleans(),
        st.lists(st.one_of(Trades, Tickers, Candles), min_size=1, max_size=30),
    ),
    max_size=8,
)


def check(log: EventLog, made: list[tuple[str, bool, list[Event]]], steps: list[int]) -> None:
    writers = {slot: log.writer(slot) for slot in ("a", "b", "c")}
    for slot, restarts, batch in made:
        if restarts:
            writers[slot].close()
            writers[slot] = log.writer(slot)
        writers[slot].append(batch)
    reader = log.reader()
    streams = reader.streams()
    expected = shown(reader)

    found, at_ns, end_ns = list[Received](), NOON - SECOND, reader.end_ns(streams) or 0
    while at_ns < end_ns:
        for step in steps:
            part = reader.received(streams, at_ns, at_ns + step * SECOND // 4, FAR_MORE)
            found += sorted(part.records)
            at_ns = part.until_ns

    assert found == expected
    if expected:
        first_ns = reader.next_received_ns(streams, 0)
        assert first_ns is not None
        assert first_ns <= expected[0].received_at_ns
        assert expected[-1].received_at_ns < end_ns
        assert reader.next_received_ns(streams, end_ns) is None
    reader.close()
    for writer in writers.values():
        writer.close()


@settings(deadline=None)
@given(made=Appends, steps=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_windows_hold_what_a_scan_shows_in_memory(
    made: list[tuple[str, bool, list[Event]]], steps: list[int]
) -> None:
    check(open_log("memory:"), made, steps)


@settings(max_examples=15, deadline=None)
@given(made=Appends, steps=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_windows_hold_what_a_scan_shows_on_disk(
    made: list[tuple[str, bool, list[Event]]], steps: list[int]
) -> None:
    with TemporaryDirectory() as folder:
        check(open_log(f"rocksdb:{folder}"), made, steps)


def test_a_range_with_too_many_records_is_cut_short(log: EventLog) -> None:
    writer = log.writer("a")
    for second in range(8):
        writer.append(
            [events.trade(10 * second + i, received_at_ns=NOON + second * SECOND) for i in range(9)]
        )
    reader = log.reader()
    streams = reader.streams()

    part = reader.received(streams, NOON, NOON + 8 * SECOND, most=20)

    assert part.until_ns == NOON + 2 * SECOND
    assert len(part.records) == 18
    reader.close()
    writer.close()


def test_a_second_is_never_cut(log: EventLog) -> None:
    writer = log.writer("a")
    writer.append([events.trade(i, received_at_ns=NOON + i) for i in range(50)])
    reader = log.reader()

    part = reader.received(reader.streams(), NOON, NOON + SECOND, most=20)

    assert len(part.records) == 50
    reader.close()
    writer.close()


@pytest.mark.parametrize("times", [[7, NOON], [NOON, 10**19 + 3], [10**19 + 3], [10**17, NOON]])
def test_times_with_any_number_of_digits_are_read(log: EventLog, times: list[int]) -> None:
    writer = log.writer("a")
    writer.append([events.trade(n, received_at_ns=at_ns) for n, at_ns in enumerate(times)])
    reader = log.reader()

    part = reader.received(reader.streams(), 0, times[-1] + SECOND, FAR_MORE)

    assert sorted(each.received_at_ns for each in part.records) == times
    reader.close()
    writer.close()


def test_a_range_ends_where_no_batch_is_cut(log: EventLog) -> None:
    # A batch that two ranges share would be read twice.
    writer = log.writer("a")
    for begin in (0, 10):
        writer.append(
            [events.trade(n, received_at_ns=NOON + n * SECOND + 7) for n in range(begin, begin + 9)]
        )
    reader = log.reader()
    streams = reader.streams()

    part = reader.received(streams, NOON, NOON + 15 * SECOND, FAR_MORE)

    assert part.until_ns == NOON + 10 * SECOND + 7
    assert len(part.records) == 9
    early = reader.received(streams, NOON, NOON + 5 * SECOND, FAR_MORE)
    assert len(early.records) == 5, "a batch that is longer than the range is cut"
    reader.close()
    writer.close()


def test_no_streams_are_no_records(log: EventLog) -> None:
    reader = log.reader()

    assert reader.received([], 0, SECOND, 1).records == []
    assert reader.next_received_ns([], 0) is None
    assert reader.end_ns([]) is None
    reader.close()
