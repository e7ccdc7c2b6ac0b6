"""The same records are gathered to the same batches, whether in C or in Python."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import compiled
from penstock.coverage.batches import new_gatherer
from penstock.storage.log import Stored

from .gathered import BothTaps, run

pytestmark = pytest.mark.skipif(compiled.Gatherer is None, reason=compiled.WHY_NOT)


@given(st.integers(0, 1 << 32))
def test_any_records_are_gathered_the_same(seed: int) -> None:
    run(seed, 60)


def test_most_records_are_gathered_without_python() -> None:
    both, done = BothTaps(7), Counter[str]()
    for name, taps in (("all", both.python.taps), ("rest", both.compiled.taps)):
        keep_one = taps._keep_one

        def counted(stored: Stored, name: str = name, keep_one=keep_one) -> None:  # type: ignore[no-untyped-def]
            done[name] += 1
            keep_one(stored)

        taps._keep_one = counted  # type: ignore[method-assign]
    for _ in range(100):
        both.step()

    assert 0 < done["rest"] < done["all"] / 2


def test_a_failure_of_what_is_called_is_passed_on() -> None:
    gatherer, records = new_gatherer(), [None, object()]
    assert gatherer is not None
    passed = list[object]()

    gatherer.gather(records, {}, passed.append)
    assert passed == records

    def fail(_: object) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        gatherer.gather(records, {}, fail)
    with pytest.raises(TypeError):
        gatherer.gather(records, "no batches", fail)  # type: ignore[arg-type]
