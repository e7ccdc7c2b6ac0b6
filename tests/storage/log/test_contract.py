"""What every log promises, whatever it is kept in."""

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.errors import ConfigError, SlotInUse, UnusableId
from penstock.market.events import BookSnapshot, Candle, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, LogReader, Span, Stored, open_log
from penstock.storage.log.keys import Stream, key_of_id

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
TRADES = Stream("sim", "trades", "btc_usdt")
TICKERS = Stream("sim", "tickers", "btc_usdt")
CANDLES = Stream("sim", "candles_1m", "btc_usdt")
SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


@pytest.fixture(params=["memory", "rocksdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return open_log("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}")


@pytest.fixture
def reader(log: EventLog) -> Iterator[LogReader]:
    reader = log.reader()
    yield reader
    reader.close()


def trade(number: int, at_ns: int | None = None, symbol: Symbol = BTC) -> Trade:
    received_at_ns = NOON + number if at_ns is None else at_ns
    return events.trade(
        number, symbol, "sim", received_at_ns=received_at_ns, at_ns=5, price_text="60000.10"
    )


def ticker(at_ns: int, last: str, update_id: int | None = None) -> Ticker:
    return events.ticker(at_ns, exchange="sim", last_text=last, update_id=update_id)


def candle(open_ms: int, close: str = "2", at_ns: int = NOON, **more: Any) -> Candle:
    return events.candle(
        open_ms, exchange="sim", received_at_ns=at_ns, high_text="3", close_text=close, **more
    )


def ids(records: Iterator[Stored] | list[Stored]) -> list[int]:
    return [stored.event.id for stored in records if isinstance(stored.event, Trade)]


def numbers(records: Iterator[Stored] | list[Stored]) -> list[int]:
    return [stored.number for stored in records]


def test_new_records_are_numbered_per_stream_in_the_order_they_came(log: EventLog) -> None:
    writer = log.writer("a")

    stored = writer.append([trade(7), trade(3, symbol=ETH), trade(8), trade(4, symbol=ETH)])

    assert [(s.stream.symbol, s.number) for s in stored] == [
        ("btc_usdt", 1), ("btc_usdt", 2), ("eth_usdt", 1), ("eth_usdt", 2),
    ]  # fmt: skip
    assert ids(stored) == [7, 8, 3, 4]
    assert numbers(writer.append([trade(9)])) == [3]
    assert writer.last_numbers() == {TRADES: 3, TRADES._replace(symbol="eth_usdt"): 2}
    writer.close()


def test_nothing_new_is_nothing(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")

    assert writer.append([]) == []
    assert reader.streams() == []
    assert list(reader.scan(TRADES)) == []
    writer.close()


@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in two"])
def test_a_key_is_recorded_once_and_the_first_wins(
    log: EventLog, reader: LogReader, apart: bool
) -> None:
    writer = log.writer("a")
    first, again = [trade(5), trade(9)], [trade(5, NOON + SECOND), trade(9), trade(7)]

    stored = writer.append(first) + writer.append(again) if apart else writer.append(first + again)

    assert ids(stored) == [5, 9, 7]
    assert numbers(stored) == [1, 2, 3]
    assert writer.counts.recorded == 3
    assert writer.counts.repeated == 2
    assert [s.event for s in reader.scan(TRADES)] == [trade(5), trade(7), trade(9)]
    writer.close()


def test_a_restart_goes_on_where_the_slot_stopped(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(1), trade(2), ticker(NOON, "1")])
    writer.close()

    writer = log.writer("a")
    stored = writer.append([trade(2), trade(3), ticker(NOON, "1"), ticker(NOON, "2")])

    assert [(s.stream, s.number) for s in stored] == [(TRADES, 3), (TICKERS, 2)]
    assert ids(reader.scan(TRADES)) == [1, 2, 3]
    writer.close()


def test_a_slot_has_one_writer_at_a_time(log: EventLog) -> None:
    writer = log.writer("a")

    with pytest.raises(SlotInUse, match="'a'"):
        log.writer("a")
    log.writer("b").close()
    writer.close()
    log.writer("a").close()


def test_a_corrected_candle_replaces_and_is_counted(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([candle(0), candle(60_000, closed=False), candle(60_000)])

    same = writer.append([candle(0, at_ns=NOON + SECOND, source="rest")])
    changed = writer.append([candle(0, close="2.5", at_ns=NOON + SECOND)])

    assert same == []
    assert numbers(changed) == [3]
    found = [s.event for s in reader.scan(CANDLES)]
    assert found == [candle(0, close="2.5", at_ns=NOON + SECOND), candle(60_000)]
    counts = writer.counts
    assert (counts.recorded, counts.repeated, counts.replaced, counts.unclosed) == (3, 1, 1, 1)
    assert numbers(reader.numbers(CANDLES, "a", 1)) == [2, 3], "1 lives on as 3"
    writer.close()


def test_a_candle_that_only_tells_more_or_less_is_no_correction(
    log: EventLog, reader: LogReader
) -> None:
    streamed = candle(0, trades=3, first_trade_id=5, last_trade_id=7, taker_buy_volume_text="4")
    writer = log.writer("a")
    writer.append([streamed, candle(60_000)])

    fetched = candle(0, at_ns=NOON + SECOND, source="rest", trades=3, taker_buy_volume_text="4")
    assert writer.append([fetched, candle(60_000, vwap_text="1.5")]) == []
    assert [s.event for s in reader.scan(CANDLES)] == [streamed, candle(60_000)]

    assert numbers(writer.append([replace(fetched, taker_buy_volume_text="3")])) == [3]
    assert (writer.counts.repeated, writer.counts.replaced) == (2, 1)
    writer.close()


def test_of_a_candle_in_several_slots_its_last_correction_is_shown(
    log: EventLog, reader: LogReader
) -> None:
    before, after, again = (NOON + n * SECOND for n in (1, 2, 3))
    # The slot's name must not decide, nor which of them was written first.
    writers = {slot: log.writer(slot) for slot in "abc"}
    writers["b"].append([candle(0, at_ns=before), candle(60_000, "5", at_ns=after)])
    writers["a"].append([candle(0, "2.5", at_ns=after), candle(60_000, "4", at_ns=before)])
    writers["c"].append([candle(0, "2.5", at_ns=again, source="rest"), candle(60_000, "5")])

    found = [s.event for s in reader.scan(CANDLES)]
    backwards = [s.event for s in reader.scan(CANDLES, reverse=True)]
    recent = list(reader.scan(CANDLES, Span(since_ns=after)))
    one_slot = list(reader.numbers(CANDLES, "b", 1))

    assert found == [candle(0, "2.5", at_ns=after), candle(60_000, "5", at_ns=after)]
    assert backwards == found[::-1]
    assert [s.event for s in recent] == found
    assert [(s.slot, s.number) for s in reader.shown(one_slot)] == [("a", 1), ("b", 2)]
    for writer in writers.values():
        writer.close()


def test_of_a_trade_in_several_slots_the_one_received_first_is_shown(
    log: EventLog, reader: LogReader
) -> None:
    for slot, at_ns in (("a", NOON + 2), ("b", NOON + 1)):
        writer = log.writer(slot)
        writer.append([trade(1, at_ns)])
        writer.close()

    (found,) = reader.scan(TRADES)

    assert found.slot == "b"
    assert reader.shown([found]) == [found]


def test_events_without_ids_are_kept_apart_by_arrival(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")

    writer.append([ticker(NOON, "1"), ticker(NOON, "2"), ticker(NOON + 1, "3")])
    late = writer.append([ticker(NOON, "4"), ticker(NOON - 1, "0"), ticker(NOON, "2")])

    assert len(late) == 2
    assert writer.counts.repeated == 1
    found = [s.event for s in reader.scan(TICKERS)]
    assert [e.last_text for e in found if isinstance(e, Ticker)] == ["0", "1", "2", "4", "3"]
    writer.close()


def test_tickers_with_and_without_ids_share_a_stream(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    batch = [ticker(NOON, "1", 10), ticker(NOON + 1, "2"), ticker(NOON + 2, "3", 11)]
    writer.append(batch)
    writer.close()
    writer = log.writer("a")

    stored = writer.append([*batch, ticker(NOON + 3, "4", 12), ticker(NOON + 4, "5")])

    assert numbers(stored) == [4, 5]
    seen = reader.scan(TICKERS, Span(since_ns=NOON + 1, until_ns=NOON + 4))
    assert {s.event.last_text for s in seen if isinstance(s.event, Ticker)} == {"2", "3", "4"}
    writer.close()


def test_snapshots_at_one_update_id_are_all_kept(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    shallow, deep = (
        BookSnapshot(
            exchange="sim", symbol=BTC, received_at_ns=NOON + i, update_id=0,
            bids_raw=Raw(b'[["1","1"]]'), asks_raw=Raw(b"[]"),
        )
        for i in (0, 1)
    )  # fmt: skip

    assert len(writer.append([shallow, deep])) == 2
    writer.close()


def test_ids_of_any_length_are_kept_in_order(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    long = [2**64 - 1, 10**30, 5, 2**63, 10**30 + 1]
    writer.append([trade(number, NOON) for number in long])
    writer.close()
    writer = log.writer("a")

    assert writer.append([trade(number, NOON) for number in long]) == []
    assert ids(reader.scan(TRADES)) == sorted(long)
    writer.close()


def test_a_batch_with_an_unusable_id_leaves_no_trace(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(1)])

    with pytest.raises(UnusableId, match="-4"):
        writer.append([trade(2), trade(1), trade(3, symbol=ETH), trade(-4, NOON)])

    assert writer.counts.repeated == 0
    assert reader.streams() == [TRADES]
    assert numbers(writer.append([trade(3), trade(2)])) == [2, 3]
    writer.close()


def test_a_scan_is_bounded_by_keys_in_both_directions(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(i) for i in range(1, 300)] + [trade(i, symbol=ETH) for i in (1, 2)])
    span = Span(first=key_of_id(10), end=key_of_id(13))

    assert ids(reader.scan(TRADES, span)) == [10, 11, 12]
    assert ids(reader.scan(TRADES, span, reverse=True)) == [12, 11, 10]
    assert ids(reader.scan(TRADES, span, reverse=True, limit=1)) == [12]
    assert ids(reader.scan(TRADES, Span(first=key_of_id(298)))) == [298, 299]
    assert ids(reader.scan(TRADES, Span(end=key_of_id(3)))) == [1, 2]
    assert ids(reader.scan(TRADES, reverse=True, limit=2)) == [299, 298]
    writer.close()


def test_a_scan_by_time_begins_at_its_first_instant_and_ends_before_its_last(
    log: EventLog, reader: LogReader
) -> None:
    writer = log.writer("a")
    writer.append([trade(i, NOON + i) for i in range(1, 6)])

    assert ids(reader.scan(TRADES, Span(since_ns=NOON + 2, until_ns=NOON + 4))) == [2, 3]
    writer.close()


def test_slots_are_merged_and_the_first_received_wins(log: EventLog, reader: LogReader) -> None:
    one, other = log.writer("a"), log.writer("b")
    one.append([trade(1), trade(3, NOON + 9 * SECOND), trade(4)])
    other.append([trade(2), trade(3, NOON + 2 * SECOND), trade(4, NOON + 5 * SECOND)])

    found = [(s.event, s.slot) for s in reader.scan(TRADES)]

    assert found == [
        (trade(1), "a"), (trade(2), "b"), (trade(3, NOON + 2 * SECOND), "b"), (trade(4), "a"),
    ]  # fmt: skip
    assert ids(reader.scan(TRADES, reverse=True)) == [4, 3, 2, 1]
    late = Span(since_ns=NOON + 5 * SECOND)
    assert ids(reader.scan(TRADES, late)) == [], "what was received before is not shown again"
    assert reader.slots() == ["a", "b"]
    one.close()
    other.close()


def test_records_are_found_by_number(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    for batch in ([1, 2, 50], [51, 52], [20, 10, 30], [53]):
        writer.append([trade(i) for i in batch])

    assert ids(reader.numbers(TRADES, "a", 2, 7)) == [2, 50, 51, 52, 20, 10]
    assert ids(reader.numbers(TRADES, "a", 8)) == [30, 53]
    assert ids(reader.numbers(TRADES, "a", 10)) == []
    assert ids(reader.numbers(TRADES, "nobody", 1)) == []
    writer.close()


def test_deleting_forgets_records_but_never_numbers(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    for first in (0, 10, 20):
        writer.append([trade(i, NOON + i * SECOND) for i in range(first, first + 10)])

    writer.delete_below(TRADES, key_of_id(15))
    assert ids(reader.scan(TRADES)) == list(range(15, 30))
    assert ids(reader.numbers(TRADES, "a", 1)) == list(range(15, 30))
    assert ids(reader.scan(TRADES, Span(since_ns=NOON + 20 * SECOND))) == list(range(20, 30))

    writer.delete_below(TRADES, key_of_id(99))
    writer.close()
    writer = log.writer("a")
    assert numbers(writer.append([trade(99)])) == [31]
    writer.delete_below(CANDLES, key_of_id(1))
    writer.close()


@pytest.mark.parametrize("reopened", [False, True])
def test_numbers_that_are_skipped_are_never_assigned(
    log: EventLog, reader: LogReader, reopened: bool
) -> None:
    writer = log.writer("a")
    writer.append([trade(i, NOON + i * SECOND) for i in range(1, 6)])

    writer.skip_numbers({TRADES: 100, CANDLES: 7})
    writer.skip_numbers({TRADES: 3})
    if reopened:
        writer.close()
        writer = log.writer("a")

    assert writer.last_numbers() == {TRADES: 100, CANDLES: 7}
    assert numbers(writer.append([trade(6, NOON + 6 * SECOND)])) == [101]
    assert numbers(writer.append([trade(0, NOON + 7 * SECOND)])) == [102], "a late one too"
    assert numbers(writer.append([candle(0)])) == [8]
    assert ids(reader.scan(TRADES)) == list(range(7))
    assert ids(reader.numbers(TRADES, "a", 2)) == [2, 3, 4, 5, 6, 0]
    assert ids(reader.numbers(TRADES, "a", 4, 100)) == [4, 5]
    assert ids(reader.scan(TRADES, Span(since_ns=NOON + 5 * SECOND))) == [0, 5, 6]
    assert reader.number_before(TRADES, "a", NOON + 6 * SECOND) == 100
    writer.close()


def test_nothing_is_deleted_if_a_later_record_has_a_lower_key(
    log: EventLog, reader: LogReader
) -> None:
    writer = log.writer("a")
    writer.append([trade(i, NOON + i * SECOND) for i in range(10, 20)])
    key = reader.lowest_key(TRADES, "a", 6)
    assert key is not None
    assert key <= key_of_id(15)
    writer.append([trade(5, NOON + 30 * SECOND)])

    assert not writer.delete_below(TRADES, key_of_id(15), seen=10)
    assert ids(reader.scan(TRADES)) == [5, *range(10, 20)]
    assert writer.delete_below(TRADES, key_of_id(5), seen=11) is False, "there is nothing below"
    assert writer.delete_below(TRADES, key_of_id(15), seen=11)
    assert ids(reader.scan(TRADES)) == list(range(15, 20))
    writer.compact()
    assert ids(reader.scan(TRADES)) == list(range(15, 20))
    writer.close()


def test_a_number_is_found_by_its_time(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    for i in range(1, 6):
        writer.append([trade(i, NOON + i * SECOND)])

    found = [reader.number_before(TRADES, "a", NOON + i * SECOND) for i in (0, 1, 3, 5, 6, 99)]
    assert found == [0, 0, 2, 4, 5, 5]
    assert reader.number_before(TRADES, "nobody", NOON) == 0
    assert reader.lowest_key(TRADES, "a", 6) is None
    assert reader.lowest_key(TRADES, "nobody", 1) is None
    writer.append([trade(2, NOON + 9 * SECOND), trade(0, NOON + 9 * SECOND)])
    assert reader.lowest_key(TRADES, "a", 4) == key_of_id(0)
    writer.close()


@given(
    batches=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=6), max_size=12),
    first=st.integers(1, 40),
)
@settings(max_examples=30)
def test_the_lowest_key_is_below_all_later_records(batches: list[list[int]], first: int) -> None:
    log = open_log("memory:")
    writer, reader = log.writer("a"), log.reader()
    for second, batch in enumerate(batches):
        writer.append([trade(i, NOON + second * SECOND) for i in batch])

    later = [each.key for each in reader.numbers(TRADES, "a", first)]
    found = reader.lowest_key(TRADES, "a", first)

    assert (found is None) == (not later)
    assert found is None or found <= min(later)


def test_stats_tell_what_is_there(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(5, NOON), trade(6, NOON + 1)])
    writer.append([trade(9, NOON + 2)])

    (slot,) = reader.stats()

    assert slot == writer.stats()
    assert (slot.slot, slot.size_bytes > 0) == ("a", True)
    (stream,) = slot.streams
    *known, record_bytes = stream
    assert known == [TRADES, 3, 3, key_of_id(5), key_of_id(9), NOON, NOON + 2]
    assert 50 < record_bytes < 500
    writer.close()


def test_a_read_sees_what_was_written_before_it(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    for i in range(1, 4):
        writer.append([trade(i)], "synced" if i == 2 else "flushed")
        assert ids(reader.scan(TRADES)) == list(range(1, i + 1))
    writer.sync()
    writer.close()
    assert ids(reader.scan(TRADES)) == [1, 2, 3], "with no writer too"


def test_a_scan_does_not_see_what_is_written_during_it(log: EventLog, reader: LogReader) -> None:
    writer = log.writer("a")
    writer.append([trade(1), trade(2)])
    scan = reader.scan(TRADES)
    next(scan)

    writer.append([trade(3)])
    reader.streams()

    assert ids(scan) == [2]
    writer.close()


@pytest.mark.parametrize("url", ["", "rocksdb", "nowhere:x", "keys:x", "memory:x", "rocksdb:"])
def test_a_url_of_no_log_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        open_log(url)


Batches = list[tuple[str, list[tuple[int, int]]]]
batches = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=1, max_size=6),
    ),
    max_size=15,
)


def check_against_a_list(log: EventLog, made: Batches, low: int, high: int) -> None:
    """Compare every way of reading with a plain list; receipts are a fifth of a second apart."""
    held: dict[str, dict[int, Trade]] = defaultdict(dict)
    told: dict[str, list[Trade]] = defaultdict(list)
    writers = {slot: log.writer(slot) for slot in "ab"}
    for slot, batch in made:
        events = [trade(number, NOON + fifth * SECOND // 5) for number, fifth in batch]
        new = [e for e in events if held[slot].setdefault(e.id, e) is e]
        told[slot] += new
        assert [s.event for s in writers[slot].append(events)] == new
    reader = log.reader()
    first = min_by_arrival(held)
    since_ns, until_ns = NOON + low * SECOND // 5, NOON + high * SECOND // 5
    try:
        everything = list(first.values())
        for wanted, span in (
            (everything, Span()),
            (
                [e for e in everything if low <= e.id < high],
                Span(key_of_id(low), key_of_id(high)),
            ),
            (
                [e for e in everything if since_ns <= e.received_at_ns < until_ns],
                Span(since_ns=since_ns, until_ns=until_ns),
            ),
            ([e for e in everything if e.received_at_ns >= since_ns], Span(since_ns=since_ns)),
        ):
            wanted.sort(key=attrgetter("id"))
            assert [s.event for s in reader.scan(TRADES, span)] == wanted
            backwards = reader.scan(TRADES, span, reverse=True)
            assert [s.event for s in backwards] == wanted[::-1]
        for slot, events in told.items():
            got = list(reader.numbers(TRADES, slot, low + 1, high))
            assert [s.event for s in got] == events[low:high]
            assert numbers(got) == list(range(low + 1, low + 1 + len(got)))
    finally:
        reader.close()
        for writer in writers.values():
            writer.close()


def min_by_arrival(held: dict[str, dict[int, Trade]]) -> dict[int, Trade]:
    first: dict[int, Trade] = {}
    for slot in sorted(held):
        for number, event in held[slot].items():
            if number not in first or event.received_at_ns < first[number].received_at_ns:
                first[number] = event
    return first


@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_reading_is_as_from_a_list_in_memory(made: Batches, one: int, other: int) -> None:
    check_against_a_list(open_log("memory:"), made, min(one, other), max(one, other))


@settings(max_examples=25)
@given(batches, st.integers(0, 20), st.integers(0, 20))
def test_reading_is_as_from_a_list_on_disk(made: Batches, one: int, other: int) -> None:
    with TemporaryDirectory() as folder:
        log = open_log(f"rocksdb:{folder}")
        check_against_a_list(log, made, min(one, other), max(one, other))
