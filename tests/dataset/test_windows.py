"""Windows follow each other, contain everything, and hold about as much as they may."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.windows import HOUR_NS, Piece, windows

SECOND_NS = 1_000_000_000
spans = st.tuples(
    st.integers(0, 100 * HOUR_NS), st.integers(0, 30 * HOUR_NS), st.floats(1, 1e6)
).map(lambda each: Piece(each[0], each[0] + each[1], each[2]))


@given(st.lists(spans, max_size=20), st.integers(1000, 1_000_000))
def test_every_time_of_a_piece_is_in_one_window(pieces: list[Piece], most: int) -> None:
    found = windows(pieces, most)

    assert all(each.since_ns < each.until_ns for each in found)
    assert all(before.until_ns <= after.since_ns for before, after in pairwise(found))
    for piece in pieces:
        for at_ns in (piece.first_ns, piece.last_ns):
            inside = [each for each in found if each.since_ns <= at_ns < each.until_ns]
            assert len(inside) == 1


def test_small_hours_are_joined_and_large_ones_are_split() -> None:
    pieces = [Piece(0, HOUR_NS - 1, 10.0), Piece(HOUR_NS, 2 * HOUR_NS - 1, 10.0)]

    assert windows(pieces, 100) == [(0, 2 * HOUR_NS)]
    assert len(windows(pieces, 5)) == 4


def test_windows_end_where_pieces_do() -> None:
    """So few files are read for two windows, if files follow each other in time."""
    ends = [(0, 10), (10, 25), (25, 30), (50, 60)]
    files = [Piece(first * SECOND_NS, end * SECOND_NS - 1, 30.0) for first, end in ends]

    assert windows(files, 70) == [(0, 25 * SECOND_NS), (25 * SECOND_NS, 60 * SECOND_NS)]


@given(st.lists(spans, max_size=20), st.integers(1, 1000))
def test_a_second_is_in_one_window(pieces: list[Piece], most: int) -> None:
    """Times of copies may differ by less: one has milliseconds, the other microseconds."""
    assert all(end % SECOND_NS == 0 for each in windows(pieces, most) for end in each)
