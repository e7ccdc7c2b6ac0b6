"""Rows of the log and of the lake are one: each record once, in order, whatever is where."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal, stored
from tests.events import BTC, candle, ticker, trade

from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.storage.log import Stored, open_log
from penstock.storage.log.corrections import last_corrected
from penstock.storage.log.keys import id_of

ETH = Symbol("ETH", "USDT")


@st.composite
def trades(draw: st.DrawFn) -> list[Event]:
    """Trades of two markets; their ids rise, their times nearly so, and some come twice."""
    ids = draw(st.lists(st.integers(1, 20), max_size=40))
    return [
        trade(
            number,
            draw(st.sampled_from([BTC, ETH])),
            at_ns=NOON_NS + number * 1000 * SECOND_NS + draw(st.integers(0, 5)),
            received_at_ns=NOON_NS + number * 1000 * SECOND_NS + draw(st.integers(6, 100)),
        )
        for number in ids
    ]


@st.composite
def candles(draw: st.DrawFn) -> list[Event]:
    """Candles, some of which were corrected."""
    opens = draw(st.lists(st.integers(0, 20), max_size=30))
    return [
        candle(
            NOON_NS // 1_000_000 + number * 60_000,
            received_at_ns=NOON_NS + draw(st.integers(0, 1000)),
            close_text=draw(st.sampled_from(["1", "2"])),
        )
        for number in opens
    ]


@st.composite
def unnumbered(draw: st.DrawFn) -> list[Event]:
    """Events without an id: no two of them are copies of each other."""
    times = draw(st.lists(st.integers(0, 100_000), unique=True, max_size=30))
    return [ticker(NOON_NS + each * SECOND_NS, last_text="1") for each in times]


def expected(found: Sequence[Stored]) -> list[Event]:
    """Each key once, by the rule of the log's readers, in the order of time."""
    keyed: dict[object, list[Stored]] = {}
    for each in found:
        number = id_of(each.event)
        key = (each.slot, each.number) if number is None else number
        keyed.setdefault((each.stream, key), []).append(each)
    chosen = [
        last_corrected(same)
        if "candles" in same[0].stream.channel
        else min(same, key=lambda each: (each.received_at_ns, each.slot))
        for same in keyed.values()
    ]
    return sorted((each.event for each in chosen), key=_order)


def _order(event: Event) -> tuple[object, ...]:
    at_ns = getattr(event, "at_ns", None)
    at_ns = getattr(event, "open_ms", 0) * 1_000_000 or at_ns or event.received_at_ns
    return at_ns, id_of(event) or 0, event.symbol.unified, event.received_at_ns


@pytest.mark.parametrize("kind", [trades, candles, unnumbered])
@settings(max_examples=6, deadline=None)
@given(
    data=st.data(), window=st.sampled_from([30_000, 64 << 20]), spill=st.sampled_from([0, 1 << 30])
)
def test_a_frame_has_every_record_once_and_in_order(
    kind: object, data: st.DataObject, window: int, spill: int
) -> None:
    assert callable(kind)
    hot = data.draw(st.lists(kind(), min_size=1, max_size=2))
    elsewhere = data.draw(kind())
    log = open_log("memory:")
    slots = [log.writer(f"s{i}").append(events) for i, events in enumerate(hot)]
    reader = log.reader()
    shown = [each for stream in reader.streams() for each in reader.scan(stream)]
    # A part of every slot is sealed, and not deleted yet; another machine has sealed its own.
    sealed = [each for slot in slots for each in slot[: data.draw(st.integers(0, len(slot)))]]
    other = stored(elsewhere, "other")

    with TemporaryDirectory() as folder:
        seal(Path(folder), sealed)
        seal(Path(folder), other, log_id=7)
        source = dataset(log, Path(folder), window_bytes=window, hot_bytes=spill)
        name = {trades: "trades", candles: "candles", unnumbered: "tickers"}[kind]
        query = getattr(source, name)(on_gap="ignore")
        found, frame = list(query), query.polars()

    cold = [each for each in sealed if each not in shown]
    prefixed = [_renamed(each, "0/") for each in (*shown, *cold)]
    truth = expected([*prefixed, *(_renamed(each, "7/") for each in other)])
    assert found == truth
    assert frame["time_ns"].is_sorted()
    assert frame["received_ns"].to_list() == [event.received_at_ns for event in truth]


@pytest.mark.parametrize(("hot_ns", "cold_ns"), [(5, 9), (9, 5)])
def test_of_copies_in_log_and_lake_the_first_received_is_shown(
    tmp_path: Path, hot_ns: int, cold_ns: int
) -> None:
    log = open_log("memory:")
    log.writer("a").append([trade(1, at_ns=NOON_NS, received_at_ns=NOON_NS + hot_ns)])
    copy = trade(1, at_ns=NOON_NS, received_at_ns=NOON_NS + cold_ns)
    seal(tmp_path, stored([copy], "b"), log_id=7)

    (found,) = dataset(log, tmp_path).trades(on_gap="ignore")
    assert found.received_at_ns == NOON_NS + 5


def test_of_candles_in_log_and_lake_the_last_correction_is_shown(tmp_path: Path) -> None:
    log = open_log("memory:")
    open_ms = NOON_NS // 1_000_000
    log.writer("a").append([candle(open_ms, received_at_ns=NOON_NS, close_text="2")])
    later = candle(open_ms, received_at_ns=NOON_NS + 1, close_text="3")
    copy = candle(open_ms, received_at_ns=NOON_NS + 2, close_text="3")
    seal(tmp_path, stored([later, copy], "b"), log_id=7)

    (found,) = dataset(log, tmp_path).candles("1m", on_gap="ignore")
    assert found == later


def _renamed(each: Stored, log: str) -> Stored:
    return Stored(
        each.stream, log + each.slot, each.number, each.key, each.record, each.topic, each.event
    )
