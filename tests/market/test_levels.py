"""Levels: read with every digit, and refused unless every text is a number."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import MalformedLevels
from penstock.market.levels import (
    LevelText,
    all_plain_levels,
    as_decimals,
    plain_levels,
    read_levels,
    split_levels,
    write_levels,
)

numbers = st.from_regex(r"[0-9]{1,4}\.[0-9]{1,8}", fullmatch=True)
oddities = st.sampled_from([".", "", "1", "-1.0", "NaN", ".5", "1.0.0", "\n", '"', "]],[["])
sides = st.lists(st.lists(numbers | oddities, min_size=2, max_size=2), max_size=4)


def raw(levels: object) -> Raw:
    return Raw(json.dumps(levels, separators=(",", ":")).encode())


@given(st.lists(st.tuples(numbers, numbers), max_size=100))
def test_levels_come_back_as_they_were_written(levels: list[LevelText]) -> None:
    written = write_levels(levels)

    assert all_plain_levels([written])
    assert plain_levels(bytes(written))
    assert read_levels(written) == split_levels(written) == levels
    assert as_decimals(written) == [(Decimal(price), Decimal(size)) for price, size in levels]


@given(st.lists(sides, max_size=4))
def test_many_sides_called_plain_are_each_read_without_complaint(many: list[object]) -> None:
    raws = [raw(side) for side in many]
    if all_plain_levels(raws):
        for each in raws:
            read_levels(each)


@pytest.mark.parametrize(
    "levels",
    [
        [["1.0", "."]], [[".", "1.0"]], [["1.0", ""]], [["1.0", "1e5"]], [["-1.0", "1.0"]],
        [["1.0"]], [["1.0", "1.0", "1.0"]], [[["1.0", "1.0"]]], ["1.0", "1.0"], [[1.0, 2.0]],
        "1.0", 5, None, {}, [[]], [["1.0", "1.0"], []], [["1.0", "1.0"]] * 200 + [["1.0", "."]],
        [["1.0", "1.0"]] * 200 + [["1.0"]], [7],
    ],
)  # fmt: skip
def test_what_is_not_pairs_of_plain_numbers_is_refused(levels: object) -> None:
    good = raw([["1.0", "1.0"]])

    assert not all_plain_levels([raw(levels)])
    assert not plain_levels(bytes(raw(levels)))
    assert not all_plain_levels([good, raw(levels), good])
    with pytest.raises(MalformedLevels):
        read_levels(raw(levels))


def test_white_space_and_whole_numbers_are_read_with_a_closer_look() -> None:
    spaced = Raw(b'[ ["1.0",\n"2"] ]')

    assert not all_plain_levels([spaced])
    assert read_levels(spaced) == split_levels(spaced) == [("1.0", "2")]


@pytest.mark.parametrize("count", [1, 100])
def test_a_comma_too_many_is_not_taken_for_a_level(count: int) -> None:
    assert not all_plain_levels([Raw(b"[" + b'["1.0","1.0"],' * count + b"]")])


def test_splitting_finds_a_lone_point_too() -> None:
    with pytest.raises(MalformedLevels, match="not a plain number"):
        split_levels(raw([["1.0", "."]]))
