"""Draws depend on their purpose alone, and are the same on every machine."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.market.rng import MASK, draws, key, mix


def test_draws_are_those_of_every_other_machine() -> None:
    assert [f"{draw:016x}" for draw in draws(3, "penstock", 7)] == [
        "f06acecd73e15896",
        "e95e5cff7d7fdfff",
        "da4a4b83fc73c4fb",
    ]
    assert mix(0) == 0xE220A8397B1DCDAF, "the first output of splitmix64 for seed 0"


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_longer_run_begins_with_the_shorter_one(few: int, more: int) -> None:
    assert draws(few + more, "run")[:few] == draws(few, "run")


def test_purposes_do_not_run_into_one_another() -> None:
    assert key("ab", "c") != key("a", "bc")
    assert key("a", 1) != key("a", 2)


@given(st.integers(0, MASK), st.integers(0, MASK))
def test_mixing_keeps_numbers_apart(a: int, b: int) -> None:
    assert 0 <= mix(a) <= MASK
    assert (mix(a) == mix(b)) == (a == b)


def test_neighbours_mix_to_bits_that_are_evenly_spread() -> None:
    lowest = Counter(mix(number) & 7 for number in range(8_000))

    assert all(900 < count < 1_100 for count in lowest.values())
