"""The ids of a stream: what is stored of them says which were seen and which are missing."""

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st
from tests.events import trade

from penstock.coverage.stored import StreamIds, claimed, confirmed, still_logged
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream

TRADES = Stream("toy", "trades", "btc_usdt")
ids = st.sets(st.integers(1, 30), min_size=1)


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def made(seen: set[int], latest: int | None = None) -> StreamIds:
    found = StreamIds()
    for number in seen:
        found.runs.add(number)
    found.latest = latest
    return found


@given(ids, st.none() | st.integers(1, 40))
def test_what_is_stored_is_read_back_as_it_was(seen: set[int], latest: int | None) -> None:
    stored = made(seen, latest).stored(TRADES)

    assert numbers(stored.seen) == seen
    assert numbers(stored.missing) == set(range(min(seen), max(*seen, latest or 0, 1) + 1)) - seen
    assert claimed(stored).stored(TRADES) == stored


@given(ids, ids, st.none() | st.integers(1, 40))
def test_of_two_processes_what_either_has_is_not_missing(
    mine: set[int], theirs: set[int], latest: int | None
) -> None:
    both = claimed(made(mine).stored(TRADES))
    both.add(claimed(made(theirs, latest).stored(TRADES)))
    stored = both.stored(TRADES)

    assert numbers(stored.seen) == mine | theirs
    known = mine | theirs | ({latest} if latest and latest > max(theirs) else set())
    assert numbers(stored.missing) == set(range(min(known), max(known) + 1)) - (mine | theirs)


@given(ids, ids)
def test_what_the_log_does_not_hold_is_missing(said: set[int], held: set[int]) -> None:
    log = open_log("memory:")
    with closing(log.writer("a")) as writer:
        writer.append([trade(number) for number in sorted(held)])
    stored, reader = made(said).stored(TRADES), log.reader()

    for checked in (
        confirmed(stored, TRADES, reader).stored(TRADES),
        still_logged(stored, "toy", reader),
    ):
        assert numbers(checked.seen) >= said & held
        assert numbers(checked.seen) <= held
        assert numbers(checked.missing) >= said - held
        assert not numbers(checked.missing) & numbers(checked.seen)
