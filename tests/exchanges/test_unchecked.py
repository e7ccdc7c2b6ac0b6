"""Numbers handed in to be checked: all are looked at, once, and the odd one is named."""

import pytest
from msgspec import Raw

from penstock.exchanges.unchecked import Unchecked

GOOD, BAD = Raw(b'[["1.0","2.0"]]'), Raw(b'[["1.0","NaN"]]')


def handed_in(texts: list[str], levels: list[Raw]) -> Unchecked:
    unchecked = Unchecked()
    unchecked.texts.extend(texts)
    unchecked.levels.extend(levels)
    return unchecked


def test_what_is_plain_is_forgotten() -> None:
    unchecked = handed_in(["1.0", "2.5"], [GOOD, GOOD])

    assert unchecked.are_plain()
    assert (unchecked.texts, unchecked.levels) == ([], [])


@pytest.mark.parametrize(
    ("texts", "levels", "odd"),
    [(["1.0", "NaN"], [GOOD], "'NaN'"), (["."], [], "'.'"), (["1.0"], [GOOD, BAD], "'NaN'")],
)
def test_what_is_not_is_named_after_a_closer_look(
    texts: list[str], levels: list[Raw], odd: str
) -> None:
    unchecked = handed_in(texts, levels)

    assert not unchecked.are_plain()
    assert odd in (unchecked.complaint() or "")
    assert unchecked.are_plain(), "nothing is left of it"


def test_a_closer_look_may_find_nothing_wrong() -> None:
    unchecked = handed_in(["1.0"], [Raw(b'[ ["1","2"] ]')])

    assert not unchecked.are_plain()
    unchecked.texts.append("1.0")
    assert unchecked.complaint() is None


def test_what_is_forgotten_is_not_looked_at() -> None:
    unchecked = handed_in(["NaN"], [BAD])
    unchecked.forget()

    assert unchecked.are_plain()
    assert unchecked.complaint() is None
