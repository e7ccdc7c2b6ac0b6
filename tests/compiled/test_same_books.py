"""The same deltas lead to the same books, whether applied in C or in Python."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import compiled
from penstock.books.updates import new_updater
from penstock.market.events import BookDelta

from .both import BTC, books_of, connection
from .deltas import BothFollow, run, some_snapshot

pytestmark = pytest.mark.skipif(compiled.Updater is None, reason=compiled.WHY_NOT)


@given(st.integers(0, 1 << 32))
def test_any_deltas_lead_to_the_same_books(seed: int) -> None:
    run(seed, 60)


def test_most_deltas_are_applied_without_python() -> None:
    both, done = BothFollow(7), Counter[str]()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            done[name] += 1
            return function(*args)

        return call

    both._python._changed = counted("all", both._python._changed)  # type: ignore[method-assign]
    both._compiled._changed = counted("rest", both._compiled._changed)  # type: ignore[method-assign]
    for _ in range(300):
        both.step()

    assert 0 < done["rest"] < done["all"] / 2


def test_a_delta_whose_book_failed_fails() -> None:
    updater, events = new_updater(), [_delta()]
    assert updater is not None

    def fail(_: BookDelta) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        updater.apply(events, {BTC: "no book"}, fail)
    with pytest.raises(TypeError):
        updater.apply(events, "no books", fail)  # type: ignore[arg-type]


def test_what_is_called_may_change_books_and_events() -> None:
    updater, of = new_updater(), connection("binance")
    assert updater is not None
    events = [_delta(), _delta(), _delta()]
    books = dict(of.books)
    passed = []

    def clear(delta: BookDelta) -> None:
        passed.append(delta)
        events.clear()
        books.clear()

    updater.apply(events, books, clear)

    assert len(passed) == 1  # of the others nobody keeps the book
    assert books_of(of)


def _delta() -> BookDelta:
    empty = some_snapshot(Random(1), BTC, 1)
    return BookDelta(
        exchange="binance", symbol=BTC, received_at_ns=0, at_ns=0, first_update_id=1,
        final_update_id=2, bids_raw=empty.bids_raw, asks_raw=empty.asks_raw,
    )  # fmt: skip
