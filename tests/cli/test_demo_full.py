"""When a full demo counts as passed."""

from typing import Any

import pytest

from penstock.cli.demo_full import is_complete
from penstock.simulator.judge import Findings

GOOD: dict[str, Any] = {
    "processes_killed": 16, "backup_verified": True, "doctor": 0, "trades": 5, "trades_missing": 0,
    "trades_duplicated": 0, "trades_wrong": 0, "gaps_unexplained": 0, "book_mismatches": 0,
    "http_429": 0, "http_418": 0, "exchanges": {"sim": Findings(trades=5)},
}  # fmt: skip


def test_nothing_wrong_is_complete() -> None:
    assert is_complete(GOOD)


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: 1} for name, value in GOOD.items() if value == 0),
        {"backup_verified": False},
        {"exchanges": {"sim": Findings(trades=5), "other": Findings()}},
    ],
    ids=str,
)
def test_one_thing_wrong_is_not(wrong: dict[str, Any]) -> None:
    assert not is_complete({**GOOD, **wrong})
