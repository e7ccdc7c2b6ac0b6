"""The merge: one order for any streams, whoever wrote them, in windows of any size."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import events

from penstock.errors import NoData, UnknownStream
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.playback import merge
from penstock.playback.merge import merged
from penstock.playback.sources import select
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND
SYMBOLS = [Symbol("BTC", "USDT"), Symbol("ETH", "USDT"), Symbol("ETH", "BTC")]
SLOTS = ("collect-a", "collect-b", "work-0")


def log_of(made: list[tuple[str, bool, list[Event]]]) -> EventLog:
    """A log in which each of these batches was appended, perhaps after a restart of its slot."""
    log = open_log("memory:")
    writers = {slot: log.writer(slot) for slot in SLOTS}
    for slot, restarts, batch in made:
        if restarts:
            writers[slot].close()
            writers[slot] = log.writer(slot)
        writers[slot].append(batch)
    return log


# Few instants over many hours: equal times, quiet hours and crowded seconds.
Times = st.builds(
    lambda hour, second, nanosecond: NOON + (hour * 3600 + second) * SECOND + nanosecond,
    st.integers(0, 30),
    st.integers(0, 2),
    st.integers(0, 1),
)
Events = st.one_of(
    st.builds(
        lambda number, at_ns, symbol: events.trade(number, symbol, received_at_ns=at_ns),
        st.integers(0, 60),
        Times,
        st.sampled_from(SYMBOLS),
    ),
    st.builds(events.ticker, Times, st.sampled_from(SYMBOLS)),
)
Made = st.lists(
    st.tuples(st.sampled_from(SLOTS), st.booleans(), st.lists(Events, min_size=1, max_size=20)),
    max_size=6,
)


def naive(log: EventLog, streams: Collection[Stream], since_ns: int, until_ns: int) -> list[bytes]:
    """The same by one sort of everything."""
    found = [
        (each.received_at_ns, each.slot, each.number, each.topic, each.record)
        for stream in streams
        for each in log.reader().scan(stream)
    ]
    return [entry[-1] for entry in sorted(found) if since_ns <= entry[0] < until_ns]


@settings(deadline=None)
@given(
    made=Made,
    since=st.one_of(st.none(), Times),
    until=st.one_of(st.none(), Times),
    most=st.sampled_from((1, 3, 50_000)),
    data=st.data(),
)
def test_the_order_is_that_of_one_sort(
    made: list[tuple[str, bool, list[Event]]],
    since: int | None,
    until: int | None,
    most: int,
    data: st.DataObject,
) -> None:
    log = log_of(made)
    known = log.reader().streams()
    streams = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    before = merge._MOST
    merge._MOST = most
    try:
        batches = list(merged(log.reader(), streams, since, until))
    finally:
        merge._MOST = before

    assert all(batches), "no batch is empty"
    found = [each.record for batch in batches for each in batch]
    assert found == naive(log, streams, since or 0, 1 << 63 if until is None else until)


def test_records_of_one_instant_are_ordered_by_slot_before_number() -> None:
    made: list[tuple[str, bool, list[Event]]] = [
        ("collect-b", False, [events.trade(1, received_at_ns=NOON)]),
        ("collect-a", False, [events.trade(n, received_at_ns=NOON - 1 + n // 3) for n in (2, 3)]),
    ]

    [found] = merged(log := log_of(made).reader(), log.streams())

    assert [(each.slot, each.number) for each in found[1:]] == [("collect-a", 2), ("collect-b", 1)]


TRADES, TICKERS = Stream("sim", "trades", "btc_usdt"), Stream("sim", "tickers", "btc_usdt")
OTHER = Stream("toy", "trades", "btc_usdt")
KNOWN = [TICKERS, TRADES, OTHER]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ([], KNOWN),
        (["sim.trades.btc_usdt"], [TRADES]),
        (["sim.trades.BTC-USDT"], [TRADES]),
        (["sim."], [TICKERS, TRADES]),
        (["*.trades.*"], [TRADES, OTHER]),
        (["*.trades.BTC/USDT", "sim.*"], KNOWN),
    ],
)
def test_streams_are_selected_by_patterns(patterns: list[str], found: list[Stream]) -> None:
    assert select(KNOWN, patterns) == found


def test_an_unknown_stream_is_refused_with_near_matches() -> None:
    with pytest.raises(UnknownStream, match=r"Did you mean sim\.trades\.btc_usdt"):
        select(KNOWN, ["toy.", "sim.trades.btc_ustd"])


def test_nothing_recorded_is_told_as_such() -> None:
    with pytest.raises(NoData, match="nothing to replay"):
        select([], ["sim."])
