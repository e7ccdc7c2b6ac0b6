"""Kraken's frames read together: the same events as one by one, or none at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.exchanges.kraken.test_stream import (
    AT_NS,
    BOOK,
    TRADE,
    candle,
    candles,
    dialect,
    only,
    shown,
    trades,
)

from penstock.streaming.dialect import ReadsMany

CHANGE = BOOK.replace("snapshot", "update")
TICKER = (
    '{"channel":"ticker","type":"update","data":[{"symbol":"MINA/GBP","bid":0.10025,'
    '"bid_qty":740.0,"ask":0.10036,"ask_qty":1361.44813783,"last":0.10035,"volume":997038.98383185,'
    '"vwap":0.10148,"low":0.09979,"high":0.10285,"change":-0.00017,"change_pct":-0.17,'
    '"timestamp":"2023-09-25T09:04:31.742648Z"}]}'
)
good_frames = st.sampled_from(
    [
        BOOK,
        CHANGE,
        CHANGE.replace('[{"price":0.0287,"qty":0.5}]', "[]"),
        trades(TRADE),
        trades(TRADE, TRADE.replace("4665906", "4665907"), kind="snapshot"),
        trades(TRADE.replace("0.5117", "5")),
        trades(),
        TICKER,
        candles(candle(1, "1.0"), candle(0, "2.0")),
        candles(candle(2, "1.0")),
        '{"channel":"heartbeat"}',
    ]
)


@given(st.lists(good_frames, max_size=8))
def test_many_frames_are_read_as_one_by_one(frames: list[str]) -> None:
    one_by_one, at_once = dialect(), dialect()
    stamps = [AT_NS + each for each in range(len(frames))]
    said = [one_by_one.read(*each) for each in zip(frames, stamps, strict=True)]

    assert isinstance(at_once, ReadsMany)
    assert at_once.read_many(frames, stamps) == [event for each in said for event in each]


@given(st.lists(good_frames, max_size=3), good_frames, st.data())
def test_damage_to_one_of_many_frames_is_found_as_if_it_came_alone(
    frames: list[str], frame: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(frame) - 1))
    spoilt = frame[:at] + data.draw(st.sampled_from('0123456789.,"[]{}-eN: \n')) + frame[at + 1 :]
    one_by_one, made = dialect(), dialect()
    said = [each for one in (*frames, spoilt) for each in one_by_one.read(one, AT_NS)]
    together = made.read_many([*frames, spoilt], [AT_NS] * (len(frames) + 1))

    if together is not None:
        assert together == said
    assert made.read(trades(TRADE), 1) == dialect("trades").read(trades(TRADE), 1), (
        "nothing is left"
    )


def test_a_candle_of_frames_that_could_not_be_read_together_closes_nothing() -> None:
    made = dialect()
    frames = [candles(candle(1, "1.0")), candles(candle(2, "1.0")), "<html>"]

    assert made.read_many(frames, [1, 2, 3]) is None
    assert shown(made.read(frames[0], 1)) == shown(dialect().read(frames[0], 1))


@pytest.mark.parametrize(
    "levels",
    [
        '[{"qty":1.5,"price":0.5}]',
        '[ {"price": 0.5, "qty": 1.5} ]',
        '[{"price":0.5,\n"qty":1.5}]',
        '[{"price":0.5,"qty":1.5,"more":[]}]',
    ],
)
def test_levels_that_only_a_closer_look_tells_are_read_all_the_same(levels: str) -> None:
    made, frame = dialect(), BOOK.replace('[{"price":0.0287,"qty":0.5}]', levels)

    assert made.read_many([BOOK, frame], [1, 2]) is None
    assert bytes(only(made.read(frame, 2)).asks_raw) == b'[["0.5","1.5"]]'
