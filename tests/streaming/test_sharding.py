"""Sharding: a stream keeps its place; connections are opened no faster than is allowed."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.market.symbol import Symbol
from penstock.streaming.sharding import (
    TROUBLED_CONNECTS,
    TROUBLED_PERIOD_NS,
    ConnectLimiter,
    Sharding,
)
from penstock.streaming.wanted import StreamKey

from .toys import SECOND_NS, NumberedDialect

STREAM_KEYS: list[StreamKey] = [
    (channel, Symbol(f"S{number}", "USD"))
    for number in range(8)
    for channel in ("trades", "book_deltas")
]
some_places = st.lists(st.sampled_from(STREAM_KEYS), max_size=12)


@given(st.lists(st.tuples(st.booleans(), some_places), max_size=12), st.integers(1, 5))
def test_streams_never_move_and_no_connection_carries_too_many(
    changes: list[tuple[bool, list[StreamKey]]], room: int
) -> None:
    sharding, wanted = Sharding(room), set[StreamKey]()
    for adding, stream_keys in changes:
        before = {stream_key: sharding.shard_of(stream_key) for stream_key in wanted}
        told = sharding.add(stream_keys) if adding else sharding.remove(stream_keys)
        fresh = set(stream_keys) - wanted if adding else set(stream_keys) & wanted
        assert sorted(map(repr, (p for each in told.values() for p in each))) == sorted(
            map(repr, fresh)
        )
        wanted = wanted | fresh if adding else wanted - fresh
        shards = sharding.shards
        assert {stream_key for each in shards.values() for stream_key in each} == wanted
        assert all(0 < len(each) <= room for each in shards.values())
        for stream_key, number in before.items():
            if stream_key in wanted:
                assert sharding.shard_of(stream_key) == number, "a stream moved"
        for stream_key in set(stream_keys) - wanted:
            assert sharding.shard_of(stream_key) is None


def test_a_connection_is_opened_only_where_no_other_has_room() -> None:
    sharding = Sharding(4)
    sharding.add(STREAM_KEYS[:12])
    assert Counter(map(len, sharding.shards.values())) == {4: 3}
    sharding.remove([STREAM_KEYS[0], STREAM_KEYS[4], STREAM_KEYS[5]])

    assert sharding.add([STREAM_KEYS[12]]) == {1: [STREAM_KEYS[12]]}, "the fullest that has room"
    assert sharding.add([STREAM_KEYS[13]]) == {2: [STREAM_KEYS[13]]}
    assert sharding.remove([STREAM_KEYS[0]]) == {}


attempts = st.lists(
    st.tuples(st.integers(0, 3 * SECOND_NS), st.sampled_from(["good", "bad", "none"])), max_size=80
)


@given(attempts, st.integers(1, 20), st.integers(1, 10))
def test_connects_are_paced_whoever_wants_them(
    wishes: list[tuple[int, str]], connects: int, period_s: int
) -> None:
    limits = replace(NumberedDialect.limits, connects=connects, connects_period_s=period_s)
    limiter, now_ns, at_ns, bad = ConnectLimiter(limits), 0, list[int](), False
    for later_ns, outcome in wishes:
        now_ns += later_ns
        now_ns += limiter.wait_ns(now_ns)
        assert limiter.wait_ns(now_ns) == 0, "one wait is enough"
        limiter.note(now_ns)
        at_ns.append(now_ns)
        within = [at for at in at_ns if at > now_ns - period_s * SECOND_NS]
        assert len(within) <= max(1, int(0.8 * connects))
        if bad:
            recent = [at for at in at_ns if at > now_ns - TROUBLED_PERIOD_NS]
            assert len(recent) <= TROUBLED_CONNECTS, "in trouble it is slower"
        if outcome == "good":
            limiter.succeeded()
            bad = False
        elif outcome == "bad":
            limiter.failed()
            bad = True


def test_what_is_allowed_is_not_waited_for() -> None:
    limiter = ConnectLimiter(NumberedDialect.limits)  # 300 in 300 s
    for _ in range(240):
        assert limiter.wait_ns(0) == 0
        limiter.note(0)
    assert limiter.wait_ns(0) == 300 * SECOND_NS
    assert limiter.wait_ns(300 * SECOND_NS) == 0


@given(st.integers(1, 400), st.integers(1, 10))
def test_several_processes_together_open_no_more_connections(connects: int, processes: int) -> None:
    limits = replace(NumberedDialect.limits, connects=connects)
    opened = 0
    for _ in range(processes):
        limiter = ConnectLimiter(limits, processes)
        while limiter.wait_ns(0) == 0:
            limiter.note(0)
            opened += 1

    assert opened <= max(processes, int(0.8 * connects)), "each may open one"
