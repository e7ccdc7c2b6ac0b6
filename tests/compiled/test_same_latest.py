"""The last event of each class and symbol is kept the same, whether in C or in Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock import compiled
from penstock.streaming.latest_events import LatestInPython, latest_events

from .latest import run

pytestmark = pytest.mark.skipif(compiled.Latest is None, reason=compiled.WHY_NOT)


@given(st.integers(0, 1 << 32))
def test_the_same_events_are_taken_in_the_same_order(seed: int) -> None:
    run(seed, 20)


def test_what_is_no_event_is_refused_and_what_was_noted_stays() -> None:
    for latest in (LatestInPython(), latest_events()):
        latest.note([events.trade(1)])
        with pytest.raises(AttributeError):
            latest.note([object()])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            latest.note(None)  # type: ignore[arg-type]
        assert latest.take() == [events.trade(1)]
        assert latest.take() == []
