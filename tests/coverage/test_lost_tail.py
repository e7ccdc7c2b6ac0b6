"""A lost tail of one record is missing like a longer one, until it is recorded."""

import pytest

from penstock.coverage.continuity import Continuity
from penstock.coverage.id_runs import IdRuns
from penstock.storage.log import open_log
from penstock.telemetry import quiet

from .test_continuity import TRADES, heard, resumed


@pytest.mark.parametrize("lost", [1, 2])
def test_a_tail_is_missing_however_short_it_is(lost: int) -> None:
    log = open_log("memory:")
    continuity = Continuity(["trades"], quiet)
    heard(continuity, log.writer("a"), [1, 2])
    continuity.note_latest(TRADES, 2)
    assert not continuity.behind(TRADES)
    assert continuity.status()[0].missing == []

    continuity.note_latest(TRADES, 2 + lost)
    assert continuity.behind(TRADES)
    assert continuity.status()[0].missing == [(3, 2 + lost)]
    later = resumed(log, continuity.status())
    assert later.behind(TRADES)
    assert later.status()[0].missing == [(3, 2 + lost)]

    heard(later, log.writer("b"), range(3, 3 + lost))
    assert not later.behind(TRADES)
    assert later.status()[0].missing == []


def test_ids_up_to_one_that_exists_lack_it() -> None:
    runs = IdRuns()
    runs.add_run(1, 5)

    assert runs.missing(5) == []
    assert runs.missing(6) == [(6, 6)]
    assert [(gap.first, gap.last, gap.size) for gap in runs.gaps(6)] == [(6, 6, 1)]
