"""A follower returns every new record of the streams that it follows, once for each slot."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock.market.events import Event, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, LogReader, open_log
from penstock.storage.log.keys import Stream

SECOND_NS = 1_000_000_000
NOON = 1_790_000_000 * SECOND_NS
BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
TRADES = Stream("toy", "trades", BTC.slug)


def id_of(event: Event) -> int:
    assert isinstance(event, Trade)
    return event.id


def trade(number: int, received_ns: int, symbol: Symbol = BTC) -> Trade:
    return events.trade(number, symbol, received_at_ns=received_ns)


@pytest.fixture(params=["memory", "rocksdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return open_log("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}")


@pytest.fixture
def reader(log: EventLog) -> Iterator[LogReader]:
    reader = log.reader()
    yield reader
    reader.close()


def test_it_begins_at_a_time_and_goes_on(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    for n in range(10):
        writer.append([trade(n, NOON + n * SECOND_NS)])
    follower = reader.follower()
    follower.follow(TRADES, NOON + 7 * SECOND_NS)

    assert [id_of(each.event) for each in follower.new(0)] == [7, 8, 9]
    assert follower.new(1) == []
    writer.append([trade(10, NOON + 10 * SECOND_NS), trade(11, NOON, ETH)])
    assert [(each.slot, id_of(each.event)) for each in follower.new(SECOND_NS)] == [("a", 10)]
    follower.forget([TRADES])
    writer.append([trade(12, NOON + 12 * SECOND_NS)])
    assert follower.new(2 * SECOND_NS) == []


def test_a_record_with_a_lower_id_than_the_last_is_new(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(100, NOON)])
    follower = reader.follower()
    follower.follow(TRADES, NOON)
    follower.new(0)

    writer.append([trade(50, NOON + 1)])

    assert [id_of(each.event) for each in follower.new(SECOND_NS)] == [50]


def test_a_slot_and_a_stream_that_appear_later_are_found_within_a_second(
    log: EventLog, reader: LogReader
) -> None:
    follower = reader.follower()
    follower.follow(TRADES, NOON)
    assert follower.new(0) == []

    log.writer("b").append([trade(1, NOON)])

    assert follower.new(SECOND_NS // 2) == []
    assert [each.slot for each in follower.new(SECOND_NS)] == ["b"]


def test_a_slot_with_news_is_read_every_time(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(1, NOON)])
    follower = reader.follower()
    follower.follow(TRADES, NOON)
    follower.new(0)

    for n in range(2, 9):
        writer.append([trade(n, NOON + n)])
        assert [id_of(each.event) for each in follower.new(n)] == [n]


def test_a_slot_whose_owner_was_restarted_is_followed_on(log: EventLog, reader: LogReader) -> None:
    follower = reader.follower()
    follower.follow(TRADES, NOON)
    found: list[int] = []
    for start in range(0, 40, 10):
        writer = log.writer("a")
        for number in range(start, start + 10):
            writer.append([trade(number, NOON + number)])
            found += [id_of(each.event) for each in follower.new(number * SECOND_NS)]
        writer.close()

    assert found == list(range(40))


def test_a_slot_that_was_replaced_is_followed_from_the_latest_record(tmp_path: Path) -> None:
    log = open_log(f"rocksdb:{tmp_path}")
    writer = log.writer("a")
    writer.append([trade(n, NOON + n * SECOND_NS) for n in range(10)])
    reader = log.reader()
    follower = reader.follower()
    follower.follow(TRADES, NOON)
    assert len(follower.new(0)) == 10
    writer.close()
    shutil.rmtree(tmp_path / "log")
    writer = log.writer("a")
    for n in (8, 9, 10, 11):
        writer.append([trade(n, NOON + n * SECOND_NS)])

    found = [id_of(each.event) for each in follower.new(SECOND_NS)]

    assert found in ([9, 10, 11], [10, 11])
    reader.close()
    writer.close()


appends = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=8),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=20,
)


@given(appends)
def test_every_record_of_a_followed_stream_comes_once(
    steps: list[tuple[str, list[tuple[int, bool]], bool, int]],
) -> None:
    log = open_log("memory:")
    writers = {name: log.writer(name) for name in "ab"}
    follower = log.reader().follower()
    follower.follow(TRADES, NOON)
    recorded, found = list[tuple[str, int]](), list[tuple[str, int]]()
    at_ns, now_ns = NOON, 0
    for slot, numbers, looks, pause in steps:
        batch = []
        for number, other in numbers:
            at_ns += pause * SECOND_NS // 2
            batch.append(trade(number, at_ns, ETH if other else BTC))
        new = writers[slot].append(batch)
        recorded += [(slot, id_of(each.event)) for each in new if each.stream == TRADES]
        if looks:
            now_ns += SECOND_NS // 10
            found += [(slot, id_of(event)) for _, slot, event in follower.new(now_ns)]
    found += [(slot, id_of(event)) for _, slot, event in follower.new(now_ns + SECOND_NS)]

    assert sorted(found) == sorted(recorded)
