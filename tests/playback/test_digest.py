"""The digest: of what was emitted and in which order, and of nothing else."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock.market.codec import encode
from penstock.playback.digest import Digest, digest_of
from penstock.storage.log import Received

RECORDS = [
    Received(number, "a", number, topic, encode(events.trade(number, received_at_ns=number)))
    for number, topic in enumerate(("toy.trades.x_y", "toy.trades.x_z") * 4, 1)
]


def digest(*batches: list[Received]) -> str:
    made = Digest()
    for batch in batches:
        made.update(batch)
    return made.hexdigest()


@pytest.mark.parametrize("records", [RECORDS, RECORDS[::2]], ids=["two topics", "one topic"])
def test_it_is_sha_256_over_topics_and_records_with_nuls_between(records: list[Received]) -> None:
    whole = b"".join(each.topic.encode() + b"\0" + each.record + b"\0" for each in records)

    assert digest(records) == hashlib.sha256(whole).hexdigest()
    assert digest() == hashlib.sha256().hexdigest()


@given(st.sets(st.integers(0, len(RECORDS))))
def test_batches_do_not_matter(cuts: set[int]) -> None:
    ends = [0, *sorted(cuts), len(RECORDS)]
    parts = [RECORDS[first:end] for first, end in pairwise(ends)]

    assert digest(*parts) == digest(RECORDS)


@given(st.permutations(RECORDS))
def test_order_matters_and_a_live_run_is_put_in_order(records: list[Received]) -> None:
    assert (digest(records) == digest(RECORDS)) is (records == RECORDS)
    assert digest_of(records) == digest(RECORDS)


def test_every_record_and_topic_matters() -> None:
    first, second, *_ = RECORDS
    renamed = Received(1, "a", 1, second.topic, first.record)

    assert len({digest([first]), digest([second]), digest([renamed]), digest([first, first])}) == 4
