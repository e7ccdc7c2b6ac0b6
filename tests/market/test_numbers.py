"""Plain numbers: what is one, and that looking at many at once finds the same."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.market.numbers import all_plain, is_plain

# Mostly numbers with a point, so that many together are often all plain.
texts = st.one_of(
    st.from_regex(r"[0-9]{1,4}\.[0-9]{1,4}", fullmatch=True),
    st.from_regex(r"[0-9]{1,4}\.[0-9]{1,4}", fullmatch=True),
    st.text("0123456789.,-+eE_ \n١", max_size=5),
    st.sampled_from([".", ",", "", "NaN", "1.0,2.0", "1.0\n", "\ud800", ".5", "5."]),
)


@pytest.mark.parametrize("text", ["0", "5", "5.", ".5", "0.0", "00.50", "9" * 40 + "." + "9" * 40])
def test_digits_with_at_most_one_point_are_a_plain_number(text: str) -> None:
    assert is_plain(text)
    assert Decimal(text) >= 0


@pytest.mark.parametrize(
    "text", ["", ".", "..", "1.2.3", "-1", "+1", "1e5", "NaN", "Infinity", " 1", "1\n", "1_0", "١"]
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_plain(text)
    assert not all_plain(["1.5", text])


@given(st.lists(texts, max_size=12))
def test_many_are_plain_if_each_is(many: list[str]) -> None:
    assert all_plain(many) == all(is_plain(text) for text in many)
