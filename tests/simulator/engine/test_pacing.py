"""What is due does not depend on how often one asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.engine.pacing import DueTrades, every, instants
from penstock.simulator.market.market import Listing, Market, library_of

START_MS = 1_741_178_096_789
PIECES = st.lists(st.integers(0, 700), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def market() -> Market:
    listing = Listing("ABC", "XYZ", 4, 2, 100_000, 60, 1_609_459_200_000)
    return Market(listing, 7, library_of(listing))


def _frame(at_ms: int) -> bytes | None:
    return b"%d" % at_ms if at_ms % 300 else None


@given(PIECES, st.integers(-1000, 1000))
def test_any_cut_of_a_stretch_gives_the_same_frames(pieces: list[int], since: int) -> None:
    frames = every(100, _frame, START_MS + since)

    cut, at_ms = [], START_MS
    for piece_ms in pieces:
        cut += frames(at_ms, at_ms + piece_ms)
        at_ms += piece_ms

    assert cut == frames(START_MS, at_ms)
    due = [ms for ms in range(START_MS + 1, at_ms + 1) if ms % 100 == 0 and ms > START_MS + since]
    assert cut == [b"%d" % ms for ms in due if ms % 300]
    assert [*instants(100, START_MS, at_ms, START_MS + since)] == due


@given(PIECES)
def test_any_cut_of_a_stretch_gives_the_same_trades(market: Market, pieces: list[int]) -> None:
    due, cut, at_ms = DueTrades(market), [], START_MS
    for piece_ms in pieces:
        cut += due(at_ms, at_ms + piece_ms)
        at_ms += piece_ms

    first, end = market.id_at(START_MS + 1), market.id_at(at_ms + 1)
    assert cut == market.trades(first, end - first)


def test_a_stretch_may_be_asked_for_again_and_out_of_order(market: Market) -> None:
    due = DueTrades(market)
    whole = due(START_MS, START_MS + 60_000)

    assert whole
    late = due(START_MS + 30_000, START_MS + 60_000)
    early = due(START_MS, START_MS + 30_000)
    assert early + late == whole
