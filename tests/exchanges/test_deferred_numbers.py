"""Numbers handed in to be checked: all are looked at, once, and the odd one is named."""

import pytest
from msgspec import Raw

from penstock.exchanges.deferred_numbers import DeferredNumbers

GOOD, BAD = Raw(b'[["1.0","2.0"]]'), Raw(b'[["1.0","NaN"]]')


def handed_in(texts: list[str], levels: list[Raw]) -> DeferredNumbers:
    deferred = DeferredNumbers()
    deferred.texts.extend(texts)
    deferred.levels.extend(levels)
    return deferred


def test_what_is_plain_is_forgotten() -> None:
    deferred = handed_in(["1.0", "2.5"], [GOOD, GOOD])

    assert deferred.are_plain()
    assert (deferred.texts, deferred.levels) == ([], [])


@pytest.mark.parametrize(
    ("texts", "levels", "odd"),
    [(["1.0", "NaN"], [GOOD], "'NaN'"), (["."], [], "'.'"), (["1.0"], [GOOD, BAD], "'NaN'")],
)
def test_what_is_not_is_named_after_a_closer_look(
    texts: list[str], levels: list[Raw], odd: str
) -> None:
    deferred = handed_in(texts, levels)

    assert not deferred.are_plain()
    assert odd in (deferred.problem() or "")
    assert deferred.are_plain(), "nothing is left of it"


def test_a_closer_look_may_find_nothing_wrong() -> None:
    deferred = handed_in(["1.0"], [Raw(b'[ ["1","2"] ]')])

    assert not deferred.are_plain()
    deferred.texts.append("1.0")
    assert deferred.problem() is None


def test_what_is_forgotten_is_not_looked_at() -> None:
    deferred = handed_in(["NaN"], [BAD])
    deferred.forget()

    assert deferred.are_plain()
    assert deferred.problem() is None
