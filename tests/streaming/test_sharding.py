"""Sharding: a stream keeps its place; connections are opened no faster than is allowed."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.market.symbol import Symbol
from penstock.streaming.sharding import (
    TROUBLED_CONNECTS,
    TROUBLED_PERIOD_NS,
    ConnectPace,
    Sharding,
)
from penstock.streaming.wanted import Place

from .toys import SECOND_NS, NumberedDialect

PLACES: list[Place] = [
    (channel, Symbol(f"S{number}", "USD"))
    for number in range(8)
    for channel in ("trades", "book_deltas")
]
some_places = st.lists(st.sampled_from(PLACES), max_size=12)


@given(st.lists(st.tuples(st.booleans(), some_places), max_size=12), st.integers(1, 5))
def test_streams_never_move_and_no_connection_carries_too_many(
    changes: list[tuple[bool, list[Place]]], room: int
) -> None:
    sharding, wanted = Sharding(room), set[Place]()
    for adding, places in changes:
        before = {place: sharding.shard_of(place) for place in wanted}
        told = sharding.add(places) if adding else sharding.remove(places)
        fresh = set(places) - wanted if adding else set(places) & wanted
        assert sorted(map(repr, (p for each in told.values() for p in each))) == sorted(
            map(repr, fresh)
        )
        wanted = wanted | fresh if adding else wanted - fresh
        shards = sharding.shards
        assert {place for each in shards.values() for place in each} == wanted
        assert all(0 < len(each) <= room for each in shards.values())
        for place, number in before.items():
            if place in wanted:
                assert sharding.shard_of(place) == number, "a stream moved"
        for place in set(places) - wanted:
            assert sharding.shard_of(place) is None


def test_a_connection_is_opened_only_where_no_other_has_room() -> None:
    sharding = Sharding(4)
    sharding.add(PLACES[:12])
    assert Counter(map(len, sharding.shards.values())) == {4: 3}
    sharding.remove([PLACES[0], PLACES[4], PLACES[5]])

    assert sharding.add([PLACES[12]]) == {1: [PLACES[12]]}, "the fullest that has room"
    assert sharding.add([PLACES[13]]) == {2: [PLACES[13]]}
    assert sharding.remove([PLACES[0]]) == {}


attempts = st.lists(
    st.tuples(st.integers(0, 3 * SECOND_NS), st.sampled_from(["good", "bad", "none"])), max_size=80
)


@given(attempts, st.integers(1, 20), st.integers(1, 10))
def test_connects_are_paced_whoever_wants_them(
    wishes: list[tuple[int, str]], connects: int, period_s: int
) -> None:
    limits = replace(NumberedDialect.limits, connects=connects, connects_period_s=period_s)
    pace, now_ns, at_ns, bad = ConnectPace(limits), 0, list[int](), False
    for later_ns, outcome in wishes:
        now_ns += later_ns
        now_ns += pace.wait_ns(now_ns)
        assert pace.wait_ns(now_ns) == 0, "one wait is enough"
        pace.note(now_ns)
        at_ns.append(now_ns)
        within = [at for at in at_ns if at > now_ns - period_s * SECOND_NS]
        assert len(within) <= max(1, int(0.8 * connects))
        if bad:
            recent = [at for at in at_ns if at > now_ns - TROUBLED_PERIOD_NS]
            assert len(recent) <= TROUBLED_CONNECTS, "in trouble it is slower"
        if outcome == "good":
            pace.succeeded()
            bad = False
        elif outcome == "bad":
            pace.failed()
            bad = True


def test_what_is_allowed_is_not_waited_for() -> None:
    pace = ConnectPace(NumberedDialect.limits)  # 300 in 300 s
    for _ in range(240):
        assert pace.wait_ns(0) == 0
        pace.note(0)
    assert pace.wait_ns(0) == 300 * SECOND_NS
    assert pace.wait_ns(300 * SECOND_NS) == 0
