"""What is stored, compared with what the ledger lists, on plain sets of ids."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.listed import Listed, listed
from penstock.coverage.model import GapRow, GapState, Run, SlotCoverage
from penstock.storage.log.keys import Stream

TRADES = Stream("binance", "trades", "btc_usdt")
IDS = st.sets(st.integers(1, 60))


def runs(ids: Iterable[int]) -> IdRuns:
    found = IdRuns()
    for number in ids:
        found.add(number)
    return found


def within(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(IDS, IDS, IDS, IDS, IDS, st.integers(1, 70), st.integers(1, 20))
def test_what_is_missing_equals_sets(  # noqa: PLR0917
    recorded: set[int],
    others: set[int],
    unfilled: set[int],
    just_filled: set[int],
    stored: set[int],
    first: int,
    most: int,
) -> None:
    known = Listed(runs(recorded), runs(others), runs(unfilled), runs(just_filled))
    lost, unreported, batches = set[int](), set[int](), set[int]()
    at = first
    while (batch := known.batch(at, most)) is not None:
        assert batch.first == at <= batch.last
        assert len(within([batch]) & recorded) <= most
        batches |= within([batch])
        missing = known.missing(batch, runs(stored & within([batch])))
        lost |= within(missing.lost)
        unreported |= within(missing.unreported)
        at = batch.last + 1

    span = set(range(first, max(recorded, default=0) + 1))
    gone = span - stored - others - unfilled
    assert batches == span
    assert lost == gone & recorded
    assert unreported == gone - recorded - just_filled


def test_documents_are_told_apart_by_log_and_state() -> None:
    def held(log_id: int, first: int, last: int) -> SlotCoverage:
        return SlotCoverage(
            **TRADES._asdict(), log_id=log_id, slot="a", number=1, by="id",
            runs=(Run(first, last, 0, 0),),
        )  # fmt: skip

    def row(first: int, state: GapState) -> GapRow:
        return GapRow(
            **TRADES._asdict(), by="id", first=first, last=first, cause="lost", state=state,
            closed_ms=100 * first,
        )  # fmt: skip

    rows = [row(20, "open"), row(21, "unfillable"), row(30, "filled"), row(40, "filled")]
    found = listed([held(1, 1, 9), held(2, 5, 12)], rows, "id", 1, settled_ms=3500)

    assert [each.runs() for each in found] == [
        [(1, 9), (30, 30)], [(5, 12)], [(20, 21)], [(40, 40)],
    ]  # fmt: skip
    assert found.missing(IdGap(1, 40), runs([1, 2])).lost == [(3, 4), (30, 30)]
