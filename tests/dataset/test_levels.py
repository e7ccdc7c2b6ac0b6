"""Levels and numbers have the same values, whichever way they are converted."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataset.levels import levels_of
from penstock.dataset.view import DECIMAL, as_floats
from penstock.market.levels import write_levels

NUMBERS = st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,10})?", fullmatch=True)
BOOKS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3), max_size=6)


def shown(texts: list[str]) -> list[list[tuple[float, float]]]:
    frame = pl.DataFrame({"bids": texts}, schema={"bids": pl.String})
    found = frame.select(levels_of(pl.col("bids"), pl.Float64())).to_series()
    return [[(each["price"], each["quantity"]) for each in levels] for levels in found]


@given(BOOKS)
@settings(max_examples=25, deadline=None)
def test_levels_are_those_of_the_json(books: list[list[tuple[str, str]]]) -> None:
    texts = [bytes(write_levels(levels)).decode() for levels in books]

    expected = [[(float(p), float(q)) for p, q in levels] for levels in books]
    assert shown(texts) == expected
    assert shown([text.replace(",", ", ") for text in texts]) == expected


def test_levels_with_more_than_two_values_are_not_mixed_up() -> None:
    assert shown(['[["1","2","3"],["4","5","6"]]', "[]"]) == [[(1.0, 2.0), (4.0, 5.0)], []]
    assert shown(['[["1",2,"3"]]']) == [[(1.0, 2.0)]]


@pytest.mark.parametrize(
    "text",
    [
        '[["1","2"],["3","4"]]', "[[1,2],[3,4]]", '[["1",2],["3",4]]', '[[1,"2"],[3,"4"]]',
        '[ ["1","2"],["3","4"]]', '[["1","2"],["3","4"]] ', '[["1","2",7],["3","4",8]]',
        '[["1","2"], ["3","4"]]', '[["1", "2"],["3","4"]]', '[[ "1","2"],["3","4"]]',
    ],
)  # fmt: skip
def test_levels_may_be_written_in_several_ways(text: str) -> None:
    assert shown(["[]", text, "[]", text]) == [[], [(1.0, 2.0), (3.0, 4.0)]] * 2


@given(st.lists(NUMBERS))
@settings(max_examples=25, deadline=None)
def test_decimals_become_the_nearest_floats(texts: list[str]) -> None:
    values = pl.Series(texts, dtype=pl.String).cast(DECIMAL)

    assert as_floats(values).to_list() == [float(text) for text in texts]
