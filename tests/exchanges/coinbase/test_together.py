"""Coinbase's frames read together: the same events as one by one, or none at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.exchanges.coinbase.test_stream import (
    AT_NS,
    MATCH,
    SNAPSHOT,
    TICKER,
    UPDATE,
    dialect,
    frame,
    only,
)

from penstock.market.events import BookDelta
from penstock.streaming.dialect import Malformed, ReadsMany

numbers = st.sampled_from(["14.8024", "0.0", "0.00000000", "12.50", "3", "0"])
changes = st.lists(st.tuples(st.sampled_from(["buy", "sell"]), numbers, numbers), max_size=6)
CHANGES = [["buy", "14.71", "3.0"], ["sell", "14.8024", "0.0"], ["buy", "14.6", "0.00"]]
good_frames = st.one_of(
    changes.map(lambda each: frame(UPDATE, changes=each)),
    st.sampled_from(
        [
            frame(UPDATE, changes=CHANGES),
            frame(MATCH),
            frame(MATCH, type="last_match", size="0.5"),
            frame(TICKER),
            frame(TICKER, best_bid_size="1.5", best_ask_size="2"),
            frame(SNAPSHOT),
            frame(SNAPSHOT, bids=[], time="2021-04-17T16:43:37.089723Z"),
            frame({"type": "heartbeat", "sequence": 90, "product_id": "BTC-USD"}),
        ]
    ),
)


def read_one_by_one(frames: list[bytes], stamps: list[int]) -> list[Any]:
    made = dialect()
    pairs = zip(frames, stamps, strict=True)
    return [said for each, at_ns in pairs for said in made.read(each, at_ns)]


@given(st.lists(good_frames, max_size=8))
def test_many_frames_are_read_as_one_by_one_or_not_at_all(frames: list[bytes]) -> None:
    made, stamps = dialect(), [AT_NS + each for each in range(len(frames))]
    together = made.read_many(frames, stamps)

    assert isinstance(made, ReadsMany)
    assert together is None or together == read_one_by_one(frames, stamps)


def test_frames_as_they_are_usually_written_are_read_together() -> None:
    usual = [frame(UPDATE, changes=CHANGES), frame(MATCH), frame(TICKER), frame(UPDATE, changes=[])]

    assert dialect().read_many(usual, [1, 2, 3, 4]) == read_one_by_one(usual, [1, 2, 3, 4])


@given(st.lists(good_frames, max_size=3), good_frames, st.data())
def test_damage_to_one_of_many_frames_is_found_as_if_it_came_alone(
    frames: list[bytes], whole: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.sampled_from(b'0123456789.,"[]{}-eNbs: \n'))
    frames.append(whole[:at] + bytes([byte]) + whole[at + 1 :])
    made, stamps = dialect(), [AT_NS] * len(frames)
    together = made.read_many(frames, stamps)

    assert together is None or together == read_one_by_one(frames, stamps)
    assert made.read(frame(MATCH), 1) == dialect().read(frame(MATCH), 1), "nothing is left of it"


pieces = st.sampled_from(
    ['["buy","1.5","2.0"]', '["sell","1.6","0.0"]', '["hold","1.5","2.0"]', "5", '["buy","1.5"]',
     '{"a":["buy","1.5","2.0"]}', '["buy","1.5","2.0",["sell","1.5","2.0"]]', '"["', "null",
     '["buy","1.5","2.0","3.0"]', '["x",["buy","1.5","2.0"]]', '[ "buy","1.5","2.0"]', '["buy"]']
)  # fmt: skip


@given(st.lists(pieces, max_size=4))
def test_nothing_hides_between_changes(elements: list[str]) -> None:
    whole = frame(UPDATE, changes=0).replace(b'"changes":0', b"".join(
        [b'"changes":[', ",".join(elements).encode(), b"]"]
    ))  # fmt: skip
    (said,) = dialect().read(whole, AT_NS)
    parsed = [json.loads(each) for each in elements]
    right = all(
        isinstance(each, list) and len(each) >= 3 and each[0] in ("buy", "sell") for each in parsed
    )

    assert isinstance(said, BookDelta if right else Malformed)
    if isinstance(said, BookDelta):
        sides = {"buy": said.bids_raw, "sell": said.asks_raw}
        for side, raw in sides.items():
            assert json.loads(bytes(raw)) == [each[1:3] for each in parsed if each[0] == side]


@pytest.mark.parametrize("size", ["1e5", "-1", "NaN", "", ".", "1,5", "\n"])
def test_one_bad_number_among_many_frames_is_found(size: str) -> None:
    made = dialect()
    for bad in (frame(MATCH, size=size), frame(UPDATE, changes=[["buy", "1.5", size]])):
        assert made.read_many([frame(MATCH), bad], [1, 2]) is None
        assert only(made.read(bad, 2)).reason == "not_a_number"
